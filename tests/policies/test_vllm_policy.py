"""The vllm policy against the real engine, on the CPU, with a tiny model of random weights."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.config.engines import VllmConfig
from practicum.core.agent import Prompt, Sampling, Situation
from practicum.core.episode import Completion, Episode, StopReason, Turn
from practicum.core.errors import ConfigError, PolicyError
from practicum.core.message import Message, Observation
from practicum.core.task import Task
from practicum.envs import registry
from practicum.policies.proxy.upstream import PolicyUpstream
from practicum.policies.vllm_engine import start_engine
from practicum.policies.vllm_policy import VllmPolicy
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Slots, Table, play_many

if find_spec("vllm") is None:
    pytest.skip(
        "vLLM lives in a virtual environment of its own: make test-vllm", allow_module_level=True
    )

import torch
from policies.proxy.proxies import Witness, proxy
from tiny_models import tiny_model
from transformers import AutoModelForCausalLM

# vLLM's own imports and libraries warn.
pytestmark = pytest.mark.filterwarnings("ignore")

TASK = Task.create("e", "p", {})
FACTS = "You see oak logs, planks, sticks and a crafting table. " * 6
CONFIG = VllmConfig(dtype="float32", max_sequences=64, kv_cache_gib=0.25, can_sleep=True)
SAMPLING = Sampling(temperature=0.7, max_tokens=24)


class Probe:
    """Sees the engine behind the policy, counts its steps and can make one fail."""

    engine: Any
    num_steps = 0
    fails_next = False

    def make_engine(self, path: Path, config: VllmConfig) -> Any:
        self.engine = start_engine(path, config)
        step = self.engine.step

        def counted() -> Any:
            self.num_steps += 1
            if self.fails_next:
                self.fails_next = False
                raise RuntimeError("the card fell out\nof the machine")
            return step()

        self.engine.step = counted
        return self.engine


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models of one shape: the one to start with, and one to update to."""
    made = []
    for seed in (0, 1):
        folder = tmp_path_factory.mktemp(f"model{seed}")
        model = tiny_model(
            seed=seed, hidden_size=64, intermediate_size=128, head_dim=32,
            max_position_embeddings=4096, initializer_range=0.01,
        )  # fmt: skip
        model.network.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        made.append(folder)
    return made[0], made[1]


@pytest.fixture(scope="module")
def probe() -> Probe:
    return Probe()


@pytest.fixture(scope="module")
def shared(folders: tuple[Path, Path], probe: Probe) -> Iterator[VllmPolicy]:
    policy = VllmPolicy(folders[0], CONFIG, make_engine=probe.make_engine)
    yield policy
    asyncio.run(policy.aclose())


@pytest.fixture
async def policy(shared: VllmPolicy, folders: tuple[Path, Path]) -> AsyncIterator[VllmPolicy]:
    """The engine with the first model's weights and nothing in its prefix cache."""
    await shared.load(folders[0], version=0)
    yield shared


def first_prompt(seed: int = 0, said: str = FACTS) -> Prompt:
    situation = Situation(TASK, 0, (), Observation(said), seed)
    return Prompt((Message("system", "Play."), Message("user", said)), situation)


def next_prompt(prompt: Prompt, answer: Completion, said: str, seed: int = 0) -> Prompt:
    turn = Turn(prompt.situation.observation, answer, None)
    situation = Situation(TASK, 0, (*prompt.situation.history, turn), Observation(said), seed)
    told = (Message("assistant", answer.text), Message("user", said))
    return Prompt((*prompt.messages, *told), situation)


def reference_logprobs(folder: Path, answer: Completion, temperature: float) -> torch.Tensor:
    """What transformers gives in float32 for the same ids."""
    assert answer.prompt_token_ids is not None and answer.token_ids is not None
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.tensor([answer.prompt_token_ids + answer.token_ids])
    with torch.no_grad():
        logits_T_V = model(ids).logits[0, len(answer.prompt_token_ids) - 1 : -1]
    logprobs_T_V = (logits_T_V / temperature).log_softmax(-1)
    return logprobs_T_V.gather(1, torch.tensor(answer.token_ids)[:, None])[:, 0]


def gap(folder: Path, answer: Completion, temperature: float) -> float:
    ours = torch.tensor(answer.logprobs)
    return float((ours - reference_logprobs(folder, answer, temperature)).abs().max())


async def test_ids_go_in_and_come_out_as_they_are(policy: VllmPolicy) -> None:
    prompt = first_prompt()
    answer = await policy.complete(prompt, SAMPLING)
    assert answer.prompt_token_ids == policy.renderer.prompt_ids(prompt)
    assert answer.token_ids is not None and answer.logprobs is not None
    assert len(answer.token_ids) == len(answer.logprobs)
    assert answer.text == policy.renderer.decode(answer.token_ids)
    assert answer.policy_version == 0


async def test_an_answer_ends_at_the_end_of_turn_or_at_the_limit(policy: VllmPolicy) -> None:
    prompts = [first_prompt(seed) for seed in range(64)]
    answers = await asyncio.gather(*(policy.complete(p, Sampling(max_tokens=24)) for p in prompts))
    end = policy.renderer.end_of_turn_id
    assert {answer.finish for answer in answers} == {"stop", "length"}
    for answer in answers:
        assert answer.token_ids is not None
        assert (answer.token_ids[-1] == end) == (answer.finish == "stop")
        assert "<|im_end|>" not in answer.text
        assert end not in answer.token_ids[:-1]
        assert len(answer.token_ids) == 24 or answer.finish == "stop"


@pytest.mark.parametrize("temperature", [1.0, 0.6])
async def test_logprobs_are_those_of_the_distribution_sampled_from(
    policy: VllmPolicy, folders: tuple[Path, Path], temperature: float
) -> None:
    answer = await policy.complete(first_prompt(), Sampling(temperature, max_tokens=40))
    assert gap(folders[0], answer, temperature) < 1e-3


async def test_top_p_raises_the_logprobs_of_what_is_left(
    policy: VllmPolicy, folders: tuple[Path, Path]
) -> None:
    answer = await policy.complete(first_prompt(), Sampling(1.0, top_p=0.5, max_tokens=40))
    raised = torch.tensor(answer.logprobs) - reference_logprobs(folders[0], answer, 1.0)
    # At least half of the mass is kept, so each is raised by at most ln 2.
    assert (raised > -1e-3).all() and (raised < 0.6941).all() and raised.mean() > 0.1


async def test_greedy_answers_are_the_likeliest_tokens(
    policy: VllmPolicy, folders: tuple[Path, Path]
) -> None:
    answer = await policy.complete(first_prompt(), Sampling(0.0, max_tokens=12))
    assert answer == await policy.complete(first_prompt(seed=9), Sampling(0.0, max_tokens=12))
    model = AutoModelForCausalLM.from_pretrained(folders[0], dtype=torch.float32)
    ids = torch.tensor([policy.renderer.prompt_ids(first_prompt())])
    best = model.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=0)
    assert answer.token_ids == tuple(best[0, ids.shape[1] :].tolist())
    assert gap(folders[0], answer, 1.0) < 1e-3


async def test_answers_depend_on_their_seed_and_not_on_their_company(policy: VllmPolicy) -> None:
    prompts = [first_prompt(seed, f"Say {seed % 5}. {FACTS}") for seed in range(64)]
    together = await asyncio.gather(*(policy.complete(p, SAMPLING) for p in prompts))
    assert len({answer.token_ids for answer in together}) > 32
    for prompt, answer in list(zip(prompts, together, strict=True))[::7]:
        alone = await policy.complete(prompt, SAMPLING)
        assert alone.token_ids == answer.token_ids
        assert alone.logprobs == pytest.approx(answer.logprobs, abs=1e-3)


async def test_new_weights_answer_without_a_restart(
    policy: VllmPolicy, folders: tuple[Path, Path]
) -> None:
    old = await policy.complete(first_prompt(), SAMPLING)
    await policy.load(folders[1], version=1)
    new = await policy.complete(first_prompt(), SAMPLING)
    assert (old.policy_version, new.policy_version, policy.version) == (0, 1, 1)
    assert new.token_ids != old.token_ids
    assert gap(folders[1], new, 0.7) < 1e-3
    tensors = AutoModelForCausalLM.from_pretrained(folders[0], dtype=torch.float32).state_dict()
    await policy.load(tensors, version=2)
    back = await policy.complete(first_prompt(), SAMPLING)
    assert (back.policy_version, back.token_ids) == (2, old.token_ids)
    assert back.logprobs == pytest.approx(old.logprobs, abs=1e-5)


async def test_each_answer_is_the_work_of_one_version(
    policy: VllmPolicy, folders: tuple[Path, Path]
) -> None:
    async with asyncio.TaskGroup() as tasks:
        before = [tasks.create_task(policy.complete(first_prompt(s), SAMPLING)) for s in range(4)]
        await asyncio.sleep(0)
        loading = tasks.create_task(policy.load(folders[1], version=1))
        await asyncio.sleep(0)
        after = [tasks.create_task(policy.complete(first_prompt(s), SAMPLING)) for s in range(4)]
    assert loading.done()
    for version, jobs in enumerate((before, after)):
        for job in jobs:
            assert job.result().policy_version == version
            assert gap(folders[version], job.result(), 0.7) < 1e-3


async def test_weights_of_another_model_are_refused_and_change_nothing(
    policy: VllmPolicy, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    answer = await policy.complete(first_prompt(), SAMPLING)
    whole = AutoModelForCausalLM.from_pretrained(folders[1], dtype=torch.float32).state_dict()
    norm = "model.norm.weight"
    for tensors, complaint in (
        ({n: t for n, t in whole.items() if n != norm}, r"\(64,\) and is absent"),
        (whole | {norm: torch.ones(7)}, r"\(64,\) and is \(7,\)"),
        (whole | {"model.nor.weight": torch.ones(64)}, r"absent and is \(64,\)"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            await policy.load(tensors, version=3)
    with pytest.raises(ConfigError, match="holds no weights"):
        await policy.load(tmp_path, version=3)
    assert (await policy.complete(first_prompt(), SAMPLING)).token_ids == answer.token_ids


async def test_nothing_is_sampled_from_weights_that_are_neither_old_nor_new(
    policy: VllmPolicy, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("half way")

    with monkeypatch.context() as patch:
        patch.setattr("practicum.policies.vllm_policy.replace_weights", fail)
        with pytest.raises(PolicyError, match="RuntimeError: half way") as caught:
            await policy.load(folders[1], version=3)
    assert (caught.value.kind, policy.version) == ("engine-error", None)
    with pytest.raises(PolicyError, match="neither old nor new") as caught:
        await policy.complete(first_prompt(), SAMPLING)
    assert caught.value.kind == "no-weights"


async def test_the_second_turn_computes_only_what_is_new(
    policy: VllmPolicy, folders: tuple[Path, Path]
) -> None:
    first = first_prompt()
    answer = await policy.complete(first, SAMPLING)
    cached = policy.counts.num_cached
    second = next_prompt(first, answer, "You got 4 oak planks.")
    later = await policy.complete(second, SAMPLING)
    assert answer.prompt_token_ids is not None and later.prompt_token_ids is not None
    hit = policy.counts.num_cached - cached
    assert answer.token_ids is not None
    # Whole blocks of the cache are found again, 128 tokens each on the CPU. The last token
    # that was sampled had not been fed yet.
    known = len(answer.prompt_token_ids) + len(answer.token_ids) - 1
    assert hit == known // 128 * 128 > len(answer.prompt_token_ids)
    assert gap(folders[0], later, 0.7) < 1e-3
    await policy.load(folders[0], version=1)
    cached = policy.counts.num_cached
    await policy.complete(second, SAMPLING)
    assert policy.counts.num_cached == cached, "what old weights computed must be forgotten"


async def test_a_prompt_without_room_for_an_answer_ends_by_context(policy: VllmPolicy) -> None:
    assert await policy.complete(first_prompt(said="x" * 4096), SAMPLING) == Completion(
        "", finish="context"
    )
    taken = len(policy.renderer.prompt_ids(first_prompt(said="")))
    full = first_prompt(said="x" * (policy.max_context - taken - 3))
    answer = await policy.complete(full, Sampling(max_tokens=24))
    assert answer.finish == "length" and len(answer.token_ids or ()) == 3


async def test_an_impossible_request_fails_alone(policy: VllmPolicy) -> None:
    forged = Completion("?", prompt_token_ids=(1, 2), token_ids=(9999,), logprobs=(0.0,))
    jobs = [policy.complete(first_prompt(seed), SAMPLING) for seed in range(4)]
    jobs.insert(2, policy.complete(next_prompt(first_prompt(), forged, "?"), SAMPLING))
    results = await asyncio.gather(*jobs, return_exceptions=True)
    broken = results.pop(2)
    assert isinstance(broken, PolicyError) and broken.kind == "refused"
    assert "9999 is out of vocabulary" in str(broken)
    assert all(isinstance(result, Completion) for result in results)


async def test_a_failed_step_loses_the_answers_under_way_and_no_others(
    policy: VllmPolicy, probe: Probe
) -> None:
    before = await policy.complete(first_prompt(), SAMPLING)
    probe.fails_next = True
    with pytest.raises(
        PolicyError, match=r"RuntimeError: the card fell out of the machine$"
    ) as caught:
        await policy.complete(first_prompt(), SAMPLING)
    assert caught.value.kind == "engine-error"
    assert (await policy.complete(first_prompt(), SAMPLING)).token_ids == before.token_ids


async def test_an_answer_given_up_on_is_not_sampled_to_its_end(
    policy: VllmPolicy, probe: Probe, folders: tuple[Path, Path]
) -> None:
    probe.num_steps = 0
    job = asyncio.create_task(policy.complete(first_prompt(), Sampling(0.0, max_tokens=3000)))
    while probe.num_steps < 3:
        await asyncio.sleep(0.001)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    await policy.load(folders[0], version=1)  # waits for all that is under way
    assert probe.engine.get_num_unfinished_requests() == 0
    assert probe.num_steps < 1000


async def test_nothing_is_asked_of_a_sleeping_engine(policy: VllmPolicy) -> None:
    answer = await policy.complete(first_prompt(), SAMPLING)
    await policy.sleep()
    with pytest.raises(PolicyError, match="call wake") as caught:
        await policy.complete(first_prompt(), SAMPLING)
    assert caught.value.kind == "asleep"
    await policy.wake()
    assert (await policy.complete(first_prompt(), SAMPLING)).token_ids == answer.token_ids


async def test_whole_episodes_grow_by_appending(policy: VllmPolicy) -> None:
    environment = registry.load_env("textcraft")
    agent = ChatAgent(environment, get_format("react"), policy, Sampling(max_tokens=16))
    table = Table(environment, agent, judge_outcome, Limits(max_turns=3), Slots(8))
    tasks = environment.panel("dev").tasks[:4]
    episodes: list[Episode] = []
    attempts = [Attempt(task, sample) for task in tasks for sample in range(2)]
    await play_many(table, attempts, episodes.append)
    await environment.aclose()
    assert [e.error for e in episodes] == [None] * 8
    assert {e.stop for e in episodes} == {StopReason.TURN_LIMIT}
    for episode in episodes:
        said = [turn.completion for turn in episode.turns]
        assert len(said) == 3
        for earlier, later in pairwise(said):
            assert earlier.prompt_token_ids is not None and earlier.token_ids is not None
            assert later.prompt_token_ids is not None
            known = earlier.prompt_token_ids + earlier.token_ids
            assert later.prompt_token_ids[: len(known)] == known


class KeptOpen(PolicyUpstream):
    """The engine outlives the proxy in front of it."""

    async def aclose(self) -> None: ...


async def test_the_proxy_records_what_the_engine_sampled(policy: VllmPolicy) -> None:
    witness = Witness(policy)
    async with proxy(KeptOpen(witness, policy.renderer, "tiny"), witness) as bench:
        client = bench.openai()
        messages: list[Any] = [{"role": "user", "content": FACTS}]
        for _ in range(3):
            reply = await client.chat.completions.create(
                model="any", messages=messages, max_tokens=8
            )
            messages += [reply.choices[0].message, {"role": "user", "content": "Go on."}]
        [sample] = (await bench.record())["samples"]
        pairs = zip(sample["token_ids"], sample["is_trained"], strict=True)
        sampled = [i for c in witness.completions for i in c.token_ids or ()]
        assert [i for i, is_trained in pairs if is_trained] == sampled


async def test_a_closed_engine_says_so(folders: tuple[Path, Path]) -> None:
    policy = VllmPolicy(folders[0], CONFIG, version=7)
    assert (await policy.complete(first_prompt(), SAMPLING)).policy_version == 7
    job = asyncio.create_task(policy.complete(first_prompt(), Sampling(0.0, max_tokens=3000)))
    await asyncio.sleep(0.01)
    await policy.aclose()
    await policy.aclose()
    for asked in (job, policy.complete(first_prompt(), SAMPLING)):
        with pytest.raises(PolicyError) as caught:
            await asked
        assert caught.value.kind == "closed"


def test_a_model_that_cannot_be_started_is_the_users_to_mend(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"vLLM cannot start: .*5000"):
        VllmPolicy(folders[0], VllmConfig(max_context=5000, kv_cache_gib=0.25))
    shutil.copytree(folders[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "config.json").unlink()
    with pytest.raises(ConfigError, match="holds no model"):
        VllmPolicy(tmp_path, VllmConfig())


async def test_weights_saved_in_float32_are_used_in_float32(folders: tuple[Path, Path]) -> None:
    policy = VllmPolicy(folders[0], VllmConfig(kv_cache_gib=0.25))
    try:
        answer = await policy.complete(first_prompt(), SAMPLING)
        assert gap(folders[0], answer, 0.7) < 1e-3
        with pytest.raises(ConfigError, match="without can_sleep"):
            await policy.sleep()
    finally:
        await policy.aclose()


def test_a_cpu_without_bfloat16_is_not_asked_for_it(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"bf16": False})
    with pytest.raises(ConfigError, match="set dtype to float32"):
        VllmPolicy(folders[0], VllmConfig(dtype="bfloat16"))
