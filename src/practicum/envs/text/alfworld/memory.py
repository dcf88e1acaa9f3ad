"""What a player knows of the house, read from the messages of an episode and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from practicum.core.agent import Situation
from practicum.envs.text.alfworld import language
from practicum.envs.text.alfworld.goals import Goal, read_goal
from practicum.envs.text.alfworld.things import kind

_THING = re.compile(r"\ba ([a-z]+ \d+)")
_ARRIVE = re.compile(r"You arrive at ([a-z]+ \d+)\.")
_SEEN = re.compile(r"(?:On the|The) ([a-z]+ \d+)(?: is open\. In it)?, you see ([^.]*)\.")
_TAKEN = re.compile(r"You pick up the ([a-z]+ \d+) from the ([a-z]+ \d+)\.")
_PLACED = re.compile(r"You (?:move|put) the ([a-z]+ \d+) (?:to|in/on|in|on) the ([a-z]+ \d+)\.")
_TREATED = re.compile(r"You (clean|heat|cool) the ([a-z]+ \d+) using the [a-z]+ \d+\.")
_CLOSED = re.compile(r"(?:The ([a-z]+ \d+) is closed|You close the ([a-z]+ \d+))\.")


@dataclass(slots=True)
class Memory:
    """Where things are, as far as the messages tell."""

    goal: Goal | None
    receptacles: tuple[str, ...]
    actions: tuple[str, ...] = ()
    """What the latest message lists as possible."""
    at: str | None = None
    held: str | None = None
    contents: dict[str, list[str]] = field(default_factory=dict)
    """Receptacle -> what was seen in it; one that was never seen into is not there."""
    closed: set[str] = field(default_factory=set)
    treated: dict[str, str] = field(default_factory=dict)
    """Object -> `clean`, `heat` or `cool`, the latest done to it."""

    @classmethod
    def of(cls, situation: Situation) -> Memory:
        """Read all messages of an episode so far."""
        texts = list(_texts(situation))
        first, _ = language.split_actions(texts[0])
        room, _, goal = first.partition(f"\n{language.TASK_MARK}")
        memory = cls(read_goal(goal.strip().removesuffix(".")), tuple(_THING.findall(room)))
        for text in texts:
            said, actions = language.split_actions(text)
            memory.actions = tuple(actions) or memory.actions
            memory.read(said)
        return memory

    def read(self, said: str) -> None:
        """Take in one message."""
        if match := _ARRIVE.match(said):
            self.at = match[1]
        if match := _SEEN.search(said):
            self.contents[match[1]] = _THING.findall(match[2])
            self.closed.discard(match[1])
        if match := _CLOSED.search(said):
            self.closed.add(match[1] or match[2])
        if match := _TAKEN.match(said):
            self.held = match[1]
            if match[1] in self.contents.get(match[2], ()):
                self.contents[match[2]].remove(match[1])
        if match := _PLACED.match(said):
            self.held = None
            self.contents.setdefault(match[2], []).append(match[1])
        if match := _TREATED.match(said):
            self.treated[match[2]] = match[1]

    def is_at(self, place: str) -> bool:
        """Whether a receptacle is in reach; in ALFWorld's own games several can be at once."""
        return place == self.at or bool(self.actions and f"go to {place}" not in self.actions)

    def find(self, word: str) -> Iterator[tuple[str, str]]:
        """Objects of a kind that were seen and not taken since, with their places."""
        for place, names in self.contents.items():
            for name in names:
                if kind(name) == word:
                    yield name, place

    def of_kind(self, word: str) -> list[str]:
        """The receptacles of a kind, lowest number first."""
        named = [r for r in self.receptacles if kind(r) == word]
        return sorted(named, key=_number)

    def unseen(self) -> list[str]:
        """Receptacles nobody has looked into yet, lowest numbers first."""
        return sorted((r for r in self.receptacles if r not in self.contents), key=_number)


def _number(name: str) -> int:
    return int(name.partition(" ")[2])


def _texts(situation: Situation) -> Iterator[str]:
    yield from (turn.observation.text for turn in situation.history)
    yield situation.observation.text
