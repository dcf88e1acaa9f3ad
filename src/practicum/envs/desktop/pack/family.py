"""What a family of tasks is, and the words its tasks are made of."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from practicum.config.base import read_config
from practicum.core.canonical import stable_seed
from practicum.envs.desktop.spec import App, TaskSpec

Make = Callable[[random.Random], dict[str, Any]]
"""Draws one task of a family, without its apps and family."""


@dataclass(frozen=True, slots=True)
class Family:
    """Tasks that ask for the same thing with other names and numbers."""

    name: str
    app: App
    split: str
    make: Make

    def task(self, variant: int) -> TaskSpec:
        """The family's task of a number; equal for equal numbers."""
        rng = random.Random(stable_seed("desktop", self.name, variant))
        drawn = self.make(rng)
        return read_config(
            TaskSpec,
            values={**drawn, "apps": [self.app], "family": f"{self.app}/{self.name}"},
        )


def steps(*acts: str | tuple[str, str]) -> list[dict[str, str]]:
    """Write the steps of a player; a pair is an action and what to wait for before it."""
    return [{"act": a} if isinstance(a, str) else {"act": a[0], "when": a[1]} for a in acts]


def text_file(path: str, lines: Sequence[str]) -> dict[str, str]:
    """The set-up step that writes a file of lines."""
    return {"do": "write", "path": path, "text": "".join(f"{line}\n" for line in lines)}


def file_is(path: str, text: str) -> dict[str, Any]:
    """The check that a file has a text."""
    return {"kind": "file", "path": path, "text": {"equals": text}}


def file_exists(path: str, exists: bool = True) -> dict[str, Any]:
    """The check that a file is there, or is not."""
    return {"kind": "file", "path": path, "exists": exists}


def command_holds(command: str) -> dict[str, Any]:
    """The check that a shell command succeeds."""
    return {"kind": "command", "command": command}


NOUNS = (
    "amber anchor basket beacon bridge candle canyon copper coral desert ember falcon forest "
    "garden glacier harbor island jungle kettle lantern maple meadow mirror mountain nickel ocean "
    "orchard parcel pebble pepper prairie quartz rabbit river saddle silver spruce summit "
    "thunder timber tunnel valley velvet violet walnut willow window winter"
).split()
FIRST_NAMES = (
    "Ada Bruno Clara David Elena Felix Greta Hugo Ines Jonas Karla Leon Mara Nils Olga Paul Quinn "
    "Rosa Simon Tara Uwe Vera Wanda Yann Zora"
).split()
CITIES = (
    "Bergen Porto Ghent Lyon Turin Graz Malmo Cork Gdansk Split Leeds Bilbao Basel Tartu Riga Varna"
).split()
FRUIT = "apples bananas cherries dates figs grapes lemons mangos olives peaches pears plums".split()
