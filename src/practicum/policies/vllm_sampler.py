"""Draws the tokens of seeded requests in vLLM, all rows of a batch at once.

vLLM's first model runner fills a whole row of noise for every seeded request, one request after
another: with 512 of them a step launches 512 kernels more. One number a row is enough, and it is
worked out from the request's seed and from how many it has drawn: the same for a request, whoever
is beside it. The second model runner, which vLLM takes on GPUs for the architectures it knows,
draws for all rows at once by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from practicum.policies.local.sampling import choose

logger = logging.getLogger(__name__)

_STEP = 4
"""vLLM winds a generator back by this much when a token it drew is not used."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIXERS = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


class SeededSampler(torch.nn.Module):
    """Takes the place of vLLM's last step of sampling; what it does not know, it leaves to that."""

    def __init__(self, original: Any) -> None:
        super().__init__()
        self.original = original

    def forward(
        self,
        logits: Tensor,
        generators: Mapping[int, torch.Generator],
        k: Tensor | None,
        p: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Ids, and the log-probabilities of the whole vocabulary they were drawn from."""
        if not generators or k is not None or p is not None:
            return self.original(logits, generators, k, p)  # type: ignore[no-any-return]
        drawn = torch.from_numpy(uniforms(generators, len(logits)))
        if logits.is_cuda:  # from pinned memory, or the copy would wait for the GPU
            drawn = drawn.pin_memory().to(logits.device, non_blocking=True)
        ids, _ = choose(logits, torch.ones_like(drawn), drawn)
        return ids, logits.log_softmax(-1, dtype=torch.float32)


def uniforms(generators: Mapping[int, torch.Generator], num_rows: int) -> np.ndarray:
    """The next number of every row's generator; a row without one gets any."""
    if next(iter(generators.values())).device.type == "cpu":  # these cannot be wound
        drawn = np.random.default_rng().random(num_rows, dtype=np.float32)
        for row, generator in generators.items():
            drawn[row] = torch.rand((), generator=generator)
        return drawn
    seeds = np.random.default_rng().integers(2**63, size=num_rows, dtype=np.uint64)
    offsets = np.zeros(num_rows, np.uint64)
    for row, generator in generators.items():
        offset = generator.get_offset()
        generator.set_offset(offset + _STEP)
        seeds[row], offsets[row] = generator.initial_seed(), offset
    return _mixed(seeds, offsets)


def _mixed(seeds: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """SplitMix64 of seed and offset, as numbers from 0 up to 1."""
    state = _finished(seeds * _ODD) + (offsets + np.uint64(1)) * _ODD
    return (_finished(state) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)


def _finished(state: np.ndarray) -> np.ndarray:
    for shift, factor in _MIXERS:
        state = (state ^ (state >> np.uint64(shift))) * factor
    mixed: np.ndarray = state ^ (state >> np.uint64(31))
    return mixed


def install(engine: Any) -> None:
    """Let the engine draw with this."""
    engine.collective_rpc(_install)


def _install(worker: Any) -> None:
    sampler = getattr(worker.model_runner, "sampler", None)
    original = getattr(sampler, "topk_topp_sampler", None)
    if hasattr(sampler, "sampling_states"):
        return  # the second model runner's
    if sampler is None or original is None:
        logger.warning("this vLLM samples in another place: seeded requests are slower in it")
    elif not isinstance(original, SeededSampler):
        sampler.topk_topp_sampler = SeededSampler(original)
