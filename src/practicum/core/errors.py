"""Everything that can go wrong, named by the boundary that broke.

```
PracticumError
├── ConfigError          the user's input is wrong: one line, exit code 2
├── StoreError           a run folder cannot be read or written as asked
└── EpisodeError         an episode broke: no reward, counted by `kind`
    ├── EnvError         the environment
    ├── PolicyError      the model or its server
    ├── RewardError      the judge
    └── MachineError     the machine under the environment (desktop, JVM, lease)
```

An `EpisodeError` is our fault, never the agent's. It becomes data (`ErrorInfo`) in
exactly one place, `practicum.rollout.play`. A malformed *answer* of the model is not
an error of this tree: it is a `FormatError` value, shown to the model as feedback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar


class PracticumError(Exception):
    """Any error this package raises on purpose."""


class ConfigError(PracticumError):
    """The user asked for something that does not exist or does not fit."""


class StoreError(PracticumError):
    """A run folder cannot be read or written as asked; nothing in it was changed."""


class DivergedError(PracticumError):
    """A training's numbers are no numbers any more; the weights are as they were before."""


class EpisodeError(PracticumError):
    """An episode broke for a reason the policy cannot cause."""

    boundary: ClassVar[str] = "episode"

    def __init__(self, message: str, *, kind: str = "crash") -> None:
        super().__init__(message)
        self.kind = kind
        """One word for the cause, counted in reports: `timeout`, `lost-session`, …"""


class EnvError(EpisodeError):
    """The environment broke."""

    boundary = "env"


class PolicyError(EpisodeError):
    """The model, or the server in front of it, broke."""

    boundary = "policy"


class RewardError(EpisodeError):
    """The judge could not judge."""

    boundary = "reward"


class MachineError(EpisodeError):
    """The machine under the environment broke."""

    boundary = "machine"


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An `EpisodeError` as data: what a report counts and a viewer shows."""

    kind: str
    """`boundary/cause`, as in `env/timeout`."""
    message: str
    turn: int
    """How many turns were complete when it happened."""

    @classmethod
    def of(cls, error: EpisodeError, *, turn: int) -> ErrorInfo:
        """Turn a raised error into data."""
        return cls(kind=f"{error.boundary}/{error.kind}", message=str(error), turn=turn)

    def to_error(self) -> EpisodeError:
        """Make the error again, for callers that expect it raised."""
        boundary, _, kind = self.kind.partition("/")
        types = {t.boundary: t for t in (EnvError, PolicyError, RewardError, MachineError)}
        return types.get(boundary, EpisodeError)(self.message, kind=kind)


def unknown_name(what: str, given: str, known: Iterable[str]) -> ConfigError:
    """Build the error for a name that does not exist, with the nearest ones that do."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(names) if names else "none"
    return ConfigError(f"unknown {what} {given!r}: {hint}known: {listed}")
