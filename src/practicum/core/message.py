"""What passes between a world and a policy: observations, actions, chat messages."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as encoded bytes, named by its content."""

    data: bytes = field(repr=False)
    media_type: str = "image/png"

    @property
    def hash(self) -> str:
        """SHA-256 of the encoded bytes, in hex."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class Observation:
    """What the world shows: text, and pictures if it has any."""

    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """One command in the environment's own language."""

    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Role
    text: str
    images: tuple[Image, ...] = ()
