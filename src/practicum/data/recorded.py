"""Episodes as the token ids that were sampled: nothing is tokenised here."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from practicum.config.train import DemonstrationsConfig
from practicum.core.episode import Episode
from practicum.core.errors import ConfigError
from practicum.policies.rendering import Renderer
from practicum.store.run import Run

logger = logging.getLogger(__name__)


class Answer(NamedTuple):
    """Where the sampled tokens of a turn lie in a sequence."""

    turn: int
    start: int
    stop: int


class Sequence(NamedTuple):
    """Ids of an episode, or of a part of it, and the answers among them."""

    ids: list[int]
    answers: list[Answer]


def recorded_sequences(episode: Episode) -> list[Sequence]:
    """An episode is one sequence as long as every prompt begins with the prompt and answer before.

    Where one does not, a new sequence begins.
    """
    sequences: list[Sequence] = []
    known: tuple[int, ...] = ()
    for number, turn in enumerate(episode.turns):
        said = turn.completion
        if said.prompt_token_ids is None or said.token_ids is None or said.logprobs is None:
            raise ValueError(
                f"episode {episode.id} has no token ids and log-probabilities: it was not "
                "sampled by a policy that can be trained"
            )
        prompt, answer = said.prompt_token_ids, said.token_ids
        if not sequences or prompt[: len(known)] != known:
            sequences.append(Sequence([], []))
        ids, answers = sequences[-1]
        ids.extend(prompt[len(ids) :])
        answers.append(Answer(number, len(ids), len(ids) + len(answer)))
        ids.extend(answer)
        known = prompt + answer
    return sequences


def best_episodes(episodes: Iterable[Episode], per_task: int) -> list[Episode]:
    """Of every task the successes in fewest turns, newer ones first, no two of them alike."""
    found: dict[str, dict[tuple[int, ...], tuple[int, int, Episode]]] = {}
    for age, episode in enumerate(episodes):
        if episode.reward is None or not episode.reward.is_success:
            continue
        said = tuple(i for turn in episode.turns for i in turn.completion.token_ids or ())
        kept = found.setdefault(episode.task_id, {})
        kept[said] = (len(episode.turns), -age, episode)
        if len(kept) > per_task:
            del kept[max(kept, key=lambda said: kept[said][:2])]
    return [
        episode
        for kept in found.values()
        for _, _, episode in sorted(kept.values(), key=lambda one: one[:2])
    ]


def chosen_samples(
    episode: Episode, turns: str, renderer: Renderer
) -> list[tuple[tuple[int, ...], tuple[bool, ...]]]:
    """The sequences of an episode with the loss on its answers, as recorded.

    `accepted` leaves refused and misformed answers out. An answer that was cut is never
    learned from: it would teach to stop in the middle.
    """
    samples = []
    try:
        sequences = recorded_sequences(episode)
    except ValueError as error:
        raise ConfigError(f"{error}: read it with demonstrations.source=table") from error
    for ids, answers in sequences:
        is_trained = [False] * len(ids)
        end = 0
        for number, start, stop in answers:
            turn = episode.turns[number]
            if renderer.decode(ids[start:stop]) != turn.completion.text:
                raise ConfigError(
                    f"episode {episode.id} was sampled with another tokenizer than the model's: "
                    "take the model it was sampled with, or demonstrations.source=table"
                )
            if turn.completion.finish == "stop" and (turns == "all" or not turn.is_invalid):
                is_trained[start:stop] = [True] * (stop - start)
                end = stop
        if end:
            samples.append((tuple(ids[:end]), tuple(is_trained[:end])))
    return samples


def successes_of(wanted: DemonstrationsConfig) -> tuple[list[Episode], dict[str, str]]:
    """The successes of a run that are learned from, and the families of its tasks."""
    assert wanted.path is not None
    run = Run.open(Path(wanted.path))
    best = best_episodes(run.episodes(), wanted.per_task)
    if not best:
        raise ConfigError(f"{wanted.path} has no successful episode to learn from")
    num_tasks = len({episode.task_id for episode in best})
    logger.info("%s: %d successes of %d tasks", wanted.path, len(best), num_tasks)
    return best, {task.id: task.family for task in run.tasks()}
