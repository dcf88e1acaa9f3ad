"""A recording behind the interface of a model."""

from __future__ import annotations

from collections.abc import Iterable

from practicum.core.agent import Prompt, Sampling
from practicum.core.episode import Completion, Episode
from practicum.core.errors import PolicyError


class ReplayPolicy:
    """Says again what was said in recorded episodes, token ids and all."""

    def __init__(self, episodes: Iterable[Episode]) -> None:
        # A resumed run can hold two records of an attempt: the later one counts.
        self._said = {
            (e.task_id, e.sample): tuple(turn.completion for turn in e.turns) for e in episodes
        }

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        """Look the answer up by task, sample and turn."""
        now = prompt.situation
        said = self._said.get((now.task.id, now.sample))
        if said is None:
            raise PolicyError(
                f"the recording has no sample {now.sample} of task {now.task.id}",
                kind="not-recorded",
            )
        turn = len(now.history)
        if turn >= len(said):
            raise PolicyError(
                f"the recording of {now.task.id} ends after {len(said)} turns",
                kind="not-recorded",
            )
        return said[turn]

    async def aclose(self) -> None:
        """Release nothing."""
