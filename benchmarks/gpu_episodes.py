"""Sampling in episodes of several turns: the `hf` policy's engine beside raw vLLM, in one run.

    python benchmarks/gpu_episodes.py MODEL_DIR [--episodes 512] [--rounds 3]
    python benchmarks/gpu_episodes.py MODEL_DIR --episodes 16 --peer PYTHON     # on a CPU

What a rollout asks of a sampler: groups of 8 episodes begin alike, and every turn's prompt is
the last one, what was answered and an observation. Answers have a fixed number of tokens, all
episodes take the same turns, and nothing waits for an environment. Both get token ids and give
token ids; ours also gives log-probabilities, and draws by a seed for each answer. vLLM's prefix
cache is on, and it is asked for one turn of all episodes at a time. Each side runs in a process
of its own, one after the other; the first round warms up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np

GROUP = 8


class Sampler(Protocol):
    """One side: answers to all prompts, as token ids."""

    def answer(self, prompts: list[list[int]], known: int, seed: int) -> list[list[int]]:
        """Sample a turn; the first `known` tokens of each prompt were there before."""

    def forget(self) -> None:
        """Empty the cache."""


class Ours:
    def __init__(self, args: argparse.Namespace) -> None:
        from practicum.core.agent import Sampling
        from practicum.policies.local.engine import Engine, EngineOptions
        from practicum.policies.local.weights import load_model

        options = EngineOptions(args.episodes, context(args), prefill_rows=4096)
        self._engine = Engine(load_model(args.model), frozenset(), options)
        self._sampling = Sampling(1.0, 1.0, args.answer_tokens)

    def answer(self, prompts: list[list[int]], known: int, seed: int) -> list[list[int]]:
        async def ask() -> list[list[int]]:
            jobs = (
                self._engine.generate(prompt, known, self._sampling, seed * 100_000 + i)
                for i, prompt in enumerate(prompts)
            )
            return [list(answer.token_ids) for answer in await asyncio.gather(*jobs)]

        return self._loop.run_until_complete(ask())

    def forget(self) -> None:
        self._loop = asyncio.new_event_loop()

        async def resume() -> None:
            self._engine.resume(weights_changed=True)

        self._loop.run_until_complete(resume())


class Vllm:
    def __init__(self, args: argparse.Namespace) -> None:
        from practicum.config.engines import VllmConfig
        from practicum.policies.vllm_engine import engine_arguments, prepare_process

        prepare_process()
        from vllm import LLM, SamplingParams

        config = VllmConfig(max_context=context(args), max_sequences=args.episodes)
        self._llm = LLM(**engine_arguments(args.model, config))
        self._params = SamplingParams(max_tokens=args.answer_tokens, ignore_eos=True)

    def answer(self, prompts: list[list[int]], known: int, seed: int) -> list[list[int]]:
        from vllm.inputs import TokensPrompt

        asked = [TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]
        outputs = self._llm.generate(asked, self._params, use_tqdm=False)
        return [list(output.outputs[0].token_ids) for output in outputs]

    def forget(self) -> None:
        self._llm.llm_engine.reset_prefix_cache()


def context(args: argparse.Namespace) -> int:
    """Tokens of a whole episode, in full blocks."""
    tokens = args.opening_tokens + args.turns * (args.answer_tokens + args.observation_tokens)
    return int(-(-tokens // 128) * 128)


def play(sampler: Sampler, args: argparse.Namespace, number: int) -> float:
    """Sampled tokens a second in one round."""
    random = np.random.default_rng(number)
    openings = random.integers(10, 1000, (args.episodes // GROUP, args.opening_tokens)).tolist()
    prompts = [list(opening) for opening in openings for _ in range(GROUP)]
    observations = random.integers(
        10, 1000, (args.turns, len(prompts), args.observation_tokens)
    ).tolist()
    sampler.forget()
    known, began = 0, time.perf_counter()
    for turn in range(args.turns):
        answers = sampler.answer(prompts, known, number * args.turns + turn)
        known = len(prompts[0]) + args.answer_tokens
        for prompt, answer, observation in zip(prompts, answers, observations[turn], strict=True):
            assert len(answer) == args.answer_tokens
            prompt += [*answer, *observation]
    seconds = time.perf_counter() - began
    return float(len(prompts) * args.turns * args.answer_tokens / seconds)


def measure(side: str, python: str) -> dict[str, Any]:
    """Run one side in a process of its own."""
    command = [python, __file__, *sys.argv[1:], "--side", side]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("model", type=Path)
    ask.add_argument("--episodes", type=int, default=512)
    ask.add_argument("--turns", type=int, default=8)
    ask.add_argument("--opening-tokens", type=int, default=300)
    ask.add_argument("--answer-tokens", type=int, default=48)
    ask.add_argument("--observation-tokens", type=int, default=24)
    ask.add_argument("--rounds", type=int, default=3)
    ask.add_argument("--peer", default=sys.executable, help="Python with vLLM and practicum")
    ask.add_argument("--side", choices=("ours", "vllm"), help=argparse.SUPPRESS)
    args = ask.parse_args()
    if args.side:
        sampler: Sampler = Ours(args) if args.side == "ours" else Vllm(args)
        rates = [play(sampler, args, number) for number in range(args.rounds + 1)][1:]
        print(json.dumps({"tokens_per_s": median(rates), "rounds": rates}))
        return
    ours = measure("ours", sys.executable)
    vllm = measure("vllm", args.peer)
    print("| | sampled tokens/s | range | ratio |\n| --- | --- | --- | --- |")
    for name, found in (("practicum, hf engine", ours), ("vLLM", vllm)):
        low, high = min(found["rounds"]), max(found["rounds"])
        ratio = found["tokens_per_s"] / vllm["tokens_per_s"]
        print(f"| {name} | {found['tokens_per_s']:,.0f} | {low:,.0f}-{high:,.0f} | {ratio:.2f}x |")


if __name__ == "__main__":
    main()
