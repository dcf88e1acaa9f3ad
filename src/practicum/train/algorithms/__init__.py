"""RL algorithms, one per file."""

from __future__ import annotations

from typing import Any

from practicum.config.algorithms import AlgorithmConfig
from practicum.train.algorithms.base import Algorithm
from practicum.train.algorithms.dapo import Dapo
from practicum.train.algorithms.dr_grpo import DrGrpo
from practicum.train.algorithms.gigpo import Gigpo
from practicum.train.algorithms.grpo import Grpo
from practicum.train.algorithms.gspo import Gspo
from practicum.train.algorithms.ppo import Ppo
from practicum.train.algorithms.reinforce_pp import ReinforcePp
from practicum.train.algorithms.rloo import Rloo

ALGORITHMS: dict[str, type[Algorithm[Any]]] = {
    "grpo": Grpo,
    "dr_grpo": DrGrpo,
    "rloo": Rloo,
    "reinforce_pp": ReinforcePp,
    "dapo": Dapo,
    "gspo": Gspo,
    "gigpo": Gigpo,
    "ppo": Ppo,
}


def make_algorithm(config: AlgorithmConfig) -> Algorithm[Any]:
    """The algorithm a config names."""
    return ALGORITHMS[config.name](config)
