"""What supervised training learns from, as its config asks for it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from practicum.agents.formats import get_format
from practicum.config.train import DemonstrationsConfig, SftConfig
from practicum.core.env import Environment
from practicum.core.errors import ConfigError
from practicum.core.task import Task
from practicum.data.expert import Slips, Thoughts, expert_episodes, find_script
from practicum.data.recorded import chosen_samples, successes_of
from practicum.data.samples import conversation_sample
from practicum.data.tables import Conversation, episode_conversation, read_table
from practicum.policies.rendering import Renderer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Demonstrations:
    """Sequences to train on, and what they are about."""

    samples: list[tuple[tuple[int, ...], tuple[bool, ...]]]
    """Token ids, and which of them have a loss."""
    task_ids: frozenset[str]
    families: frozenset[str]
    """For the training manifest; what a table does not name is not in it."""


def require_scripts(wanted: DemonstrationsConfig, environments: Iterable[Environment]) -> None:
    """Refuse a player that one of the environments lacks, before any game is played."""
    for environment in environments:
        find_script(environment, wanted.script)
        if wanted.slips is not None:
            find_script(environment, wanted.slips.script)


async def play_demonstrations(
    config: SftConfig, environment: Environment, tasks: Sequence[Task], renderer: Renderer
) -> Demonstrations:
    """Let one of the environment's scripts play the tasks, as ids under the renderer."""
    wanted = config.demonstrations
    slips = None
    if wanted.slips is not None:
        slips = Slips(wanted.slips.rate, wanted.slips.script, config.seed)
    thoughts = Thoughts(wanted.thoughts, config.seed) if wanted.thoughts < 1 else None
    form = get_format(config.format)
    episodes = await expert_episodes(
        environment, tasks, form, wanted.script, slips, thoughts, wanted.workers
    )
    by_id = {task.id: task for task in tasks}
    conversations = [episode_conversation(e, by_id[e.task_id], wanted.turns) for e in episodes]
    if slips is not None:
        conversations = [_without_slips(c, slips) for c in conversations]
    return _rendered(conversations, renderer)


def read_demonstrations(wanted: DemonstrationsConfig, renderer: Renderer) -> Demonstrations:
    """Read the table, as ids under the renderer, or a run's successes with their own ids."""
    assert wanted.path is not None
    if wanted.source == "run":
        episodes, families = successes_of(wanted)
        samples = [s for e in episodes for s in chosen_samples(e, wanted.turns, renderer)]
        if not samples:
            raise ConfigError(f"no answer of the successes of {wanted.path} can be learned from")
        return Demonstrations(
            samples,
            frozenset(e.task_id for e in episodes),
            frozenset(families[e.task_id] for e in episodes),
        )
    return _rendered(read_table(Path(wanted.path), wanted.turns), renderer)


def _rendered(conversations: Sequence[Conversation], renderer: Renderer) -> Demonstrations:
    kept = worth_learning(conversations)
    samples = [conversation_sample(renderer, c.messages, c.chosen) for c in kept]
    return Demonstrations(
        samples,
        frozenset(c.task_id for c in kept if c.task_id),
        frozenset(c.family for c in kept if c.family),
    )


def _without_slips(conversation: Conversation, slips: Slips) -> Conversation:
    """No loss on another script's answers."""
    chosen, turn = [], 0
    for message, is_chosen in zip(conversation.messages, conversation.chosen, strict=True):
        is_answer = message.role == "assistant"
        is_slip = is_answer and slips.falls_on(conversation.task_id, turn)
        chosen.append(is_chosen and not is_slip)
        turn += is_answer
    return replace(conversation, chosen=tuple(chosen))


def worth_learning(conversations: Sequence[Conversation]) -> list[Conversation]:
    """Leave out failed and broken episodes and those without a chosen answer; say how many."""
    kept = [c for c in conversations if _is_worth_learning(c)]
    if not kept:
        raise ConfigError(
            f"none of {len(conversations)} demonstrations can be learned from: "
            "all failed or have no answer marked for training"
        )
    if left_out := len(conversations) - len(kept):
        first = next(c for c in conversations if not _is_worth_learning(c))
        logger.warning(
            "%d of %d demonstrations are left out (failed, broken or without a chosen answer), "
            "first %s",
            left_out,
            len(conversations),
            first.source or first.task_id,
        )
    return kept


def _is_worth_learning(conversation: Conversation) -> bool:
    return conversation.outcome in ("success", "") and any(conversation.chosen)
