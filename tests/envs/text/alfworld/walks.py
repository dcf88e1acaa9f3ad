"""Walks through houses that try everything: what both engines are compared on.

`python tests/envs/text/alfworld/walks.py` records what TextWorld's engine answers, for
machines on which it is not installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from practicum.core.agent import Situation
from practicum.core.canonical import content_hash
from practicum.core.episode import Completion, Turn
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs.text.alfworld import tasks
from practicum.envs.text.alfworld.expert import play_expertly
from practicum.envs.text.alfworld.goals import TWO, Goal
from practicum.envs.text.alfworld.language import NOTHING_HAPPENS, first_text
from practicum.envs.text.alfworld.scenes import Draws
from practicum.envs.text.alfworld.world import House, Scene

RECORDED = Path(__file__).parent / "textworld_answers.json"

Answer = tuple[str, list[str], bool]
"""What is said, what is possible next, whether the goal is reached."""

_IDLE = ("go", "look", "inventory", "help", "examine")

LAB = tasks.make_task(
    Goal(TWO, "apple", "fridge"),
    {
        "countertop": [["apple 2", "apple 1", "desklamp 1", "knife 1", "mug 1", "potato 1"]],
        "drawer": [["fork 1"], []],
        "fridge": [["egg 1", "lettuce 1"]],
        "microwave": [[]],
        "sinkbasin": [["cloth 1"]],
    },
    ["drawer 2"],
)
"""A small house for everything that can be done to an object."""

LAB_COMMANDS = """\
look / help / inventory / examine countertop 1 / examine apple 1 / go to countertop 1 / look
go to countertop 1 / examine countertop 1 / examine apple 1 / examine desklamp 1
take desklamp 1 from countertop 1 / use desklamp 1 / use desklamp 1 / take apple 1 from countertop 1
take apple 2 from countertop 1 / inventory / examine apple 1 / look / examine apple 2
go to microwave 1 / heat apple 1 with microwave 1 / examine apple 1 / move apple 1 to microwave 1
open microwave 1 / heat apple 1 with microwave 1 / go to sinkbasin 1
clean apple 1 with sinkbasin 1 / examine apple 1 / go to fridge 1 / move apple 1 to fridge 1
cool apple 1 with fridge 1 / examine apple 1 / heat apple 1 with fridge 1 / open fridge 1
open fridge 1 / examine fridge 1 / move apple 1 to fridge 1 / close fridge 1 / close fridge 1
examine fridge 1 / take apple 1 from fridge 1 / go to countertop 1 / take knife 1 from countertop 1
slice apple 2 with knife 1 / slice mug 1 with knife 1 / slice desklamp 1 with knife 1
go to fridge 1 / slice apple 1 with knife 1 / slice egg 1 with knife 1 / clean knife 1 with fridge 1
cool knife 1 with fridge 1 / go to drawer 1 / move knife 1 to drawer 1 / open drawer 1
move knife 1 to drawer 1 / take fork 1 from drawer 1 / go to drawer 2 / move fork 1 to drawer 2
look / go to fridge 1 / open fridge 1 / take apple 1 from fridge 1 / examine apple 1
go to microwave 1 / heat apple 1 with microwave 1 / examine apple 1 / go to fridge 1
move apple 1 to fridge 1 / take egg 1 from fridge 1 / examine egg 1 / cool egg 1 with fridge 1
examine egg 1 / go to microwave 1 / heat egg 1 with microwave 1 / examine egg 1
move egg 1 to microwave 1 / close microwave 1 / go to countertop 1 / take apple 2 from countertop 1
examine apple 2 / go to sinkbasin 1 / clean apple 2 with sinkbasin 1 / examine apple 2
move apple 2 to sinkbasin 1 / take cloth 1 from sinkbasin 1 / clean cloth 1 with sinkbasin 1
examine cloth 1 / go to countertop 1 / move cloth 1 to countertop 1
take potato 1 from countertop 1 / go to fridge 1 / cool potato 1 with fridge 1 / examine potato 1
go to countertop 1 / move potato 1 to countertop 1 / take mug 1 from countertop 1 / examine mug 1
go to sinkbasin 1 / clean mug 1 with sinkbasin 1 / examine mug 1 / move mug 1 to sinkbasin 1
take apple 2 from sinkbasin 1 / go to fridge 1 / move apple 2 to fridge 1
take apple 2 from fridge 1 / take lettuce 1 from fridge 1 / move apple 2 to countertop 1""".replace(
    "\n", " / "
).split(" / ")


def follow(task: Task, commands: Iterable[str]) -> Iterator[Answer]:
    """Play given commands in the built-in world; a reached goal does not end it."""
    goal = tasks.goal_of(task)
    house = House(Scene.of(task.data))
    yield first_text(house.overview(), task.prompt), list(house.actions()), house.fulfils(goal)
    for command in commands:
        step = house.actions().get(command)
        said = NOTHING_HAPPENS if step is None else house.do(step)
        yield said, list(house.actions()), house.fulfils(goal)


def walk(task: Task, num_turns: int) -> list[str]:
    """Draw commands that get somewhere and try things on the way.

    Some are the expert's, and doing things is preferred to walking about; some are
    impossible ones that were possible earlier.
    """
    draws = Draws("walk", task.id)
    house = House(Scene.of(task.data))
    said = first_text(house.overview(), task.prompt)
    met: dict[str, None] = {}
    turns: list[Turn] = []
    for _ in range(num_turns):
        actions = house.actions()
        met |= dict.fromkeys(actions)
        doings = [c for c in actions if c.partition(" ")[0] not in _IDLE]
        command = draws.one_of(list(actions))
        if draws.chance(0.4):
            situation = Situation(task, 0, turns, Observation(said), 0)
            command = play_expertly(situation).action.text
        elif doings and draws.chance(0.6):
            command = draws.one_of(doings)
        elif draws.chance(0.2):
            command = draws.one_of(list(met))
        turns.append(Turn(Observation(said), Completion(command), Action(command)))
        said = house.do(actions[command]) if command in actions else NOTHING_HAPPENS
    return [turn.completion.text for turn in turns]


def some_tasks(num_tasks: int) -> list[Task]:
    """Dev tasks spread over the six types."""
    panel = tasks.PANELS.load("dev").tasks
    return list(panel[:: max(1, len(panel) // num_tasks)][:num_tasks])


def record(num_tasks: int, num_turns: int) -> None:
    """Write down the real engine's answers to the lab and to some walks."""
    from practicum.envs.text.alfworld import engine, pddl

    plans = [(LAB, LAB_COMMANDS), *((t, walk(t, num_turns)) for t in some_tasks(num_tasks))]
    recorded = []
    for task, commands in plans:
        answers = [engine._open(0, pddl.game_of(task))]
        answers += [engine._step(0, command) for command in commands]
        engine._close(0)
        shown = [[said, content_hash(possible)[:12], won] for said, possible, won in answers]
        recorded.append({"task": asdict(task), "commands": commands, "answers": shown})
    lines = ",\n".join(json.dumps(one, sort_keys=True) for one in recorded)
    RECORDED.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    record(12, 40)
