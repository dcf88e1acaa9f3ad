"""The episode that all trainers must record alike is the one the embedded trainer collects."""

from __future__ import annotations

from adapters.one_episode import DIGEST, TEXTS, answers, collected_episode, record

from practicum.core.episode import FormatErrorKind


async def test_the_embedded_trainer_collects_the_episode_of_the_digest() -> None:
    episode = await collected_episode()
    assert episode.is_success
    assert [turn.completion.text for turn in episode.turns] == list(TEXTS)
    first, second, *others = episode.turns
    assert first.format_error is not None
    assert first.format_error.kind is FormatErrorKind.NO_ACTION
    assert second.is_refused
    assert not any(turn.is_invalid for turn in others)
    recorded = record(episode)
    sampled = [
        i for i, is_sampled in zip(recorded.token_ids, recorded.mask, strict=True) if is_sampled
    ]
    assert sampled == [i for answer in answers() for i in answer.token_ids]
    assert recorded.reward == 1.0
    assert recorded.digest == DIGEST
