"""Writes a built-in task as the planning problem that ALFWorld's real engine plays.

Used to check the built-in world against the real one. ALFWorld's rules and texts are read
from its installed package; they are not part of this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from practicum.core.errors import ConfigError
from practicum.core.task import Task
from practicum.envs.text.alfworld.goals import LOOK, TWO, Goal
from practicum.envs.text.alfworld.tasks import goal_of
from practicum.envs.text.alfworld.things import (
    CLEANABLE,
    COOLABLE,
    HEATABLE,
    LAMPS,
    OPENABLE,
    PLACES,
    SLICEABLE,
    VESSELS,
    kind,
)
from practicum.envs.text.alfworld.world import Scene

AGENT = "agent1"
START = "loc_bar_start"


def game_of(task: Task) -> dict[str, object]:
    """Write a task as the content of a `game.tw-pddl` file."""
    spec = find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            "ALFWorld's rules are missing: pip install --no-deps 'alfworld>=0.4,<0.5'"
        )
    data = Path(spec.submodule_search_locations[0]) / "data"
    grammar = (data / "alfred.twl2").read_text(encoding="utf-8")
    return {
        "pddl_domain": (data / "alfred.pddl").read_text(encoding="utf-8"),
        "grammar": grammar.replace("UNKNOWN GOAL", task.prompt.removesuffix(".")),
        "pddl_problem": problem_of(task),
        "solvable": True,
        "walkthrough": None,
    }


def problem_of(task: Task) -> str:
    """Write a task's scene and goal as a PDDL problem."""
    scene = Scene.of(task.data)
    objects = "\n".join(sorted(set(_objects(scene))))
    facts = "\n".join(_facts(scene))
    return (
        f"(define (problem {task.id})\n(:domain alfred)\n(:objects\n{objects}\n)\n"
        f"(:init\n{facts}\n(= (total-cost) 0)\n)\n{_goal(goal_of(task))}\n"
        "(:metric minimize (total-cost))\n)\n"
    )


def _ids(scene: Scene) -> dict[str, str]:
    """Name everything so that the engine, which counts down in id order, numbers it as we do."""
    names = [*scene.receptacles, *(n for inside in scene.contents.values() for n in inside)]
    ids = {}
    for name in names:
        word, _, number = name.partition(" ")
        stem, tail = (word.removesuffix("basin"), "_bar_basin") if "basin" in word else (word, "")
        ids[name] = f"{stem}_bar_{999 - int(number)}{tail}"
    return ids


def _location(receptacle_id: str) -> str:
    return f"loc_bar_{receptacle_id}"


def _objects(scene: Scene) -> Iterator[str]:
    ids = _ids(scene)
    yield f"{AGENT} - agent"
    yield f"{START} - location"
    yield from ("SinkBasinType - rtype", "MicrowaveType - rtype", "FridgeType - rtype")
    yield from ("KnifeType - otype", "ButterKnifeType - otype")
    special = {"sinkbasin", "microwave", "fridge", "knife", "butterknife"}
    for name, name_id in ids.items():
        is_receptacle = name in scene.contents
        yield f"{name_id} - {'receptacle' if is_receptacle else 'object'}"
        if is_receptacle:
            yield f"{_location(name_id)} - location"
        if kind(name) not in special:
            yield f"{kind(name)}Type - {'rtype' if is_receptacle else 'otype'}"


def _facts(scene: Scene) -> Iterator[str]:
    ids = _ids(scene)
    yield f"(atLocation {AGENT} {START})"
    kinds = sorted({kind(name) for inside in scene.contents.values() for name in inside} - LAMPS)
    for place in sorted({kind(r) for r in scene.receptacles}):
        yield from (f"(canContain {place}Type {k}Type)" for k in kinds if place in PLACES[k])
    for receptacle in scene.receptacles:
        place = ids[receptacle]
        yield f"(receptacleType {place} {kind(receptacle)}Type)"
        yield f"(receptacleAtLocation {place} {_location(place)})"
        if kind(receptacle) in OPENABLE:
            yield f"(openable {place})"
        if receptacle in scene.opened:
            yield f"(opened {place})"
        for name in scene.contents[receptacle]:
            yield f"(inReceptacle {ids[name]} {place})"
            yield f"(objectAtLocation {ids[name]} {_location(place)})"
            yield from _object_facts(ids[name], kind(name))


def _object_facts(name_id: str, word: str) -> Iterator[str]:
    yield f"(objectType {name_id} {word}Type)"
    yield f"({'toggleable' if word in LAMPS else 'pickupable'} {name_id})"
    for predicate, words in (
        ("cleanable", CLEANABLE),
        ("heatable", HEATABLE),
        ("coolable", COOLABLE),
        ("sliceable", SLICEABLE),
        ("isReceptacleObject", VESSELS),
    ):
        if word in words:
            yield f"({predicate} {name_id})"


def _goal(goal: Goal) -> str:
    if goal.task_type == LOOK:
        return (
            "(:goal (and (exists (?t - object ?r - receptacle ?a - agent ?l - location) "
            f"(and (objectType ?t {goal.target}Type) (toggleable ?t) (isToggled ?t) "
            "(receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?t ?r))) "
            "(exists (?o - object ?a - agent) "
            f"(and (objectType ?o {goal.object}Type) (holds ?a ?o)))))"
        )

    def placed(variable: str) -> str:
        return (
            f"(objectType {variable} {goal.object}Type) (receptacleType ?r {goal.target}Type) "
            f"(inReceptacle {variable} ?r)"
        )

    treated = {"clean": "(isClean ?o)", "heat": "(isHot ?o)", "cool": "(isCool ?o)"}
    more = treated[goal.treatment] if goal.treatment else ""
    if goal.task_type == TWO:
        more = f"(exists (?p - object) (and (not (= ?o ?p)) {placed('?p')}))"
    return f"(:goal (exists (?r - receptacle) (exists (?o - object) (and {placed('?o')} {more}))))"
