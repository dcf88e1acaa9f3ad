"""From episodes to micro-batches of fixed shape: pure functions on arrays.

An episode is one sequence as long as every prompt begins with the prompt and answer before
it; where one does not, a new sequence begins. Nothing is tokenised here.

The episodes of a group begin with one prompt. A pack can hold it once, as a segment of its
own that the segments of those episodes have as their parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from practicum.core.episode import Episode
from practicum.data.recorded import recorded_sequences

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

MIN_SHARED = 16
"""Beginnings shorter than this are computed for each sequence."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One sequence to train on; arrays of one length, zero where not trained."""

    token_ids: Ints
    is_trained: NDArray[np.bool_]
    """Never the first token: nothing predicts it."""
    logprobs: Floats
    """Recorded by the sampler."""
    advantages: Floats
    rewards: Floats
    """What a turn earned, at its last token."""
    turns: Ints
    """The number of the turn a trained token belongs to; -1 elsewhere."""
    episode: str = ""
    """Its id, where there is one."""

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def num_trained(self) -> int:
        """Tokens with a loss."""
        return int(self.is_trained.sum())


@dataclass(frozen=True, eq=False)
class Pack:
    """One micro-batch: segments end to end, N of their tokens trained."""

    ids_T: Ints
    positions_T: Ints
    lengths: tuple[int, ...]
    """Of the segments; the last one may be padding."""
    parents: tuple[int | None, ...]
    """For each segment the one that it continues; None begins a sequence."""
    num_shared: int
    """Tokens that sequences share with another and that are not in the pack again."""
    num_padding: int
    predictors_N: Ints
    """The token before each trained one: its output predicts it."""
    targets_N: Ints
    logprobs_N: Floats
    advantages_N: Floats
    samples: tuple[Sample, ...]
    """In the order of their trained tokens."""
    sequences_N: Ints
    """Which of the samples each trained token belongs to."""

    @property
    def num_computed(self) -> int:
        """Tokens of the sequences that are in the pack."""
        return len(self.ids_T) - self.num_padding


class _Answer(NamedTuple):
    """The sampled tokens of a turn, and where they begin."""

    turn: int
    start: int
    logprobs: Sequence[float]
    advantage: float
    reward: float


@dataclass(frozen=True)
class _Family:
    """Samples whose first `num_shared` tokens, none of them trained, are the same."""

    samples: list[Sample]
    num_shared: int

    def __len__(self) -> int:
        return self.num_shared + sum(len(s) - self.num_shared for s in self.samples)


def episode_samples(episode: Episode, advantages: Sequence[float]) -> list[Sample]:
    """The sequences of an episode; the sampled tokens of a turn share its advantage."""
    rewards = _sampled_rewards(episode)
    assert len(advantages) == len(episode.turns)
    samples = [
        _sample(
            episode.id,
            ids,
            [
                _Answer(
                    n, start, episode.turns[n].completion.logprobs or (), advantages[n], rewards[n]
                )
                for n, start, _ in answers
            ],
        )
        for ids, answers in recorded_sequences(episode)
    ]
    check_sampled_ids(episode, samples)
    return samples


def turn_rewards(episode: Episode) -> list[float]:
    """What each turn earned, dense rewards included.

    What the judge adds to the sum of the turns is earned by the last one.
    """
    rewards = [turn.reward for turn in episode.turns]
    if not rewards or episode.reward is None:
        return rewards
    rewards[-1] += episode.reward.value - sum(rewards)
    dense = episode.reward.dense or (0.0,) * len(rewards)
    return [earned + extra for earned, extra in zip(rewards, dense, strict=True)]


def _sampled_rewards(episode: Episode) -> list[float]:
    """What each turn earned; one without a sampled token leaves it to the nearest before it."""
    rewards = turn_rewards(episode)
    sampled = [n for n, turn in enumerate(episode.turns) if turn.completion.token_ids]
    if not sampled:
        return rewards
    left = [0.0] * len(rewards)
    for number, reward in enumerate(rewards):
        left[max((n for n in sampled if n <= number), default=sampled[0])] += reward
    return left


def written_sample(token_ids: Sequence[int], is_trained: Sequence[bool]) -> Sample:
    """A conversation that was written and not sampled."""
    length = len(token_ids)
    trained = np.array(is_trained, dtype=np.bool_)
    trained[:1] = False
    zeros = np.zeros(length, np.float32)
    turns = np.where(trained, 0, -1)
    return Sample(np.array(token_ids, np.int64), trained, zeros, zeros, zeros, turns)


def check_sampled_ids(episode: Episode, samples: Iterable[Sample]) -> None:
    """What is trained is what was sampled, token by token; runs in training."""
    trained = list(chain.from_iterable(s.token_ids[s.is_trained].tolist() for s in samples))
    sampled = list(chain.from_iterable(turn.completion.token_ids or () for turn in episode.turns))
    assert trained == sampled, f"episode {episode.id}: trained ids are not the sampled ones"


def pack_samples(
    samples: Sequence[Sample], capacity: int, *, pad: bool, pad_id: int, share: bool = False
) -> list[Pack]:
    """Lay samples into as few micro-batches as first-fit by falling length finds.

    With `share`, samples that begin alike lie together and their beginning lies there once.
    """
    for sample in samples:
        if len(sample) > capacity:
            raise ValueError(f"a sequence of {len(sample)} tokens does not fit {capacity}")
    families = _find_families(samples) if share else [_Family([s], 0) for s in samples]
    bins: list[list[_Family]] = []
    room: list[int] = []
    fitting = [part for family in families for part in _cut_family(family, capacity)]
    for family in sorted(fitting, key=len, reverse=True):
        at = next((i for i, free in enumerate(room) if free >= len(family)), None)
        if at is None:
            bins.append([])
            room.append(capacity)
            at = len(bins) - 1
        bins[at].append(family)
        room[at] -= len(family)
    return [_pack(members, capacity if pad else 0, pad_id) for members in bins]


def split_samples(samples: Sequence[Sample], parts: int, seed: int) -> list[list[Sample]]:
    """Shuffle and split into parts of about equal size; none is empty."""
    if not samples:
        return []
    order = np.random.default_rng(seed).permutation(len(samples))
    chunks = np.array_split(order, min(parts, len(samples)))
    return [[samples[i] for i in chunk] for chunk in chunks]


def _sample(episode: str, ids: Sequence[int], trained: Sequence[_Answer]) -> Sample:
    is_trained = np.zeros(len(ids), np.bool_)
    turns = np.full(len(ids), -1)
    logprobs, advantages, rewards = (np.zeros(len(ids), np.float32) for _ in range(3))
    for answer in trained:
        span = slice(answer.start, answer.start + len(answer.logprobs))
        is_trained[span], turns[span] = True, answer.turn
        advantages[span] = answer.advantage
        rewards[span.stop - 1] += answer.reward
    logprobs[is_trained] = np.fromiter(
        chain.from_iterable(answer.logprobs for answer in trained), np.float32
    )
    return Sample(
        np.fromiter(ids, np.int64, len(ids)),
        is_trained,
        logprobs,
        advantages,
        rewards,
        turns,
        episode,
    )


def _find_families(samples: Sequence[Sample]) -> list[_Family]:
    """Group samples by what they begin with, so that much is shared."""
    families: list[_Family] = []
    # In this order those that begin alike are neighbours.
    for sample in sorted(samples, key=lambda s: s.token_ids.tobytes()):
        last = families[-1] if families else None
        common = _num_common(last, sample) if last is not None else 0
        # Joining shortens what the others share: it must save more than it costs.
        if last is not None and common and len(last.samples) * common >= _num_saved(last):
            families[-1] = _Family([*last.samples, sample], common)
        else:
            families.append(_Family([sample], _num_free(sample)))
    return [f if len(f.samples) > 1 else _Family(f.samples, 0) for f in families]


def _num_free(sample: Sample) -> int:
    """Tokens before the first trained one; a token at least is the sample's own."""
    trained = np.flatnonzero(sample.is_trained)
    return int(trained[0]) if len(trained) else len(sample) - 1


def _num_common(family: _Family, sample: Sample) -> int:
    limit = min(family.num_shared, _num_free(sample))
    differs = family.samples[0].token_ids[:limit] != sample.token_ids[:limit]
    common = int(differs.argmax()) if differs.any() else limit
    return common if common >= MIN_SHARED else 0


def _num_saved(family: _Family) -> int:
    return (len(family.samples) - 1) * family.num_shared


def _cut_family(family: _Family, capacity: int) -> list[_Family]:
    """The family in parts that fit a pack, each with the beginning."""
    parts: list[list[Sample]] = []
    room = 0
    for sample in sorted(family.samples, key=len, reverse=True):
        own = len(sample) - family.num_shared
        if own > room:
            parts.append([])
            room = capacity - family.num_shared
        parts[-1].append(sample)
        room -= own
    return [_Family(p, family.num_shared if len(p) > 1 else 0) for p in parts]


def _pack(families: Sequence[_Family], length: int, pad_id: int) -> Pack:
    ids: list[Ints] = []
    positions: list[Ints] = []
    parents: list[int | None] = []
    predictors: list[Ints] = []
    end = 0

    def lay(part: Ints, position: int, parent: int | None) -> int:
        nonlocal end
        ids.append(part)
        positions.append(np.arange(position, position + len(part)))
        parents.append(parent)
        start, end = end, end + len(part)
        return start

    for family in families:
        shared = family.num_shared
        above, parent = 0, None
        if shared:
            above, parent = lay(family.samples[0].token_ids[:shared], 0, None), len(parents) - 1
        for sample in family.samples:
            start = lay(sample.token_ids[shared:], shared, parent)
            before = np.flatnonzero(sample.is_trained) - 1
            predictors.append(np.where(before < shared, above, start - shared) + before)
    padding = max(0, length - end)
    if padding:
        lay(np.full(padding, pad_id, np.int64), 0, None)
    samples = [sample for family in families for sample in family.samples]
    return Pack(
        ids_T=np.concatenate(ids),
        positions_T=np.concatenate(positions),
        lengths=tuple(map(len, ids)),
        parents=tuple(parents),
        num_shared=sum(map(_num_saved, families)),
        num_padding=padding,
        predictors_N=np.concatenate(predictors),
        targets_N=np.concatenate([s.token_ids[s.is_trained] for s in samples]),
        logprobs_N=np.concatenate([s.logprobs[s.is_trained] for s in samples]),
        advantages_N=np.concatenate([s.advantages[s.is_trained] for s in samples]),
        samples=tuple(samples),
        sequences_N=np.repeat(np.arange(len(samples)), [s.num_trained for s in samples]),
    )
