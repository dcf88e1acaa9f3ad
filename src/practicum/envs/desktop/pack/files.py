"""File manager tasks: the file manager shows the home folder or one in it."""

from __future__ import annotations

import random
from typing import Any

from practicum.envs.desktop.pack.family import (
    NOUNS,
    Family,
    command_holds,
    file_exists,
    file_is,
    steps,
    text_file,
)

Drawn = dict[str, Any]


def _open(shows: str) -> list[dict[str, Any]]:
    """Show the folder Documents, with an icon in it."""
    return [
        {"do": "launch", "app": "files", "arguments": ["~/Documents"], "window": "Documents"},
        # The file manager tells of no icon that was there before anybody asked; this reads again.
        {"do": "act", "action": "wait 0.5"},
        {"do": "act", "action": "key f5"},
        {"do": "await", "shows": f'icon "{shows}"'},
    ]


def _named(names: list[str]) -> list[dict[str, str]]:
    return [text_file(f"~/Documents/{name}.txt", [f"about {name}"]) for name in names]


def _pick(name: str) -> str:
    return f'click [icon "{name}"]'


def _new_folder(rng: random.Random) -> Drawn:
    name, wrong, *others = rng.sample(NOUNS, 4)

    def make(folder: str) -> list[dict[str, str]]:
        return steps(
            "key ctrl+shift+n",
            ("key ctrl+a", 'window "Creating New Folder"'),
            f"type {folder}",
            "key enter",
        )

    return {
        "instruction": f"Create a folder called {name} in the folder Documents, which the file "
        "manager shows.",
        "setup": [*_named(others), *_open(f"{others[0]}.txt")],
        "checks": [command_holds(f"test -d ~/Documents/{name}")],
        "oracle": make(name),
        "negative": make(wrong),
    }


def _rename(rng: random.Random) -> Drawn:
    old, new, other = rng.sample(NOUNS, 3)

    def rename(name: str) -> list[dict[str, str]]:
        return steps(
            _pick(f"{name}.txt"),
            "key f2",
            ("key ctrl+a", 'window "Rename*"'),
            f"type {new}.txt",
            "key enter",
        )

    return {
        "instruction": f"Rename the file {old}.txt in the folder Documents, which the file manager "
        f"shows, to {new}.txt.",
        "setup": [*_named([old, other]), *_open(f"{old}.txt")],
        "checks": [
            file_is(f"~/Documents/{new}.txt", f"about {old}"),
            file_exists(f"~/Documents/{old}.txt", exists=False),
        ],
        "oracle": rename(old),
        "negative": rename(other),
    }


def _delete(rng: random.Random) -> Drawn:
    names = rng.sample(NOUNS, 4)
    target, other = names[0], names[1]
    rng.shuffle(names)

    def delete(name: str) -> list[dict[str, str]]:
        return steps(_pick(f"{name}.txt"), "key delete", ("key enter", 'window "Confirm*"'))

    return {
        "instruction": f"Delete the file {target}.txt from the folder Documents, which the file "
        "manager shows, and nothing else. The trash is fine.",
        "setup": [*_named(names), *_open(f"{target}.txt")],
        "checks": [
            file_exists(f"~/Documents/{target}.txt", exists=False),
            *(file_exists(f"~/Documents/{name}.txt") for name in names if name != target),
        ],
        "oracle": delete(target),
        "negative": delete(other),
    }


def _into_folder(rng: random.Random, *, moves: bool) -> Drawn:
    folder, name, other = rng.sample(NOUNS, 3)
    take, wrong = ("key ctrl+x", "key ctrl+c") if moves else ("key ctrl+c", "key ctrl+x")

    def bring(keys: str) -> list[dict[str, str]]:
        return steps(
            _pick(f"{name}.txt"),
            keys,
            f'double_click [icon "{folder}"]',
            ("key ctrl+v", f'window "{folder}"'),
        )

    word = "Move" if moves else "Copy"
    left = "" if moves else f" {name}.txt also stays where it is."
    return {
        "instruction": f"{word} the file {name}.txt from the folder Documents, which the file "
        f"manager shows, into the folder {folder} in it.{left}",
        "setup": [
            *_named([name, other]),
            {"do": "run", "command": f"mkdir ~/Documents/{folder}"},
            *_open(folder),
        ],
        "checks": [
            file_is(f"~/Documents/{folder}/{name}.txt", f"about {name}"),
            file_exists(f"~/Documents/{name}.txt", exists=not moves),
        ],
        "milestones": [
            {"name": "folder open", "check": {"kind": "window", "title": {"equals": folder}}},
            {"name": "in the folder", "check": file_exists(f"~/Documents/{folder}/{name}.txt")},
        ],
        "oracle": bring(take),
        "negative": bring(wrong),
    }


def _move(rng: random.Random) -> Drawn:
    return _into_folder(rng, moves=True)


def _copy(rng: random.Random) -> Drawn:
    return _into_folder(rng, moves=False)


FAMILIES = (
    Family("new-folder", "files", "train", _new_folder),
    Family("rename", "files", "train", _rename),
    Family("move", "files", "train", _move),
    Family("delete", "files", "dev", _delete),
    Family("copy", "files", "test", _copy),
)
