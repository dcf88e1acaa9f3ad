"""Plays an adapter with the environment's expert, which sees what the adapter shows."""

from __future__ import annotations

from practicum.agents.formats import get_format
from practicum.core.agent import Situation
from practicum.core.env import Environment
from practicum.core.episode import Completion, Turn
from practicum.core.message import Observation
from practicum.core.task import Task


class ExpertPlayer:
    """Answers observations; remembers the turns, as scripts are stateless."""

    def __init__(
        self, environment: Environment, task: Task, format_name: str | None = None
    ) -> None:
        self._environment = environment
        self._task = task
        self._format = get_format(format_name) if format_name else None
        self._turns: list[Turn] = []

    def answer(self, observation: str) -> str:
        """The action, or the answer a model would give in the format."""
        seen = Observation(observation)
        situation = Situation(self._task, 0, self._turns, seen, len(self._turns))
        decision = self._environment.scripts["expert"](situation)
        text = decision.action.text
        if self._format is not None:
            text = self._format.render(decision, self._environment.commands)
        self._turns.append(Turn(seen, Completion(text), decision.action))
        return text
