"""What a table of conversations holds, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from practicum.data.tables import Conversation


def describe(
    conversations: Sequence[Conversation], length: Callable[[Conversation], int] | None = None
) -> dict[str, Any]:
    """Count what a table holds; lengths in characters, and in tokens if they can be counted."""
    answers = [answer for c in conversations for answer in c.answers]
    num_shown = sum(m.role == "assistant" for c in conversations for m in c.messages)
    stats: dict[str, Any] = {
        "conversations": len(conversations),
        "answers": num_shown,
        "answers_trained": len(answers),
        "tasks": len({c.task_id for c in conversations} - {""}),
        "families": len({c.family for c in conversations} - {""}),
        "by_outcome": _count(c.outcome or "unknown" for c in conversations),
        "by_difficulty": _count(c.difficulty or "unknown" for c in conversations),
        "turns": _spread([sum(m.role == "assistant" for m in c.messages) for c in conversations]),
        "answer_chars": _spread([len(answer) for answer in answers]),
        "chars": _spread([sum(len(m.text) for m in c.messages) for c in conversations]),
    }
    if length is not None:
        stats["tokens"] = _spread([length(c) for c in conversations])
    return stats


def _count(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _spread(values: Sequence[int]) -> dict[str, float]:
    if not values:
        return {}
    ordered = sorted(values)
    return {
        "mean": sum(ordered) / len(ordered),
        "median": ordered[len(ordered) // 2],
        "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
        "max": ordered[-1],
    }
