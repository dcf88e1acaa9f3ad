"""Splitting conversations so that what belongs together stays together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from practicum.core.canonical import stable_seed
from practicum.core.errors import ConfigError
from practicum.data.tables import Conversation

SplitKey = Literal["task", "family"]


def split_conversations(
    conversations: Sequence[Conversation], by: SplitKey, fraction: float, seed: int = 0
) -> tuple[list[Conversation], list[Conversation]]:
    """Split off about a fraction; tasks or families stay whole and the order stays."""
    keys = [c.task_id if by == "task" else c.family for c in conversations]
    for conversation, key in zip(conversations, keys, strict=True):
        if not key:
            raise ConfigError(
                f"{conversation.source} names no {by}: give each row a "
                f"{'task_id' if by == 'task' else 'family'} to split by it"
            )
    sizes = Counter(keys)
    split_off: set[str] = set()
    num_split_off = 0
    for key in sorted(sizes, key=lambda key: stable_seed(seed, "split", key)):
        if num_split_off + sizes[key] / 2 > fraction * len(conversations):
            continue
        split_off.add(key)
        num_split_off += sizes[key]
    if not split_off or len(split_off) == len(sizes):
        raise ConfigError(
            f"a fraction of {fraction:g} of {len(sizes)} values of {by} leaves one side empty: "
            "choose another fraction"
        )
    pairs = list(zip(conversations, keys, strict=True))
    return (
        [c for c, key in pairs if key not in split_off],
        [c for c, key in pairs if key in split_off],
    )
