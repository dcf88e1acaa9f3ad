"""Which groups AReaL keeps; named to it by dotted path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def teaches(group: Mapping[str, Any]) -> bool:
    """Whether rewards of a group differ; AReaL plays another in place of one that says nothing."""
    rewards = group["rewards"]
    return bool(rewards.max() > rewards.min())
