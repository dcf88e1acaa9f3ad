"""Programmed ALFWorld players. They see what a model sees: the messages of the episode.

The expert looks for the object where such things usually are, treats it as the task asks
and takes it where it belongs. It keeps no state and can take over any half-played episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from practicum.core.agent import Situation
from practicum.core.env import Decision, Script
from practicum.core.message import Action
from practicum.envs.text.alfworld.goals import LOOK, TWO, Goal
from practicum.envs.text.alfworld.memory import Memory
from practicum.envs.text.alfworld.things import APPLIANCES, PLACES, kind


def play_expertly(situation: Situation) -> Decision:
    """Take the next sensible step towards the goal."""
    memory = Memory.of(situation)
    goal = memory.goal
    if goal is None:
        return _act("look", "I do not understand this task.")
    if memory.held is None:
        return _fetch(memory, goal)
    if kind(memory.held) != goal.object:
        return _put_away(memory, memory.held)
    if goal.task_type == LOOK:
        return _light(memory, goal, memory.held)
    if goal.treatment and memory.treated.get(memory.held) != goal.treatment:
        return _treat(memory, goal.treatment, memory.held)
    return _place(memory, goal, memory.held)


def play_randomly(situation: Situation) -> Decision:
    """Draw one of the actions that the latest message lists."""
    actions = Memory.of(situation).actions or ("look",)
    return Decision(Action(Random(situation.seed).choice(actions)))


_DONE: Mapping[str, str] = {"clean": "cleaned", "heat": "heated", "cool": "cooled"}

SCRIPTS: Mapping[str, Script] = {"expert": play_expertly, "random": play_randomly}


def _fetch(memory: Memory, goal: Goal) -> Decision:
    """Go and take an object of the kind that is asked for, or look for one."""
    seen = [(n, p) for n, p in memory.find(goal.object) if not _is_settled(memory, goal, n, p)]
    if not seen:
        number = "another" if _num_placed(memory, goal) else "a"
        return _search(memory, goal.object, f"I need {number} {goal.object}")
    # One that is in front of the player saves the way.
    name, place = next(((n, p) for n, p in seen if memory.is_at(p)), seen[0])
    way = _reach(memory, place, f"{name} is in {place}.")
    return way or _act(f"take {name} from {place}", f"Here is {name}. I take it.")


def _is_settled(memory: Memory, goal: Goal, name: str, place: str) -> bool:
    """Whether an object lies where it belongs, and as it should be."""
    is_treated = goal.treatment is None or memory.treated.get(name) == goal.treatment
    if goal.task_type == LOOK or kind(place) != goal.target or not is_treated:
        return False
    return goal.task_type != TWO or place == _target(memory, goal)


def _num_placed(memory: Memory, goal: Goal) -> int:
    return sum(_is_settled(memory, goal, n, p) for n, p in memory.find(goal.object))


def _treat(memory: Memory, verb: str, held: str) -> Decision:
    appliance = memory.of_kind(APPLIANCES[verb][0])
    if not appliance:
        return _act("look", f"I see nothing to {verb} it with.")
    place = appliance[0]
    why = f"I have {held}. I must {verb} it with {place}."
    return _reach(memory, place, why, opens=False) or _act(f"{verb} {held} with {place}", why)


def _place(memory: Memory, goal: Goal, held: str) -> Decision:
    place = _target(memory, goal)
    if place is None:
        return _act("look", f"I see no {goal.target} to put it in.")
    done = f"I have {_DONE[goal.treatment]} {held}." if goal.treatment else f"I have {held}."
    way = _reach(memory, place, f"{done} It belongs in {place}.")
    return way or _act(f"move {held} to {place}", f"I am at {place}. I put {held} here.")


def _target(memory: Memory, goal: Goal) -> str | None:
    """The receptacle to fill: where one object is already, else the quickest to use."""
    places = memory.of_kind(goal.target)
    if not places:
        return None
    if goal.task_type == TWO:
        counts = {
            p: sum(kind(n) == goal.object for n in memory.contents.get(p, ())) for p in places
        }
        if max(counts.values()):
            return max(places, key=lambda p: counts[p])
    return min(places, key=lambda p: (not memory.is_at(p), p in memory.closed))


def _light(memory: Memory, goal: Goal, held: str) -> Decision:
    seen = list(memory.find(goal.target))
    if not seen:
        return _search(memory, goal.target, f"I have {held}. Now I need a {goal.target}")
    lamp, place = seen[0]
    way = _reach(memory, place, f"I have {held}. {lamp} is in {place}.", opens=False)
    return way or _act(f"use {lamp}", f"I have {held} and here is {lamp}. I switch it on.")


def _search(memory: Memory, word: str, need: str) -> Decision:
    """Look where such a thing usually is, then everywhere else."""
    places = PLACES.get(word, ())
    unseen = memory.unseen()
    if not unseen:
        return _act("look", f"{need}, but I have looked everywhere.")
    likely = [r for r in unseen if kind(r) in places]
    ranks = {place: rank for rank, place in enumerate(places)}
    place = min(likely or unseen, key=lambda r: (not memory.is_at(r), ranks.get(kind(r), 0)))
    if f"examine {place}" in memory.actions and place not in memory.closed:
        return _act(f"examine {place}", f"{need}. {place} is right here, so I look at it.")
    if memory.is_at(place):
        return _act(f"open {place}", f"{need}. {place} is closed, so I open it.")
    hope = "It is often found there." if likely else "It is nowhere else."
    return _act(f"go to {place}", f"{need}. I have not looked into {place} yet. {hope}")


def _reach(memory: Memory, place: str, why: str, *, opens: bool = True) -> Decision | None:
    """Walk to a receptacle and open it; None if the player is there and it is open."""
    if not memory.is_at(place):
        return _act(f"go to {place}", f"{why} I go there.")
    if opens and place in memory.closed:
        return _act(f"open {place}", f"{why} It is closed, so I open it.")
    return None


def _put_away(memory: Memory, held: str) -> Decision:
    """Free the hand of something nobody asked for."""
    why = f"I carry {held}, which is not what I need. I put it down."
    for action in memory.actions:
        if action.startswith(f"move {held} to "):
            return _act(action, why)
    usual = PLACES.get(kind(held), ())
    places = [r for r in memory.receptacles if kind(r) in usual]
    if not places:
        return _act("look", why)
    place = min(places, key=lambda r: (r in memory.closed, r))
    return _reach(memory, place, why) or _act(f"move {held} to {place}", why)


def _act(command: str, thought: str) -> Decision:
    return Decision(Action(command), thought)
