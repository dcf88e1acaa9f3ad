"""The sampler's answers are the model's: same tokens, same log-probabilities, any company."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch
from tiny_models import tiny_model

from practicum.core.agent import Sampling
from practicum.policies.local.attention import PackedLayout
from practicum.policies.local.engine import Engine, EngineOptions, _common_prefix
from practicum.policies.local.places import Generated
from practicum.policies.local.stepper import hidden_states, output_head
from practicum.policies.local.weights import LocalModel

STOPS = frozenset({7, 11})
OPTIONS = EngineOptions(num_slots=4, max_context=128, prefill_rows=16)


def forward_logprobs(model: LocalModel, ids: list[int]) -> torch.Tensor:
    """Log-probabilities of every next token, by the training path."""
    tokens = torch.tensor(ids)
    layout = PackedLayout([len(ids)], model.device)
    hidden = hidden_states(model.network, tokens, torch.arange(len(ids)), layout)
    return torch.log_softmax(output_head(model.network)(hidden).float(), -1)


def check_logprobs(model: LocalModel, prompt: list[int], answer: Generated) -> None:
    ids = prompt + list(answer.token_ids)
    with torch.no_grad():
        table = forward_logprobs(model, ids)
    expected = [float(table[len(prompt) - 1 + i, t]) for i, t in enumerate(answer.token_ids)]
    np.testing.assert_allclose(answer.logprobs, expected, atol=1e-4)


def prompts(count: int, shared: int = 30) -> list[list[int]]:
    random = np.random.default_rng(0)
    head = random.integers(20, 250, shared).tolist()
    return [head + random.integers(20, 250, 5 + 3 * i).tolist() for i in range(count)]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
async def test_logprobs_are_those_of_a_forward_pass(family: str) -> None:
    model = tiny_model(family)
    engine = Engine(model, STOPS, OPTIONS)
    jobs = prompts(9)
    answers = await asyncio.gather(
        *(engine.generate(p, 0, Sampling(max_tokens=20), seed) for seed, p in enumerate(jobs))
    )
    for prompt, answer in zip(jobs, answers, strict=True):
        check_logprobs(model, prompt, answer)
        assert answer.is_cut == (answer.token_ids[-1] not in STOPS)
        assert len(answer.token_ids) <= 20
        assert not STOPS & set(answer.token_ids[:-1])
    assert engine.take_stats().copied_tokens > 0


@pytest.mark.parametrize("num_steps", [0, 1, 2, 3, 6, 12])
async def test_whoever_hangs_up_frees_the_slot_and_harms_nobody(num_steps: int) -> None:
    """While it waits, while its prompt is read (16 tokens a step), while it answers."""
    model = tiny_model()
    asked = prompts(6)
    sampling = Sampling(max_tokens=40)
    alone = Engine(model, frozenset(), OPTIONS)
    expected = [await alone.generate(p, 0, sampling, seed) for seed, p in enumerate(asked)]

    engine = Engine(model, frozenset(), OPTIONS)
    jobs = [
        asyncio.create_task(engine.generate(p, 0, sampling, seed)) for seed, p in enumerate(asked)
    ]
    while engine.stats.steps < num_steps:
        await asyncio.sleep(0)
    for leaving in (jobs[0], jobs[2], jobs[5]):
        leaving.cancel()
    answers = await asyncio.gather(*jobs, return_exceptions=True)
    for number in (0, 2, 5):
        assert isinstance(answers[number], asyncio.CancelledError)
    for number in (1, 3, 4):
        answer = answers[number]
        assert isinstance(answer, Generated)
        assert answer.token_ids == expected[number].token_ids
        check_logprobs(model, asked[number], answer)
    assert engine.take_stats().sampled_tokens < 6 * 40 - 2 * 20
    again = await asyncio.gather(
        *(engine.generate(p, 0, sampling, seed) for seed, p in enumerate(asked))
    )
    assert [a.token_ids for a in again] == [e.token_ids for e in expected]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_packed_training_forward_equals_transformers_own_attention(family: str) -> None:
    model = tiny_model(family)
    sequences = prompts(3)
    with torch.no_grad():
        ours = hidden_states(
            model.network,
            torch.tensor([i for s in sequences for i in s]),
            torch.cat([torch.arange(len(s)) for s in sequences]),
            PackedLayout([len(s) for s in sequences], model.device),
        ).split([len(s) for s in sequences])
        model.network.set_attn_implementation("eager")
        for sequence, got in zip(sequences, ours, strict=True):
            expected = model.network.model(torch.tensor([sequence])).last_hidden_state[0]
            torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


async def test_an_answer_does_not_depend_on_its_company() -> None:
    model = tiny_model()
    sampling = Sampling(max_tokens=12)
    jobs = prompts(8)
    together = Engine(model, STOPS, OPTIONS)
    many = await asyncio.gather(
        *(together.generate(p, 0, sampling, seed) for seed, p in enumerate(jobs))
    )
    alone = Engine(model, STOPS, EngineOptions(num_slots=1, max_context=128))
    for seed, prompt in enumerate(jobs):
        single = await alone.generate(prompt, 0, sampling, seed)
        assert single.token_ids == many[seed].token_ids


async def test_repeating_a_run_gives_the_same_bits() -> None:
    async def run() -> list[Generated]:
        engine = Engine(tiny_model(), STOPS, OPTIONS)
        jobs = [engine.generate(p, 0, Sampling(max_tokens=15), i) for i, p in enumerate(prompts(9))]
        return await asyncio.gather(*jobs)

    assert await run() == await run()


async def test_the_next_turn_feeds_only_what_is_new() -> None:
    model = tiny_model()
    engine = Engine(model, STOPS, OPTIONS)
    prompt = prompts(1)[0]
    first = await engine.generate(prompt, 0, Sampling(max_tokens=8), 1)
    engine.take_stats()
    known = prompt + list(first.token_ids)
    second_prompt = [*known, 50, 51, 52]
    second = await engine.generate(second_prompt, len(known), Sampling(max_tokens=8), 2)
    stats = engine.take_stats()
    assert stats.prompt_tokens == 4  # the last sampled token was never fed
    assert stats.copied_tokens == 0
    check_logprobs(model, second_prompt, second)


async def test_slots_that_moved_go_on_as_they_were() -> None:
    model = tiny_model()
    engine = Engine(model, frozenset(), EngineOptions(num_slots=40, max_context=256))
    sampling, has_moved = Sampling(max_tokens=40), []

    async def play(seed: int, prompt: list[int]) -> None:
        first = await engine.generate(prompt, 0, sampling, seed)
        has_moved.append((engine._stepper.cache.places_S != np.arange(41)).any())
        known = prompt + list(first.token_ids)
        second = await engine.generate([*known, 50, 51], len(known), sampling, seed)
        check_logprobs(model, prompt, first)
        check_logprobs(model, [*known, 50, 51], second)

    await asyncio.gather(*(play(seed, prompt) for seed, prompt in enumerate(prompts(45))))
    assert any(has_moved)


async def test_members_of_a_group_share_their_prompt() -> None:
    model = tiny_model()
    engine = Engine(model, STOPS, OPTIONS)
    prompt = prompts(1)[0]
    answers = await asyncio.gather(
        *(engine.generate(prompt, 0, Sampling(max_tokens=8), seed) for seed in range(4))
    )
    stats = engine.take_stats()
    assert stats.prompt_tokens == len(prompt) + 3
    assert stats.copied_tokens == 3 * (len(prompt) - 1)
    assert len({a.token_ids for a in answers}) > 1
    for answer in answers:
        check_logprobs(model, prompt, answer)


async def test_new_weights_take_over_in_the_middle_of_an_answer() -> None:
    model = tiny_model()
    engine = Engine(model, frozenset(), OPTIONS)
    prompt = prompts(1)[0]
    job = asyncio.ensure_future(engine.generate(prompt, 0, Sampling(max_tokens=20), 3))
    for _ in range(12):
        await asyncio.sleep(0)
    await engine.pause()
    assert not job.done()
    said = engine._table._collected_S[engine._slots[0].index]
    assert 0 < said < 20
    other = tiny_model(seed=1)
    model.network.load_state_dict(other.network.state_dict())
    engine.resume(weights_changed=True)
    answer = await job
    assert len(answer.token_ids) == 20
    ids = prompt + list(answer.token_ids)
    with torch.no_grad():
        old = forward_logprobs(tiny_model(), ids)
        new = forward_logprobs(other, ids)
    for i, token in enumerate(answer.token_ids):
        table = old if i < said else new
        assert abs(float(table[len(prompt) - 1 + i, token]) - answer.logprobs[i]) < 1e-4


async def test_new_weights_compute_a_shared_beginning_once() -> None:
    model = tiny_model()
    engine = Engine(model, frozenset(), OPTIONS)
    group, other = prompts(2, shared=24)
    jobs = [
        asyncio.ensure_future(engine.generate(prompt, 0, Sampling(max_tokens=20), seed))
        for seed, prompt in enumerate([group, group, other, group])
    ]
    for _ in range(12):
        await asyncio.sleep(0)
    await engine.pause()
    said = [len(request.said) for request in engine._feeding]
    said += engine._table._collected_S[engine._table.busy_slots()].tolist()
    engine.take_stats()
    engine.resume(weights_changed=True)
    answers = await asyncio.gather(*jobs)
    stats = engine.take_stats()
    assert stats.copied_tokens == 2 * (len(group) - 1) + 24
    assert stats.prompt_tokens == sum(said) + 3 * len(group) + len(other) - stats.copied_tokens
    for prompt, answer in zip([group, group, other, group], answers, strict=True):
        check_logprobs(model, prompt, answer)


async def test_greedy_takes_the_most_likely_token() -> None:
    model = tiny_model()
    engine = Engine(model, STOPS, OPTIONS)
    prompt = prompts(1)[0]
    answer = await engine.generate(prompt, 0, Sampling(temperature=0, max_tokens=6), 0)
    with torch.no_grad():
        table = forward_logprobs(model, prompt + list(answer.token_ids))
    at = len(prompt) - 1
    assert list(answer.token_ids) == table[at : at + len(answer.token_ids)].argmax(-1).tolist()


async def test_an_error_in_the_model_reaches_everybody_who_waits_and_the_engine_goes_on() -> None:
    model = tiny_model()
    engine = Engine(model, STOPS, OPTIONS)
    bad = [10_000, *range(20)]
    jobs = [engine.generate(bad, 0, Sampling(max_tokens=4), 0) for _ in range(2)]
    results = await asyncio.gather(*jobs, return_exceptions=True)
    assert all(isinstance(r, IndexError) for r in results)
    prompt = prompts(1)[0]
    answer = await engine.generate(prompt, 0, Sampling(max_tokens=4), 0)
    check_logprobs(model, prompt, answer)


@pytest.mark.parametrize(
    ("a", "b", "count"),
    [([], [1], 0), ([1, 2], [1, 2], 2), ([1, 2, 3], [1, 2, 4, 5], 2), ([1], [2], 0)],
)
def test_common_prefix(a: list[int], b: list[int], count: int) -> None:
    assert _common_prefix(a, b) == count


async def test_more_conversations_than_slots_all_come_to_their_end() -> None:
    model = tiny_model()
    engine = Engine(model, STOPS, EngineOptions(num_slots=3, max_context=128))
    head = prompts(1)[0]

    async def converse(number: int) -> None:
        ids, known = [*head, number % 2], 0
        for turn in range(3):
            # One token an answer: many conversations are equal and hold equal slots.
            answer = await engine.generate(ids, known, Sampling(0.0, 1.0, 1), number)
            known = len(ids) + 1
            ids = [*ids, *answer.token_ids, 40 + turn]

    await asyncio.wait_for(asyncio.gather(*(converse(i) for i in range(20))), 60)
    assert sorted(engine._places._parked) == [0, 1, 2]
