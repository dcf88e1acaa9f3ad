"""What a look at a machine or a config found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    topic: str
    name: str
    is_fine: bool
    detail: str
    remedy: str = ""
    """The line to type when it is not fine."""
