"""Our sampler and trainer on one model: tokens/s, and how far their log-probabilities are apart.

    python benchmarks/gpu_policy.py MODEL_DIR [--sequences 512] [--compile] [--json FILE]

Prompts of 605 random tokens, 128 sampled tokens each, nothing shared: what raw vLLM is
measured with in gpu_vllm.py. The trainer is measured beside a bare forward/backward loop
over the same packed batches: the same network and optimiser with nothing around them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from practicum.config.algorithms import GrpoConfig
from practicum.config.train import OptimizerConfig, PackingConfig
from practicum.core.agent import Sampling
from practicum.policies.local.attention import PackedLayout
from practicum.policies.local.engine import Engine, EngineOptions
from practicum.policies.local.places import Generated
from practicum.policies.local.stepper import hidden_states, output_head
from practicum.policies.local.weights import LocalModel, load_model
from practicum.train.algorithms.grpo import Grpo
from practicum.train.batch import Pack, Sample
from practicum.train.trainer import LocalTrainer


def sync() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


async def sample(
    engine: Engine, prompts: list[list[int]], new_tokens: int, seed: int
) -> tuple[float, list[Generated]]:
    sampling = Sampling(1.0, 1.0, new_tokens)
    sync()
    began = time.perf_counter()
    jobs = [engine.generate(p, 0, sampling, seed * 10_000 + i) for i, p in enumerate(prompts)]
    answers = await asyncio.gather(*jobs)
    sync()
    return time.perf_counter() - began, answers


def as_sample(prompt: list[int], answer: Generated) -> Sample:
    ids = np.array([*prompt, *answer.token_ids], np.int64)
    is_trained = np.zeros(len(ids), np.bool_)
    is_trained[len(prompt) :] = True
    logprobs = np.zeros(len(ids), np.float32)
    logprobs[len(prompt) :] = answer.logprobs
    advantages = np.where(is_trained, np.random.default_rng(0).choice([-1, 1]), 0).astype("f4")
    turns = np.where(is_trained, 0, -1)
    return Sample(ids, is_trained, logprobs, advantages, np.zeros_like(advantages), turns)


def bare_step(model: LocalModel, packs: list[Pack], optimizer: Any) -> None:
    for pack in packs:
        layout = PackedLayout(pack.lengths, model.device)
        ids, positions, at, targets = (
            torch.from_numpy(a).to(model.device)
            for a in (pack.ids_T, pack.positions_T, pack.predictors_N, pack.targets_N)
        )
        hidden = hidden_states(model.network, ids, positions, layout)[at]
        logits = output_head(model.network)(hidden).float()
        torch.nn.functional.cross_entropy(logits, targets).backward()
    optimizer.step()
    optimizer.zero_grad()


def measure_training(
    model: LocalModel, samples: list[Sample], pack_tokens: int, compiled: bool
) -> dict[str, float]:
    def trainer_of() -> LocalTrainer:
        return LocalTrainer(
            model,
            OptimizerConfig(learning_rate=1e-7),
            PackingConfig(pack_tokens=pack_tokens),
            num_updates=10,
            compile_model=compiled,
        )

    trainer = trainer_of()
    packs = trainer.pack(samples)
    computed = sum(len(s) for s in samples)
    objective = Grpo(GrpoConfig()).objective

    began = time.perf_counter()
    metrics = trainer.step(packs, objective, update=0)
    sync()
    first_s = time.perf_counter() - began
    times = []
    for update in range(1, 4):
        began = time.perf_counter()
        trainer.step(packs, objective, update=update)
        sync()
        times.append(time.perf_counter() - began)
    optimizer = torch.optim.AdamW(model.network.parameters(), lr=1e-9, fused=True)
    bare = []
    for _ in range(4):
        began = time.perf_counter()
        bare_step(model, packs, optimizer)
        sync()
        bare.append(time.perf_counter() - began)
    return {
        "mismatch_mean": metrics["mismatch/mean"],
        "mismatch_max": metrics["mismatch/max"],
        "first_step_s": first_s,
        "trained_tokens_per_s": computed / min(times),
        "bare_tokens_per_s": computed / min(bare[1:]),
    }


async def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("model", type=Path)
    ask.add_argument("--sequences", type=int, default=512)
    ask.add_argument("--prompt-tokens", type=int, default=605)
    ask.add_argument("--new-tokens", type=int, default=128)
    ask.add_argument("--rounds", type=int, default=3)
    ask.add_argument("--compile", action="store_true")
    ask.add_argument("--pack-tokens", type=int, default=32768)
    ask.add_argument("--json", type=Path)
    args = ask.parse_args()
    torch.set_float32_matmul_precision("high")
    model = load_model(args.model)
    vocabulary = model.network.config.vocab_size
    options = EngineOptions(
        num_slots=args.sequences,
        max_context=args.prompt_tokens + args.new_tokens + 3,
        prefill_rows=4096,
        compile=args.compile,
    )
    engine = Engine(model, frozenset(), options)
    result: dict[str, Any] = {"compile": args.compile, "sequences": args.sequences}
    tokens = args.sequences * args.new_tokens
    answers: list[Generated] = []
    for round_number in range(args.rounds):
        random = np.random.default_rng(round_number)
        prompts = random.integers(
            10, vocabulary - 10, (args.sequences, args.prompt_tokens)
        ).tolist()
        engine.take_stats()
        engine.resume(weights_changed=True)
        wall_s, answers = await sample(engine, prompts, args.new_tokens, round_number)
        stats = engine.take_stats()
        result[f"round_{round_number}"] = {
            "sampled_tokens_per_s": tokens / wall_s,
            "wall_s": wall_s,
            "steps": stats.steps,
        }
        print(json.dumps(result[f"round_{round_number}"]), flush=True)
    samples = [as_sample(p, a) for p, a in zip(prompts, answers, strict=True)][:256]
    result["training"] = measure_training(model, samples, args.pack_tokens, args.compile)
    if torch.cuda.is_available():
        result["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    print(json.dumps(result), flush=True)
    if args.json:
        args.json.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
