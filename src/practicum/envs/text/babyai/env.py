"""BabyAI on minigrid: forty levels of instructions in a grid of rooms, played in text.

Observations and actions are worded as AgentGym's server words them (`view.py`, `menu.py`);
where that server is wrong, `world.py` says what is done instead. The reward comes at
success and is minigrid's `1 - 0.9 * steps / max_steps`, counted in low-level steps; success
is what minigrid's verifier of the mission calls success, and it ends the episode.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from practicum.core.agent import Situation
from practicum.core.commands import Command
from practicum.core.env import Script, StepResult
from practicum.core.message import Action, Image, Observation
from practicum.core.task import Panel, Task
from practicum.envs.text.babyai import expert, tasks
from practicum.envs.text.babyai.png import encode_png
from practicum.envs.text.babyai.world import Game

RULES = """\
You are an exploration master that wants to finish every goal you are given. You are placed \
in a room and you need to accomplish the given goal with actions. Every round you are told \
what you can see in front of you, what you carry and which actions are available.

- turn left and turn right turn you on the spot, move forward takes one step.
- go to <obj> <id> walks to something you can see and faces it.
- pick up <obj> <id> walks to a key, ball or box you can see and picks it up. You can carry \
one thing at a time.
- drop puts what you carry on the free place right in front of you.
- go through <door> <id> walks into an open door.
- toggle and go through <door> <id> opens a closed or locked door and walks into it. For a \
locked door you need to carry a key of the same color.
- toggle opens or closes the door right in front of you, or opens the box right in front of \
you. A box is gone once it is opened; what was in it lies in its place.

You see only what is in front of you: turn and walk to find what you cannot see. Doors may \
lead to other rooms. If the goal names an order, keep to it. The goal counts as reached as \
soon as it is done, and it is worth more the fewer steps you take."""

PICTURE_RULE = """

Every message comes with a picture of what you see, from above: you are the red triangle at \
the bottom and look up; brighter places are in sight."""

COMMANDS = (
    Command("turn_left", "turn left", "turn left on the spot"),
    Command("turn_right", "turn right", "turn right on the spot"),
    Command("move_forward", "move forward", "take one step forward"),
    Command("go_to", "go to {object}", "walk to something in view, such as red ball 1"),
    Command("pick_up", "pick up {object}", "walk to something in view and pick it up"),
    Command("drop", "drop", "put down what you carry, right in front of you"),
    Command("go_through", "go through {door}", "walk into a door, such as red open door 1"),
    Command(
        "toggle_and_go_through",
        "toggle and go through {door}",
        "open a door, such as red closed door 1, and walk into it",
    ),
    Command("toggle", "toggle", "open or close the door, or open the box, right ahead"),
)

MAX_TURNS = 64
"""Enough for every task of the panels: they are those the expert can do in so many."""

TILE_PIXELS = 32


class BabyAIEnv:
    """One episode of one BabyAI task."""

    def __init__(self, task: Task, *, has_images: bool) -> None:
        self._task = task
        self._has_images = has_images
        self._game: Game | None = None

    async def start(self) -> Observation:
        """Draw the level, and show the goal and the first view."""
        # Drawing takes up to tens of milliseconds, and the first one imports minigrid.
        self._game = await asyncio.to_thread(self._draw)
        return self._show(self._game.first_text)

    async def step(self, action: Action) -> StepResult:
        """Carry out one action, in place: half a millisecond, five with a picture."""
        assert self._game is not None, "an episode starts before it is played"
        return self._game.step(action.text)

    def state_key(self) -> str:
        """The whole grid, and where one stands with what in hand."""
        assert self._game is not None, "an episode starts before it is played"
        world = self._game.world
        carrying = None if world.carrying is None else world.carrying.encode()
        place = (*map(int, world.agent_pos), int(world.agent_dir))
        return str((place, carrying, world.grid.encode().tobytes().hex()))

    def _draw(self) -> Game:
        data = self._task.data
        game = Game(data["level"], data["seed"], self._show)
        tasks.check_layout(self._task, game.world)
        return game

    def _show(self, text: str) -> Observation:
        if not self._has_images:
            return Observation(text)
        assert self._game is not None
        pixels = self._game.world.get_pov_render(tile_size=TILE_PIXELS)
        return Observation(text, (Image(encode_png(pixels)),))


class BabyAI:
    """BabyAI in this process: no server, no state between episodes."""

    id = tasks.ENV_ID
    commands: Sequence[Command] = COMMANDS
    max_turns = MAX_TURNS
    scripts: Mapping[str, Script] = {
        "expert": expert.play_expertly,
        "random": expert.play_randomly,
    }

    def __init__(self, *, has_images: bool = False) -> None:
        self._has_images = has_images
        self.rules = RULES + PICTURE_RULE if has_images else RULES

    def panel_names(self) -> Sequence[str]:
        """Names of the shipped panels."""
        return tasks.PANELS.names()

    def panel(self, name: str) -> Panel:
        """Load a shipped panel."""
        return tasks.PANELS.load(name)

    def remaining(self, situation: Situation) -> int:
        """Actions to the end of the bot's plan."""
        return expert.count_remaining(situation)

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[BabyAIEnv]:
        """Open one episode; it holds nothing that needs releasing."""
        yield BabyAIEnv(task, has_images=self._has_images)

    def agentgym_task(self, data_idx: int) -> Task:
        """Make the task of AgentGym's numbering, for its clients."""
        return tasks.make_agentgym_task(data_idx)

    async def aclose(self) -> None:
        """Release nothing."""


def create(images: bool = False) -> BabyAI:
    """Make the environment; with `images`, every observation carries a picture of the view."""
    return BabyAI(has_images=images)
