"""Our own agent through the proxy: the episode every trainer must record alike."""

from __future__ import annotations

from adapters import one_episode
from policies.proxy.proxies import Bench, Script, Witness, proxy

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.config.engines import HfConfig
from practicum.core.agent import Policy, Sampling
from practicum.core.episode import Episode
from practicum.envs.registry import load_env
from practicum.policies.model_spec import make_hf
from practicum.policies.openai_endpoint import Endpoint, OpenAIPolicy
from practicum.policies.proxy.upstream import PolicyUpstream
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Table, play_episode


async def play(policy: Policy, sampling: Sampling) -> Episode:
    environment = load_env("textcraft")
    agent = ChatAgent(environment, get_format(one_episode.FORMAT), policy, sampling)
    table = Table(environment, agent, judge_outcome, Limits(one_episode.MAX_TURNS))
    return await play_episode(table, Attempt(one_episode.task()))


async def play_through(bench: Bench, sampling: Sampling) -> Episode:
    policy = OpenAIPolicy(
        Endpoint("any", f"{bench.url}/v1", bench.key, wants_logprobs=True, wants_token_ids=True)
    )
    try:
        return await play(policy, sampling)
    finally:
        await policy.aclose()


async def test_the_shared_episode_has_the_shared_digest() -> None:
    script = Script(one_episode.renderer(), one_episode.TEXTS)
    upstream = PolicyUpstream(script, one_episode.renderer(), "script")
    async with proxy(upstream) as bench:
        episode = await play_through(bench, Sampling())
        assert episode.reward is not None
        await bench.reward(episode.reward.value)
        await bench.end()
        record = await bench.record()
        [sample] = record["samples"]
        last = record["calls"][-1]
        assert (
            one_episode.digest(
                [*last["asked"]["messages"], last["answer"]],
                sample["token_ids"],
                sample["is_trained"],
                sample["reward"],
            )
            == one_episode.DIGEST
        )


async def test_the_base_model_answers_alike_in_process_and_through_the_proxy() -> None:
    greedy = Sampling(temperature=0, max_tokens=64)
    policy = make_hf("craft-base", HfConfig(), 2)
    direct = await play(policy, greedy)
    witness = Witness(policy)
    async with proxy(PolicyUpstream(witness, policy.renderer, "craft-base"), witness) as bench:
        through = await play_through(bench, greedy)
        assert [t.completion.token_ids for t in through.turns] == [
            t.completion.token_ids for t in direct.turns
        ]
        # What the endpoint policy was told is what was sampled, log-probabilities included.
        for turn, sampled in zip(through.turns, witness.completions, strict=True):
            said = turn.completion
            assert (said.prompt_token_ids, said.token_ids, said.logprobs) == (
                sampled.prompt_token_ids,
                sampled.token_ids,
                sampled.logprobs,
            )
        [sample] = (await bench.record())["samples"]
        assert sum(sample["is_trained"]) == sum(len(c.token_ids or ()) for c in witness.completions)
