"""Conversations as token ids, with the loss on the chosen answers only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from practicum.core.message import Message
from practicum.policies.rendering import Renderer


def conversation_sample(
    renderer: Renderer, messages: Sequence[Message], chosen: Sequence[bool]
) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """The ids of a conversation, and which of them are learned from, answers' ends included.

    `chosen` has one entry per message. What comes after the last chosen answer is left away:
    no loss depends on it.
    """
    end = max((index + 1 for index, is_chosen in enumerate(chosen) if is_chosen), default=0)
    if end == 0:
        return (), ()
    ids, is_answer = renderer.conversation_ids(messages[:end])
    wanted = (c for m, c in zip(messages, chosen, strict=True) if m.role == "assistant")
    is_trained: list[bool] = []
    # Each answer is one run of marked ids: the next observation stands between two.
    for is_answer_run, run in groupby(is_answer):
        is_trained += [is_answer_run and next(wanted)] * len(list(run))
    return ids, tuple(is_trained)
