"""Terminal tasks: a shell is open in the home folder."""

from __future__ import annotations

import random
from typing import Any

from practicum.envs.desktop.pack.family import (
    CITIES,
    FIRST_NAMES,
    NOUNS,
    Family,
    command_holds,
    file_is,
    steps,
    text_file,
)

Drawn = dict[str, Any]
OPEN = {"do": "launch", "app": "terminal", "window": "Terminal"}


def shell(*lines: str) -> list[dict[str, str]]:
    """Type lines into the terminal, one after the other."""
    return steps(*[act for line in lines for act in (f"type {line}", "key enter")])


def _make_folders(rng: random.Random) -> Drawn:
    project, first, second = rng.sample(NOUNS, 3)
    return {
        "instruction": f"Use the terminal to create the folder {project} in your home folder, "
        f"with two folders in it called {first} and {second}.",
        "setup": [OPEN],
        "checks": [command_holds(f"test -d ~/{project}/{name}") for name in (first, second)],
        "milestones": [
            {"name": "project folder", "check": command_holds(f"test -d ~/{project}")},
            {"name": "first folder", "check": command_holds(f"test -d ~/{project}/{first}")},
            {"name": "second folder", "check": command_holds(f"test -d ~/{project}/{second}")},
        ],
        "oracle": shell(f"mkdir -p {project}/{first} {project}/{second}"),
        "negative": shell(f"mkdir -p {project} {first} {second}"),
    }


def _count_lines(rng: random.Random) -> Drawn:
    wanted, *others = rng.sample(CITIES, 4)
    count = rng.randint(5, 12)
    lines = [f"{rng.choice(FIRST_NAMES)} flew to {wanted}" for _ in range(count)]
    lines += [f"{rng.choice(FIRST_NAMES)} flew to {rng.choice(others)}" for _ in range(15)]
    rng.shuffle(lines)
    return {
        "instruction": f"The file flights.txt in your home folder has one flight per line. Use the "
        f"terminal to find out how many flights went to {wanted}, and write just that number into "
        f"the file count.txt in your home folder.",
        "setup": [text_file("~/flights.txt", lines), OPEN],
        "checks": [file_is("~/count.txt", str(count))],
        "oracle": shell(f"grep -c {wanted} flights.txt > count.txt"),
        "negative": shell("wc -l < flights.txt > count.txt"),
    }


def _rename_all(rng: random.Random) -> Drawn:
    folder, *names = rng.sample(NOUNS, rng.randint(4, 6))
    old, new = rng.sample(["txt", "log", "md", "dat", "csv"], 2)
    return {
        "instruction": f"All files in the folder {folder} in your home folder end in .{old}. Use "
        f"the terminal to rename them so that they end in .{new} instead.",
        "setup": [
            *(text_file(f"~/{folder}/{name}.{old}", [f"about {name}"]) for name in names),
            OPEN,
        ],
        "checks": [
            *(file_is(f"~/{folder}/{name}.{new}", f"about {name}") for name in names),
            command_holds(f"test $(ls ~/{folder} | wc -l) = {len(names)}"),
        ],
        "oracle": shell(f"cd {folder}", f"for f in *.{old}; do mv $f ${{f%.{old}}}.{new}; done"),
        "negative": shell(f"cd {folder}", f"for f in *.{old}; do cp $f ${{f%.{old}}}.{new}; done"),
    }


def _highest(rng: random.Random) -> Drawn:
    numbers = rng.sample(range(5, 4000), 14)
    best = sorted(numbers, reverse=True)[:3]
    # So that sorting as text gives something else.
    wrong = sorted(map(str, numbers), reverse=True)[:3]
    if wrong == [str(n) for n in best]:
        return _highest(rng)
    return {
        "instruction": "The file scores.txt in your home folder has one number per line. Use the "
        "terminal to write the three highest numbers into the file best.txt in your home folder, "
        "one per line, the highest first.",
        "setup": [text_file("~/scores.txt", [str(n) for n in numbers]), OPEN],
        "checks": [file_is("~/best.txt", "\n".join(map(str, best)))],
        "oracle": shell("sort -rn scores.txt | head -n 3 > best.txt"),
        "negative": shell("sort -r scores.txt | head -n 3 > best.txt"),
    }


def _permissions(rng: random.Random) -> Drawn:
    name = rng.choice(NOUNS)
    return {
        "instruction": f"Use the terminal to make the script {name}.sh in your home folder "
        f"executable for you. Nobody else may read, change or run it; you may do all three.",
        "setup": [text_file(f"~/{name}.sh", ["#!/bin/sh", "echo it works"]), OPEN],
        "checks": [
            {"kind": "command", "command": f"stat -c %a ~/{name}.sh", "output": {"equals": "700"}}
        ],
        "milestones": [{"name": "executable", "check": command_holds(f"test -x ~/{name}.sh")}],
        "oracle": shell(f"chmod 700 {name}.sh"),
        "negative": shell(f"chmod +x {name}.sh"),
    }


def _archive(rng: random.Random) -> Drawn:
    folder, other, *names = rng.sample(NOUNS, rng.randint(5, 7))
    code = f"""
import tarfile
def check(files, answer):
    path = files.get("~/{folder}.tar.gz")
    if path is None or not tarfile.is_tarfile(path):
        return False
    with tarfile.open(path, "r:gz") as archive:
        names = {{name.split("/")[-1] for name in archive.getnames() if name.endswith(".txt")}}
    return sorted(names) == {sorted(f"{name}.txt" for name in names)!r}
"""
    return {
        "instruction": f"Use the terminal to pack the folder {folder} of your home folder, with "
        f"all its files, into the compressed archive {folder}.tar.gz in your home folder.",
        "setup": [
            *(text_file(f"~/{folder}/{name}.txt", [name]) for name in names),
            text_file(f"~/{other}/notes.txt", ["not this one"]),
            OPEN,
        ],
        "checks": [{"kind": "python", "code": code, "files": [f"~/{folder}.tar.gz"]}],
        "oracle": shell(f"tar -czf {folder}.tar.gz {folder}"),
        "negative": shell(f"tar -czf {folder}.tar.gz {other}"),
    }


def _find_file(rng: random.Random) -> Drawn:
    folder, *names = rng.sample(NOUNS, 9)
    code = str(rng.randint(10_000, 99_999))
    target = rng.choice(names)
    decoy = next(name for name in names if name != target)
    return {
        "instruction": f"One file in the folder {folder} of your home folder, or in a folder "
        f"below it, has the number {code} in it. Which one? Answer with the file's name without "
        "its folder.",
        "setup": [
            *(
                text_file(
                    f"~/{folder}/{name[0]}/{name}.txt",
                    ["order", code if name == target else str(int(code) - 1)],
                )
                for name in names
            ),
            OPEN,
        ],
        "checks": [{"kind": "answer", "text": {"equals": f"{target}.txt"}}],
        "oracle": [*shell(f"grep -rl {code} {folder}"), *steps(f"answer {target}.txt")],
        "negative": [*shell(f"ls -R {folder}"), *steps(f"answer {decoy}.txt")],
    }


def _link(rng: random.Random) -> Drawn:
    folder, link = rng.sample(NOUNS, 2)
    return {
        "instruction": f"Use the terminal to make a symbolic link called {link} on your Desktop "
        f"(the folder Desktop in your home folder) that leads to the folder {folder} in your home "
        "folder.",
        "setup": [text_file(f"~/{folder}/readme.txt", [f"This is {folder}."]), OPEN],
        "checks": [
            command_holds(f"test -L ~/Desktop/{link}"),
            command_holds(f"test $(readlink -f ~/Desktop/{link}) = $(readlink -f ~/{folder})"),
        ],
        "oracle": shell(f"ln -s ~/{folder} ~/Desktop/{link}"),
        "negative": shell(f"cp -r ~/{folder} ~/Desktop/{link}"),
    }


FAMILIES = (
    Family("make-folders", "terminal", "train", _make_folders),
    Family("count-lines", "terminal", "train", _count_lines),
    Family("rename-all", "terminal", "train", _rename_all),
    Family("highest", "terminal", "train", _highest),
    Family("permissions", "terminal", "dev", _permissions),
    Family("link", "terminal", "dev", _link),
    Family("archive", "terminal", "test", _archive),
    Family("find-file", "terminal", "test", _find_file),
)
