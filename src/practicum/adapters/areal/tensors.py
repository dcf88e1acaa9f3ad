"""Episodes as the tensors AReaL trains on: one row each, all answers trained, nothing tokenised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from practicum.core.episode import Episode
from practicum.core.errors import ConfigError
from practicum.data.recorded import recorded_sequences
from practicum.policies.pictures import PictureReader

Row = dict[str, Any]

NO_VERSION = -1
"""Of a token that was not sampled."""


def episode_row(
    episode: Episode, versions: Sequence[Sequence[int]], pictures: PictureReader | None
) -> Row:
    """The tensors of a judged episode; with a `PictureReader` also what a model sees with."""
    assert episode.reward is not None
    (sequence,) = recorded_sequences(episode)
    length = len(sequence.ids)
    is_trained, logprobs, sampled_by = [0] * length, [0.0] * length, [NO_VERSION] * length
    for (number, start, stop), by in zip(sequence.answers, versions, strict=True):
        is_trained[start:stop] = [1] * (stop - start)
        logprobs[start:stop] = episode.turns[number].completion.logprobs or ()
        sampled_by[start:stop] = by
    row = {
        "input_ids": torch.tensor([sequence.ids], dtype=torch.long),
        "attention_mask": torch.ones((1, length), dtype=torch.bool),
        "loss_mask": torch.tensor([is_trained], dtype=torch.int32),
        "logprobs": torch.tensor([logprobs], dtype=torch.float32),
        "versions": torch.tensor([sampled_by], dtype=torch.int32),
        "rewards": torch.tensor([episode.reward.value], dtype=torch.float32),
    }
    if pictures is not None:
        row |= _sight(episode, sequence.ids, pictures)
    return row


def _sight(episode: Episode, ids: Sequence[int], pictures: PictureReader) -> Row:
    images = [image for turn in episode.turns for image in turn.observation.images]
    arrays = pictures.arrays(images)
    kinds = pictures.type_ids(ids)
    expected = pictures.num_ids(arrays)
    if sum(kinds) != expected:
        raise ConfigError(
            f"{episode.id} has {sum(kinds)} tokens for pictures whose grids have {expected}: the "
            "processor counts patches otherwise than it cuts them"
        )
    return {
        "mm_token_type_ids": torch.tensor([kinds], dtype=torch.long),
        # One entry per row, empty where there is no picture: AReaL finds them by their place.
        "multi_modal_input": [arrays],
    }


def stand_in_row(judged: Sequence[Row]) -> Row:
    """A row in place of a broken episode: nothing in it is trained, nor moves its group's mean.

    AReaL cuts a batch into groups by counting rows, so a group must have all of them.
    """
    shortest = min(judged, key=lambda row: row["input_ids"].shape[1])
    mean = torch.stack([row["rewards"] for row in judged]).mean(dim=0)
    return {
        **shortest,
        "loss_mask": torch.zeros_like(shortest["loss_mask"]),
        "logprobs": torch.zeros_like(shortest["logprobs"]),
        "versions": torch.full_like(shortest["versions"], NO_VERSION),
        "rewards": mean,
    }
