"""Trains with our own loop for the training benchmark; run by `train.py`.

    python train_practicum.py SCENE

Says its versions once it is warm, then makes one update for every line it reads and prints
what the update cost. It is `train_online` itself, as `practicum rl` runs it, with a reward
that random weights can earn; no evaluation, no records, and no checkpoint but the last.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import torch
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
)

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.config.train import RlConfig
from practicum.core.agent import Sampling
from practicum.core.episode import Episode
from practicum.core.reward import Reward
from practicum.core.task import Task
from practicum.policies.local.engine import EngineOptions
from practicum.policies.local.policy import HfPolicy
from practicum.policies.local.weights import load_model
from practicum.rollout.play import Limits, Slots, Table
from practicum.train.loop import Journal, Progress, train_online
from practicum.train.mixture import Mixture, Part
from practicum.train.trainer import LocalTrainer, Metrics

MANY_UPDATES = 10_000


@dataclass(frozen=True)
class Side:
    """All that our loop needs to play and learn the scene."""

    config: RlConfig
    table: Table
    tasks: Sequence[Task]
    policy: HfPolicy
    trainer: LocalTrainer


async def judge_answers(task: Task, episode: Episode) -> Reward:
    """Judge as the peer's environment does."""
    del task
    return Reward(score_answers([turn.completion.text for turn in episode.turns]), False)


def make_side(scene: Scene) -> Side:
    """Build the loop's parts from the scene."""
    torch.set_num_threads(scene.num_threads)
    config = RlConfig.model_validate(
        {
            "env": "textcraft",
            "model": {
                "path": scene.model,
                "device": scene.device,
                "dtype": scene.dtype,
                "max_context": scene.max_context,
                "compile": scene.compile,
            },
            "groups": {"size": scene.group_size, "per_update": scene.num_groups},
            "optimizer": {"learning_rate": scene.learning_rate},
            "packing": {"pack_tokens": scene.pack_tokens},
            "num_updates": MANY_UPDATES,
            "checkpoints": {"every": MANY_UPDATES},
            "evaluate": None,
        }
    )
    environment = load_textcraft()
    model = load_model(scene.model, device=scene.device, dtype=scene.dtype)
    options = EngineOptions(
        num_slots=scene.num_episodes, max_context=scene.max_context, compile=scene.compile
    )
    policy = HfPolicy(model, options)
    sampling = Sampling(temperature=scene.temperature, max_tokens=scene.max_new_tokens)
    agent = ChatAgent(environment, get_format(FORMAT), policy, sampling)
    limits, slots = Limits(scene.max_turns), Slots(scene.num_episodes)
    trainer = LocalTrainer(
        model,
        config.optimizer,
        config.packing,
        num_updates=MANY_UPDATES,
        compile_model=scene.compile,
        temperature=scene.temperature,
    )
    return Side(
        config,
        Table(environment, agent, judge_answers, limits, slots),
        choose_tasks(environment, scene.num_groups),
        policy,
        trainer,
    )


async def train(scene: Scene, channel: Channel) -> None:
    """Update for as long as lines come in."""
    side = make_side(scene)
    watch = Stopwatch()
    is_over = False

    def report(metrics: Metrics) -> None:
        nonlocal is_over
        wall_s, cpu_s = watch.read()
        if metrics["update"] == 1:
            names = ("transformers", "torch")  # ours is the checkout's
            channel.say({"versions": {name: version(name) for name in names}})
        else:
            rollout_s = metrics["time/sampling_s"] + metrics["time/environment_s"]
            cost = Cost(
                num_sampled=int(metrics["tokens/sampled"]),
                num_sequence=int(metrics["tokens/computed"] + metrics["tokens/shared"]),
                wall_s=wall_s,
                cpu_s=cpu_s,
                rollout_s=rollout_s,
                train_s=wall_s - rollout_s,
            )
            channel.say(asdict(cost))
        is_over = not channel.wait()
        watch.restart()

    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(
            record=lambda episode: None,
            log=report,
            save=lambda progress: Path(folder),
            estimate=lambda tallies: {},
            is_stopping=lambda: is_over,
        )
        await train_online(
            side.config,
            Mixture([Part("textcraft", side.table, side.tasks)], side.config.seed),
            side.policy,
            side.trainer,
            None,
            journal,
            Progress(),
        )


if __name__ == "__main__":
    find_packages_before_benchmarks()
    asyncio.run(train(Scene.load(Path(sys.argv[1])), Channel()))
