"""What the sampler knows of the slots that are sampling."""

from __future__ import annotations

import numpy as np

from practicum.core.agent import Sampling


class SamplingTable:
    """The slots that are sampling, as arrays: a step touches them all at once."""

    def __init__(self, num_slots: int) -> None:
        self._positions_S = np.zeros(num_slots, np.int64)
        self._launched_S = np.zeros(num_slots, np.int64)
        self._collected_S = np.zeros(num_slots, np.int64)
        self._limits_S = np.zeros(num_slots, np.int64)
        self._temperatures_S = np.ones(num_slots, np.float32)
        self._top_ps_S = np.ones(num_slots, np.float32)
        self._is_busy_S = np.zeros(num_slots, bool)
        self.tickets_S = np.zeros(num_slots, np.int64)
        """Raised when an answer ends: what was launched for it and comes later is ignored."""
        self._uniforms_S_T = np.zeros((num_slots, 0), np.float32)
        self._ids_S_T = np.zeros((num_slots, 0), np.int64)
        self._logprobs_S_T = np.zeros((num_slots, 0), np.float32)

    @property
    def is_busy(self) -> bool:
        """Whether any slot samples."""
        return bool(self._is_busy_S.any())

    def busy_slots(self) -> list[int]:
        """Their numbers."""
        return np.flatnonzero(self._is_busy_S).tolist()

    def start(
        self,
        slot: int,
        num_prompt: int,
        num_said: int,
        limit: int,
        sampling: Sampling,
        seed: int,
    ) -> None:
        """Prompt and what was said are in the cache: the step being built samples what follows."""
        self._widen(limit)
        generator = np.random.Generator(np.random.Philox(key=seed))
        self._uniforms_S_T[slot, :limit] = generator.random(limit, dtype=np.float32)
        self._positions_S[slot] = num_prompt + num_said
        self._launched_S[slot] = self._collected_S[slot] = num_said
        self._limits_S[slot] = limit
        self._temperatures_S[slot] = sampling.temperature
        self._top_ps_S[slot] = sampling.top_p
        self._is_busy_S[slot] = True

    def take_decode_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Slots whose last sample is to be fed, and where."""
        slots = np.flatnonzero(self._is_busy_S & (self._launched_S < self._limits_S))
        positions = self._positions_S[slots]
        self._positions_S[slots] += 1
        return slots, positions

    def draws(self, slots_B: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Uniform numbers, temperatures and top-p of the next samples."""
        uniforms = self._uniforms_S_T[slots_B, self._launched_S[slots_B]]
        self._launched_S[slots_B] += 1
        return uniforms, self._temperatures_S[slots_B], self._top_ps_S[slots_B]

    def record(
        self, slots_B: np.ndarray, ids_B: np.ndarray, logprobs_B: np.ndarray, stops: np.ndarray
    ) -> np.ndarray:
        """Keep samples; say which answers they end."""
        at_B = self._collected_S[slots_B]
        self._ids_S_T[slots_B, at_B] = ids_B
        self._logprobs_S_T[slots_B, at_B] = logprobs_B
        self._collected_S[slots_B] += 1
        is_last_B = self._collected_S[slots_B] >= self._limits_S[slots_B]
        is_ended_B: np.ndarray = np.isin(ids_B, stops) | is_last_B
        return is_ended_B

    def end(self, slot: int) -> tuple[list[int], list[float]]:
        """The whole answer; the slot samples no more."""
        count = self._collected_S[slot]
        self._is_busy_S[slot] = False
        self.tickets_S[slot] += 1
        return self._ids_S_T[slot, :count].tolist(), self._logprobs_S_T[slot, :count].tolist()

    def interrupt(self, slot: int) -> list[int]:
        """Stop sampling for now; what was said so far must be fed again and is kept."""
        self._is_busy_S[slot] = False
        said: list[int] = self._ids_S_T[slot, : self._collected_S[slot]].tolist()
        return said

    def _widen(self, limit: int) -> None:
        missing = limit - self._ids_S_T.shape[1]
        if missing > 0:
            pad = ((0, 0), (0, missing))
            self._uniforms_S_T = np.pad(self._uniforms_S_T, pad)
            self._ids_S_T = np.pad(self._ids_S_T, pad)
            self._logprobs_S_T = np.pad(self._logprobs_S_T, pad)
