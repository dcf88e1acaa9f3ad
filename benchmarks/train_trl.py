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
- The environment is ours, in this process and called directly. Its one tool takes the whole
  answer, so nothing but the answer is to be parsed, and the tool's reply is rendered as our
  agent shows an observation. No tool schema goes into the prompt.

TRL samples `1 + max_tool_calling_iterations` answers; the last one's action is not played.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from datasets import Dataset
from tiny_model import CHAT_TEMPLATE, RESPONSE_TEMPLATE
from train_scene import (
    FORMAT,
    Channel,
    Cost,
    Scene,
    Stopwatch,
    choose_tasks,
    find_packages_before_benchmarks,
    load_textcraft,
    score_answers,
    system_text,
)
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from practicum.agents.formats import get_format
from practicum.core.env import Env, Environment
from practicum.core.episode import FormatError
from practicum.core.task import Task

Result = TypeVar("Result")
MANY_UPDATES = 10_000
MAX_BATCH = 16
"""Episodes in one forward pass."""
MAX_COMPLETION_TOKENS = 4096
"""For all turns of an episode; the limit for one turn is the scene's."""


def finish(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine that waits for nothing, without the price of an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise RuntimeError("the environment waited: it is not the in-process one")


class CraftEnv:
    """One TextCraft episode as TRL sees it: `reset`, one tool, `get_reward`."""

    environment: Environment
    tasks: dict[str, Task]

    def __init__(self) -> None:
        self._format = get_format(FORMAT)
        self._answers: list[str] = []
        self._env: Env | None = None

    def reset(self, **row: Any) -> str:
        """Open the row's task; the text goes to the end of the user's message."""
        self._answers = []
        env = finish(self.environment.open(self.tasks[row["task_id"]]).__aenter__())
        self._env = env
        return finish(env.start()).text

    def act(self, action: str) -> str:
        """Carry out one action.

        Args:
            action: The whole answer.
        """
        self._answers.append(action)
        if self._env is None:
            return "The episode is over."
        parsed = self._format.parse(action, self.environment.commands)
        if isinstance(parsed, FormatError):
            return parsed.feedback
        result = finish(self._env.step(parsed.action))
        if result.is_done:
            self._env = None
        return result.observation.text

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
    CraftEnv.environment = load_textcraft()
    tasks = choose_tasks(CraftEnv.environment, scene.num_groups)
    CraftEnv.tasks = {task.id: task for task in tasks}
    system = {"role": "system", "content": system_text(CraftEnv.environment)}
    prompt = [system, {"role": "user", "content": ""}]
    tokenizer = AutoTokenizer.from_pretrained(scene.model)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.response_template = RESPONSE_TEMPLATE
    model = AutoModelForCausalLM.from_pretrained(
        scene.model, dtype=getattr(torch, scene.dtype), attn_implementation="sdpa"
    )
    names = ("trl", "transformers", "torch", *(["vllm"] if scene.sampler == "vllm" else []))
    pace = OnRequest(channel, {name: version(name) for name in names})
    with tempfile.TemporaryDirectory() as folder:
        trainer = CountingTrainer(
            model=model,
            args=make_config(scene, folder),
            train_dataset=Dataset.from_list([{"prompt": prompt, "task_id": t.id} for t in tasks]),
            processing_class=tokenizer,
            callbacks=[pace],
            environment_factory=CraftEnv,
        )
        pace.trainer = trainer
        trainer.train()


if __name__ == "__main__":
    find_packages_before_benchmarks()
    main(Scene.load(Path(sys.argv[1])))
