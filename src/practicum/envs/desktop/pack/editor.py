"""Editor tasks: a text file is open in the editor."""

from __future__ import annotations

import random
from typing import Any

from practicum.envs.desktop.pack.family import (
    CITIES,
    FIRST_NAMES,
    FRUIT,
    NOUNS,
    Family,
    file_exists,
    file_is,
    steps,
    text_file,
)

Drawn = dict[str, Any]
SAVE = "key ctrl+s"


def _open(path: str, lines: list[str]) -> list[dict[str, Any]]:
    name = path.rpartition("/")[2]
    return [
        text_file(path, lines),
        {"do": "launch", "app": "editor", "arguments": [path], "window": name},
    ]


def _sentence(rng: random.Random) -> str:
    return (
        f"{rng.choice(FIRST_NAMES)} brought {rng.randint(2, 90)} {rng.choice(FRUIT)} "
        f"from {rng.choice(CITIES)}."
    )


def _write(rng: random.Random) -> Drawn:
    name, text = rng.choice(NOUNS), _sentence(rng)
    path = f"~/Documents/{name}.txt"
    return {
        "instruction": f"The empty file {name}.txt is open in the editor. Write this sentence into "
        f"it and save the file: {text}",
        "setup": _open(path, []),
        "checks": [file_is(path, text)],
        "oracle": steps(f"type {text}", SAVE),
        "negative": steps(f"type {text}"),
    }


def _append(rng: random.Random) -> Drawn:
    name, lines, new = rng.choice(NOUNS), [_sentence(rng) for _ in range(4)], _sentence(rng)
    path = f"~/{name}.txt"
    return {
        "instruction": f"Add this line at the end of {name}.txt, which is open in the editor, as a "
        f"line of its own, and save the file: {new}",
        "setup": _open(path, lines),
        "checks": [file_is(path, "\n".join([*lines, new]))],
        "milestones": [
            {
                "name": "line is there",
                "check": {"kind": "file", "path": path, "text": {"contains": new}},
            }
        ],
        "oracle": steps("key ctrl+end", f"type {new}", SAVE),
        "negative": steps("key ctrl+home", f"type {new}", "key enter", SAVE),
    }


def _replace(rng: random.Random) -> Drawn:
    name = rng.choice(NOUNS)
    old, new = rng.sample(CITIES, 2)
    lines = [
        f"{person} moved to {old} with {rng.randint(2, 9)} boxes."
        for person in rng.sample(FIRST_NAMES, 4)
    ]
    path = f"~/{name}.txt"
    swapped = [line.replace(old, new) for line in lines]
    once = [swapped[0], *lines[1:]]
    return {
        "instruction": f"In {name}.txt, which is open in the editor, every {old} should read "
        f"{new}. Change all of them and save the file.",
        "setup": _open(path, lines),
        "checks": [file_is(path, "\n".join(swapped))],
        "oracle": steps("key ctrl+a", f"type {chr(10).join(swapped)}", SAVE),
        "negative": steps("key ctrl+a", f"type {chr(10).join(once)}", SAVE),
    }


def _remove_line(rng: random.Random) -> Drawn:
    name, number = rng.choice(NOUNS), rng.randint(2, 4)
    lines = [f"{position}. {_sentence(rng)}" for position in range(1, 6)]
    path = f"~/{name}.txt"
    rest = [line for line in lines if not line.startswith(f"{number}.")]

    def cut(line: int) -> list[dict[str, str]]:
        down = ["key down"] * (line - 1)
        return steps("key ctrl+home", *down, "key shift+down", "key delete", SAVE)

    return {
        "instruction": f"Remove line {number} from {name}.txt, which is open in the editor, and "
        "save the file. The other lines stay as they are, with no empty line left behind.",
        "setup": _open(path, lines),
        "checks": [file_is(path, "\n".join(rest))],
        "oracle": cut(number),
        "negative": cut(number + 1),
    }


def _save_as(rng: random.Random) -> Drawn:
    old, new = rng.sample(NOUNS, 2)
    lines = [_sentence(rng) for _ in range(3)]
    path = f"~/{old}.txt"
    return {
        "instruction": f"The file {old}.txt is open in the editor. Save it under the name "
        f"{new}.txt in your home folder. The file {old}.txt stays there too.",
        "setup": _open(path, lines),
        "checks": [file_is(f"~/{new}.txt", "\n".join(lines)), file_exists(path)],
        "oracle": steps(
            "key ctrl+shift+s",
            ("key ctrl+a", 'window "Save As"'),
            f"type {new}.txt",
            'click [push button "Save"]',
        ),
        "negative": steps(f"type {new}", SAVE),
    }


def _sort_list(rng: random.Random) -> Drawn:
    name, people = rng.choice(NOUNS), rng.sample(FIRST_NAMES, 6)
    if sorted(people) in (people, people[::-1]):
        return _sort_list(rng)
    path = f"~/{name}.txt"

    def rewrite(lines: list[str]) -> list[dict[str, str]]:
        return steps("key ctrl+a", f"type {chr(10).join(lines)}", SAVE)

    return {
        "instruction": f"The lines of {name}.txt, which is open in the editor, are names. Put them "
        "into alphabetical order, one per line, and save the file.",
        "setup": _open(path, people),
        "checks": [file_is(path, "\n".join(sorted(people)))],
        "oracle": rewrite(sorted(people)),
        "negative": rewrite(sorted(people, reverse=True)),
    }


FAMILIES = (
    Family("write", "editor", "train", _write),
    Family("append", "editor", "train", _append),
    Family("replace", "editor", "train", _replace),
    Family("remove-line", "editor", "dev", _remove_line),
    Family("save-as", "editor", "test", _save_as),
    Family("sort-list", "editor", "test", _sort_list),
)
