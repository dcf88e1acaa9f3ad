"""The evaluation contract: all that must be equal for two numbers to be comparable.

The policy is not part of it, nor are seeds, the number of samples or time-outs: those
change how precise a number is, or what breaks, and not what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from practicum.agents.format import ActionFormat
from practicum.core.agent import Sampling
from practicum.core.canonical import content_hash
from practicum.core.env import Environment
from practicum.core.task import Panel


def evaluation_contract(
    environment: Environment,
    panel: Panel,
    *,
    options: Mapping[str, Any],
    system: str,
    action_format: ActionFormat,
    max_turns: int,
    max_repeated_refusals: int | None,
    max_images: int | None,
    sampling: Sampling,
) -> dict[str, Any]:
    """Write the contract, its hash included."""
    limits = {"max_turns": max_turns}
    if max_repeated_refusals is not None:  # unset, contracts keep the hash they always had
        # Named for the rule: refusals that looks lie between count, as they once did not.
        limits["max_refusals_in_one_state"] = max_repeated_refusals
    if max_images is not None:
        limits["max_images"] = max_images
    parts: dict[str, Any] = {
        "env": {"id": environment.id, "options": dict(options)},
        "panel": panel.hash,
        "prompt": content_hash(system),
        "parser": action_format.fingerprint(environment.commands),
        "limits": limits,
        "sampling": asdict(sampling),
    }
    return {**parts, "hash": content_hash(parts)}
