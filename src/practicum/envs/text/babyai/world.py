"""One game of BabyAI in text: AgentGym's actions and words on a minigrid level.

Where AgentGym's server goes wrong, this does not follow it:

- An action stops as soon as the mission is done, and that ends the episode whatever it
  pays; AgentGym plays on, forgets a success in the middle of an action, and lets one that
  pays 0.5 or less be earned again.
- Running out of minigrid's steps ends the episode, so a reward is never negative. So does
  a failed mission (some levels forbid opening the wrong door).
- The mission is shown as it is; AgentGym writes `and` for `then` and for `after you`.
- `red ball 1` is the same ball in the description and in every action.
- `move forward` is offered only where it moves; `toggle` also opens boxes and shuts doors,
  without which some missions cannot be done; `go to` something right ahead costs a step
  and counts. With nothing in sight, the text says so.
"""

from __future__ import annotations

from collections.abc import Callable

from practicum.core.env import StepResult
from practicum.core.message import Observation
from practicum.envs.text.babyai.engine import open_level
from practicum.envs.text.babyai.menu import CHECK, NOT_UNDERSTOOD, Menu, make_menu, normalise
from practicum.envs.text.babyai.view import View, describe, read_view

Watch = Callable[[int], None]
"""Told every low-level move once it is made."""


Show = Callable[[str], Observation]
"""Makes an observation of a text, perhaps with a picture of the world as it is now."""


class Game:
    """One level, played with action texts. Plain and synchronous."""

    def __init__(self, level: str, seed: int, show: Show = Observation) -> None:
        self.world = open_level(level, seed)
        self.is_over = False
        self._show = show
        self.look()

    @property
    def mission(self) -> str:
        """What is to be done, in minigrid's words."""
        return str(self.world.mission)

    @property
    def first_text(self) -> str:
        """What the player is told first."""
        return f"Your goal: {self.mission}\n{describe(self.view)}\n{self.menu.line}"

    def step(self, text: str, watch: Watch | None = None) -> StepResult:
        """Carry out one action text."""
        action = normalise(text)
        if action == CHECK:
            listed = ", ".join(self.menu.actions)
            return self._answer(f"You can take the following actions: {listed}")
        moves = self.menu.actions.get(action)
        if moves is None:
            return self._answer(self.menu.refusals.get(action, NOT_UNDERSTOOD), is_refused=True)
        reward, is_ended = 0.0, False
        for move in moves:
            _, earned, is_ended, is_out_of_steps, _ = self.world.step(move)
            reward = float(earned)
            if watch:
                watch(move)
            if is_ended or is_out_of_steps:
                return self._end(reward, is_ended)
        self.look()
        return self._answer(describe(self.view))

    def look(self) -> None:
        """See where things stand; done after every action."""
        self.view: View = read_view(self.world)
        self.menu: Menu = make_menu(self.view)

    def _answer(self, text: str, *, is_refused: bool = False) -> StepResult:
        return StepResult(self._show(f"{text}\n{self.menu.line}"), is_refused=is_refused)

    def _end(self, reward: float, is_ended: bool) -> StepResult:
        """Close the game. minigrid pays exactly when its verifier reports success."""
        self.is_over = True
        self.look()
        is_success = is_ended and reward > 0
        if is_success:
            remark = "The task is completed."
        else:
            remark = "The task has failed." if is_ended else "You have run out of steps."
        return StepResult(
            self._show(f"{describe(self.view)}\n{remark}"),
            reward=reward if is_success else 0.0,
            is_done=True,
            is_success=is_success,
            info={"num_steps": int(self.world.step_count), "max_steps": int(self.world.max_steps)},
        )
