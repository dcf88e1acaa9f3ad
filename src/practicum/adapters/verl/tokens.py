"""Compares our tokens of a conversation with those of verl's continuous-token builder."""

from __future__ import annotations

from typing import Any

from practicum.adapters.verl.rows import written
from practicum.core.message import Message
from practicum.policies.rendering import Renderer

_TALK = (
    Message("system", "You play.\n\n- get ITEM: take it"),
    Message("user", "Goal: craft 2 oak planks.\n\nYou have: 1 log."),
    Message("assistant", "Thought: I need one.\nAction: get 1 log"),
    Message("user", "Got 1 log"),
    Message("assistant", "Thought: I have it.\nAction: craft 2 oak planks using 1 log"),
    Message("user", "Crafted 2 oak planks"),
)


def disagreement(renderer: Renderer, builder: Any) -> str | None:
    """Where the two differ on a conversation whose answers end as they should; None: nowhere."""
    messages = written(_TALK)
    theirs = list(builder.build_initial_tokens(messages[:2]))
    for end in (2, 4, 6):
        if end > 2:
            runtime = [*theirs, *renderer.answer_ids(_TALK[end - 2].text)]
            merged = builder.merge_context_tokens(messages[: end - 1], messages[:end], runtime)
            theirs = list(merged.token_ids)
        ours = list(renderer.conversation_ids(_TALK[:end])[0])
        if ours != theirs:
            at = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), 0)
            return (
                f"at the end of {renderer.decode(ours[: at + 1])[-30:]!r} it has "
                f"{theirs[at : at + 4]} where the template has {ours[at : at + 4]}"
            )
    return None
