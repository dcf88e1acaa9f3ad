"""The numbers that seeded requests draw in vLLM; the engine itself is in test_vllm_policy.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from practicum.policies.vllm_sampler import SeededSampler, install, uniforms

NUM_ROWS = 4096


class Wound:
    """Stands in for a generator on a GPU, of which only seed and offset are asked."""

    device = torch.device("cuda")

    def __init__(self, seed: int) -> None:
        self._seed, self.offset = seed, 0

    def initial_seed(self) -> int:
        return self._seed

    def get_offset(self) -> int:
        return self.offset

    def set_offset(self, offset: int) -> None:
        self.offset = offset


def original(*_: object) -> tuple[str, None]:
    return "vLLM's own", None


def test_a_number_depends_on_seed_and_count_and_not_on_the_company() -> None:
    alone = Wound(7)
    first, second = (uniforms({0: alone}, 1)[0] for _ in range(2))
    beside = {row: Wound(row) for row in range(64)}
    assert uniforms(beside, 64)[7] == first != second == uniforms(beside, 64)[7]


def test_a_token_that_was_not_used_is_drawn_again() -> None:
    generator = Wound(3)
    first = uniforms({0: generator}, 1)
    generator.set_offset(generator.get_offset() - 4)  # as vLLM does while a prompt is read in parts
    assert uniforms({0: generator}, 1) == first


@pytest.mark.parametrize("make", [Wound, lambda seed: torch.Generator().manual_seed(seed)])
def test_numbers_are_uniform_over_seeds_and_over_time(make: Any) -> None:
    generators = {row: make(row) for row in range(NUM_ROWS)}
    over_seeds = uniforms(generators, NUM_ROWS)
    over_time = np.concatenate([uniforms({0: generators[5]}, 1) for _ in range(NUM_ROWS)])
    for numbers in (over_seeds, over_time):
        assert numbers.min() >= 0 and numbers.max() < 1
        counts = np.histogram(numbers, 16, (0, 1))[0]
        assert ((counts - NUM_ROWS / 16) ** 2 / (NUM_ROWS / 16)).sum() < 45  # p = 1e-4, 15 degrees


def test_tokens_come_as_often_as_their_probabilities_say() -> None:
    logits = torch.log(torch.tensor([0.5, 0.3, 0.2, 0.0])).repeat(NUM_ROWS, 1)
    generators = {row: torch.Generator().manual_seed(row) for row in range(NUM_ROWS)}
    ids, logprobs = SeededSampler(original)(logits, generators, None, None)
    shares = torch.bincount(ids, minlength=4) / NUM_ROWS
    assert torch.allclose(shares, torch.tensor([0.5, 0.3, 0.2, 0.0]), atol=0.03)
    assert torch.allclose(logprobs.exp().sum(-1), torch.ones(NUM_ROWS))


def test_what_it_does_not_know_is_left_to_vllm() -> None:
    logits, generators = torch.zeros(1, 4), {0: torch.Generator()}
    sampler = SeededSampler(original)
    assert sampler(logits, {}, None, None)[0] == "vLLM's own"
    assert sampler(logits, generators, None, torch.ones(1))[0] == "vLLM's own"
    assert sampler(logits, generators, torch.ones(1), None)[0] == "vLLM's own"


def test_it_is_installed_once() -> None:
    steps = SimpleNamespace(topk_topp_sampler=original)
    worker = SimpleNamespace(model_runner=SimpleNamespace(sampler=steps))
    engine = SimpleNamespace(collective_rpc=lambda function: function(worker))
    install(engine)
    first = steps.topk_topp_sampler
    install(engine)
    assert isinstance(first, SeededSampler) and steps.topk_topp_sampler is first


def test_an_engine_built_otherwise_keeps_its_own(caplog: pytest.LogCaptureFixture) -> None:
    worker = SimpleNamespace(model_runner=SimpleNamespace())
    with caplog.at_level("WARNING"):
        install(SimpleNamespace(collective_rpc=lambda function: function(worker)))
    assert "slower" in caplog.text


def test_an_engine_that_draws_for_all_rows_at_once_is_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sampler = SimpleNamespace(sampling_states=object())
    worker = SimpleNamespace(model_runner=SimpleNamespace(sampler=sampler))
    with caplog.at_level("WARNING"):
        install(SimpleNamespace(collective_rpc=lambda function: function(worker)))
    assert not caplog.text
    assert not hasattr(sampler, "topk_topp_sampler")
