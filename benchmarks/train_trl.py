"""Trains with TRL 1.16's `GRPOTrainer` and its environment interface; run by `train.py`.

    python train_trl.py SCENE

Says its versions once it is warm, then makes one update for every line it reads and prints
what the update cost. TRL is given what makes it fast:

- No gradient checkpointing (its default is on), no KL term and hence no reference model, one
  optimiser step per rollout, so that no second forward pass for old log-probabilities is due.
- The whole update is one batch, which it pads to the longest episode, or several of 16 episodes
  where it has more (64 of SmolLM2's take over 100 GB); no logging, no saving.
- The same weights, type, threads and attention (`sdpa`) as ours; on a GPU vLLM in this process
  (`colocate`) where it is installed, without sleep mode.
- The environment is ours, in this process, through `practicum.adapters.trl`. Its one tool takes
  the whole answer, so nothing but the answer is to be parsed, and the tool's reply is rendered
  as our agent shows an observation. No tool schema goes into the prompt.

TRL samples `1 + max_tool_calling_iterations` answers; the last one's action is not played.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from datasets import Dataset
from train_scene import (
    FORMAT,
    Channel,
    Cost,
    Scene,
    Stopwatch,
    choose_tasks,
    find_packages_before_benchmarks,
    score_answers,
)
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from practicum.adapters.stepwise import World
from practicum.adapters.trl.environment import EnvironmentFactory, PracticumEnvironment
from practicum.adapters.trl.tokenizer import prepare_tokenizer

MANY_UPDATES = 10_000
MAX_BATCH = 16
"""Episodes in one forward pass."""
MAX_COMPLETION_TOKENS = 4096
"""For all turns of an episode; the limit for one turn is the scene's."""


class CraftEnv(PracticumEnvironment):
    """One TextCraft episode as TRL sees it, judged as our side judges it."""

    def __init__(self, factory: EnvironmentFactory) -> None:
        super().__init__(factory)
        self._answers: list[str] = []

    def reset(self, **row: Any) -> str:
        """Open the row's task."""
        self._answers = []
        return super().reset(**row)

    def act(self, answer: str) -> str:
        """Carry out one action.

        Args:
            answer: The whole answer.
        """
        self._answers.append(answer)
        return super().act(answer)

    def get_reward(self) -> float:
        """Judge the episode as our side does."""
        return score_answers(self._answers)


class CountingTrainer(GRPOTrainer):
    """Notes how much each update sampled and how long that took."""

    rollout_s = 0.0
    num_sampled = 0
    num_sequence = 0

    def _generate(self, prompts: list[Any]) -> Any:
        begin = time.perf_counter()
        generated = super()._generate(prompts)
        self.rollout_s = time.perf_counter() - begin
        prompt_ids, completion_ids, tool_mask = generated[:3]
        self.num_sampled = sum(map(sum, tool_mask))
        self.num_sequence = sum(map(len, prompt_ids)) + sum(map(len, completion_ids))
        return generated


class OnRequest(TrainerCallback):
    """Lets the trainer make one update for every line that comes in."""

    trainer: CountingTrainer

    def __init__(self, channel: Channel, versions: dict[str, str]) -> None:
        self._channel = channel
        self._versions = versions
        self._watch = Stopwatch()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report the update, then wait."""
        if args.device.type == "cuda":
            torch.cuda.synchronize()
        wall_s, cpu_s = self._watch.read()
        if state.global_step == 1:
            self._channel.say({"versions": self._versions})
        else:
            done = self.trainer
            train_s = wall_s - done.rollout_s
            cost = Cost(done.num_sampled, done.num_sequence, wall_s, cpu_s, done.rollout_s, train_s)
            self._channel.say(asdict(cost))
        control.should_training_stop = not self._channel.wait()
        self._watch.restart()


def make_config(scene: Scene, folder: str) -> GRPOConfig:
    """TRL's settings for the scene."""
    is_cuda = scene.device == "cuda"
    limit = "max_tokens" if scene.sampler == "vllm" else "max_new_tokens"
    return GRPOConfig(
        output_dir=folder,
        use_cpu=not is_cuda,
        bf16=is_cuda,
        per_device_train_batch_size=min(scene.num_episodes, MAX_BATCH),
        gradient_accumulation_steps=max(1, scene.num_episodes // MAX_BATCH),
        num_generations=scene.group_size,
        num_iterations=1,
        max_steps=MANY_UPDATES,
        max_completion_length=MAX_COMPLETION_TOKENS,
        max_tool_calling_iterations=scene.max_turns - 1,
        generation_kwargs={limit: scene.max_new_tokens},
        temperature=scene.temperature,
        learning_rate=scene.learning_rate,
        lr_scheduler_type="constant",
        beta=0.0,
        shuffle_dataset=False,
        gradient_checkpointing=False,
        use_transformers_continuous_batching=scene.sampler == "continuous",
        use_vllm=scene.sampler == "vllm",
        vllm_mode="colocate",
        vllm_gpu_memory_utilization=0.15,
        vllm_enable_sleep_mode=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def main(scene: Scene) -> None:
    channel = Channel()
    torch.set_num_threads(scene.num_threads)
    world = World("textcraft", format_name=FORMAT, limits={"max_turns": scene.max_turns})
    factory = EnvironmentFactory(world, max_completion_tokens=MAX_COMPLETION_TOKENS)
    rows = factory.rows(choose_tasks(world.environment, scene.num_groups))
    tokenizer = prepare_tokenizer(AutoTokenizer.from_pretrained(scene.model))
    model = AutoModelForCausalLM.from_pretrained(
        scene.model, dtype=getattr(torch, scene.dtype), attn_implementation="sdpa"
    )
    names = ("trl", "transformers", "torch", *(["vllm"] if scene.sampler == "vllm" else []))
    pace = OnRequest(channel, {name: version(name) for name in names})
    with tempfile.TemporaryDirectory() as folder:
        trainer = CountingTrainer(
            model=model,
            args=make_config(scene, folder),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            callbacks=[pace],
            environment_factory=lambda: CraftEnv(factory),
        )
        pace.trainer = trainer
        trainer.train()


if __name__ == "__main__":
    find_packages_before_benchmarks()
    main(Scene.load(Path(sys.argv[1])))
