"""Elements by role and name, as oracles and set-up steps write them: `push button "Save"`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_TARGET = re.compile(r'(?P<role>[a-z][a-z ]*?) (?P<name>"(?:[^"\\]|\\.)*")(?: #(?P<nth>\d+))?')


@dataclass(frozen=True, slots=True)
class Target:
    """An element to look for: `role "name"`, `role "beginning*"`, `role "name" #2`."""

    role: str
    name: str
    nth: int = 1

    def fits(self, name: str) -> bool:
        """Say whether an element's name is the one meant."""
        if self.name.endswith("*"):
            return name.startswith(self.name[:-1])
        return name == self.name


def read_target(text: str) -> Target:
    """Read a target, or raise `ValueError`."""
    match = _TARGET.fullmatch(text)
    if match is None:
        raise ValueError(f'{text!r} names no element: write it as push button "Save"')
    return Target(match["role"], json.loads(match["name"]), int(match["nth"] or 1))


PLACE = re.compile(r'\[(?P<target>[a-z][a-z ]*? "(?:[^"\\]|\\.)*"(?: #\d+)?)\]')
"""A target inside an action, where its coordinates go: `click [push button "Save"]`."""
