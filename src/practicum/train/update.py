"""One update: from judged groups to newer weights, the same way for every algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from practicum.config.train import ReplayConfig
from practicum.core.canonical import stable_seed
from practicum.core.episode import Episode
from practicum.train.advantages import Floats, spread_factors
from practicum.train.algorithms.base import Algorithm, JudgedGroup, Tokens
from practicum.train.batch import Pack, Sample, episode_samples, split_samples
from practicum.train.losses import imitation_loss
from practicum.train.trainer import LocalTrainer, Metrics, Scored

Fixed = list[dict[str, Tensor]]
"""For each micro-batch what is known of its tokens before the first step, by name."""


@dataclass(frozen=True)
class Lesson:
    """All that an update learns from, the same in every process."""

    update: int
    samples: list[Sample]
    parts_of: dict[str, str]
    """Of each episode, the environment among whose advantages its own are spread."""
    replayed: list[Sample]
    """Of earlier updates, to be imitated."""


def update_policy(
    trainer: LocalTrainer,
    groups: Sequence[JudgedGroup],
    algorithm: Algorithm[Any],
    *,
    update: int,
    seed: int,
    reference: Any = None,
    is_normalised: bool = False,
    replay: ReplayConfig | None = None,
    replayed: Sequence[Episode] = (),
) -> Metrics:
    """Learn from groups that teach, and from episodes again; returns the update's metrics.

    `is_normalised` gives the advantages of every environment the same spread.
    """
    samples = [
        sample
        for credited in algorithm.credit(groups)
        for sample in episode_samples(credited.episode, credited.advantages)
    ]
    parts_of = {e.id: g.part if is_normalised else "" for g in groups for e in g.group.episodes}
    again = [s for e in replayed for s in episode_samples(e, (0.0,) * len(e.turns))]
    lesson = Lesson(update, samples, parts_of, again)
    trainer.team.send(lesson)
    return learn(trainer, lesson, algorithm, seed, reference, replay)


def learn(
    trainer: LocalTrainer,
    lesson: Lesson,
    algorithm: Algorithm[Any],
    seed: int,
    reference: Any = None,
    replay: ReplayConfig | None = None,
) -> Metrics:
    """The optimiser steps of an update."""
    samples = lesson.samples
    if samples and not algorithm.needs_start:
        samples = _with_equal_spread(samples, lesson.parts_of)
    config, update = algorithm.config, lesson.update
    parts = split_samples(samples, config.minibatches, stable_seed(seed, "minibatches", update))
    packs = [trainer.pack(part) for part in parts]
    fixed = _look(trainer, packs, algorithm, reference)
    if samples and algorithm.needs_start:
        _finish(algorithm, packs, fixed, lesson.parts_of)
    imitate = _Imitation(trainer, lesson, replay, max(1, len(parts)), seed)
    rows = []
    for epoch in range(config.epochs):
        for at in _order(len(parts), stable_seed(seed, "epoch", update, epoch) if epoch else None):
            gathered = trainer.gather(
                packs[at],
                algorithm.objective,
                fixed=fixed[at],
                normaliser=algorithm.normaliser(parts[at]),
            )
            rows.append(gathered | imitate.gather_next() | trainer.apply(update))
    if not rows:
        rows = [imitate.gather_next() | trainer.apply(update)]
    return _summary(rows) | _counts(samples, packs) | imitate.counts()


class _Imitation:
    """Episodes of earlier updates, a part of them with each step of the first epoch."""

    def __init__(
        self,
        trainer: LocalTrainer,
        lesson: Lesson,
        replay: ReplayConfig | None,
        num_parts: int,
        seed: int,
    ) -> None:
        self._trainer = trainer
        self._replay = replay
        self._samples = lesson.replayed
        seed = stable_seed(seed, "replayed", lesson.update)
        self._waiting = split_samples(lesson.replayed, num_parts, seed)

    def gather_next(self) -> Metrics:
        """Add the gradient of the next part, if there is one."""
        if not self._waiting:
            return {}
        assert self._replay is not None
        part = self._waiting.pop(0)
        num_tokens = sum(sample.num_trained for sample in part)
        metrics = self._trainer.gather(
            self._trainer.pack(part), self._objective, normaliser=num_tokens / self._replay.weight
        )
        return {
            "loss/replay": metrics["loss"] / self._replay.weight,
            "replay/clip_fraction": metrics["clip_fraction"],
        }

    def counts(self) -> Metrics:
        if self._replay is None:
            return {}
        return {
            "replay/episodes": float(len({sample.episode for sample in self._samples})),
            "replay/tokens": float(sum(sample.num_trained for sample in self._samples)),
        }

    def _objective(self, scored: Scored) -> tuple[Tensor, dict[str, Tensor]]:
        assert self._replay is not None
        loss_N = imitation_loss(scored.logprobs_N, scored.recorded_N, self._replay.clip)
        return loss_N, {"clip_fraction": (loss_N == 0).float()}


def _look(
    trainer: LocalTrainer,
    packs: Sequence[Sequence[Pack]],
    algorithm: Algorithm[Any],
    reference: Any,
) -> list[Fixed]:
    """Ask the model, and the reference, about all tokens before the first step changes it."""
    fixed: list[Fixed] = [[{} for _ in part] for part in packs]
    if len(packs) * algorithm.config.epochs > 1 or algorithm.needs_start:
        for part, known in zip(packs, fixed, strict=True):
            for scored, names in zip(trainer.look(part), known, strict=True):
                names["start"] = scored.logprobs_N
                if scored.values_N is not None:
                    names["values"] = scored.values_N
    if reference is not None:
        for part, known in zip(packs, fixed, strict=True):
            for scored, names in zip(trainer.look(part, reference), known, strict=True):
                names["reference"] = scored.logprobs_N
    return fixed


def _with_equal_spread(samples: Sequence[Sample], parts_of: Mapping[str, str]) -> list[Sample]:
    advantages: dict[str, list[Floats]] = {}
    for sample in samples:
        part = advantages.setdefault(parts_of[sample.episode], [])
        part.append(sample.advantages[sample.is_trained].astype(np.float64))
    factors = spread_factors({part: np.concatenate(found) for part, found in advantages.items()})
    return [
        replace(sample, advantages=sample.advantages * np.float32(factor))
        if (factor := factors[parts_of[sample.episode]]) != 1
        else sample
        for sample in samples
    ]


def _finish_parts(algorithm: Algorithm[Any], parts: Mapping[str, Sequence[Tokens]]) -> None:
    """Finish each environment by itself, then bring their advantages to the same spread."""
    for episodes in parts.values():
        algorithm.finish(episodes)
    factors = spread_factors(
        {part: np.concatenate([e.advantages_T for e in found]) for part, found in parts.items()}
    )
    for part, episodes in parts.items():
        for tokens in episodes:
            if factors[part] != 1:
                tokens.advantages_T = tokens.advantages_T * factors[part]


def _finish(
    algorithm: Algorithm[Any],
    packs: Sequence[Sequence[Pack]],
    fixed: Sequence[Fixed],
    parts_of: Mapping[str, str],
) -> None:
    """Let the algorithm see whole episodes, and write what it finds back to their tokens."""
    places: dict[str, list[tuple[Sample, dict[str, Tensor], slice]]] = {}
    for part, known in zip(packs, fixed, strict=True):
        for pack, names in zip(part, known, strict=True):
            end = 0
            for sample in pack.samples:
                start, end = end, end + sample.num_trained
                places.setdefault(sample.episode, []).append((sample, names, slice(start, end)))
    episodes = []
    for found in places.values():
        found.sort(key=lambda place: place[0].turns.max())
        episodes.append(_tokens(found))
    parts: dict[str, list[Tokens]] = {}
    for episode, tokens in zip(places, episodes, strict=True):
        parts.setdefault(parts_of[episode], []).append(tokens)
    _finish_parts(algorithm, parts)
    for tokens, found in zip(episodes, places.values(), strict=True):
        start = 0
        for sample, names, span in found:
            part_T = slice(start, start + sample.num_trained)
            start = part_T.stop
            for name, values_T in ({"advantages": tokens.advantages_T} | tokens.found).items():
                known_N = names["start"]
                values = torch.from_numpy(np.ascontiguousarray(values_T[part_T], np.float32))
                names.setdefault(name, torch.zeros_like(known_N))[span] = values.to(known_N)


def _tokens(found: Sequence[tuple[Sample, dict[str, Tensor], slice]]) -> Tokens:
    def gather(name: str) -> np.ndarray:
        parts = [getattr(sample, name)[sample.is_trained] for sample, _, _ in found]
        return np.concatenate(parts)

    known: dict[str, np.ndarray] = {
        name: np.concatenate([names[name][span].double().cpu().numpy() for _, names, span in found])
        for name in ("start", "reference", "values")
        if name in found[0][1]
    }
    return Tokens(
        gather("turns"),
        gather("rewards").astype(np.float64),
        gather("advantages").astype(np.float64),
        known,
    )


def _order(count: int, seed: int | None) -> list[int]:
    if seed is None:
        return list(range(count))
    order: list[int] = np.random.default_rng(seed).permutation(count).tolist()
    return order


def _counts(samples: Sequence[Sample], packs: Sequence[Sequence[Pack]]) -> Metrics:
    return {
        "tokens/trained": float(sum(sample.num_trained for sample in samples)),
        "tokens/computed": float(sum(pack.num_computed for part in packs for pack in part)),
        "tokens/shared": float(sum(pack.num_shared for part in packs for pack in part)),
    }


def _summary(rows: Sequence[Metrics]) -> Metrics:
    """One row for the steps of an update: means, and the largest of what is a maximum."""
    names = {"loss": "loss/policy", "entropy": "policy/entropy", "grad_norm": "grad/norm"}
    summary: Metrics = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if name in row]
        is_max = name.endswith("max")
        summary[names.get(name, name)] = max(values) if is_max else sum(values) / len(values)
    return summary
