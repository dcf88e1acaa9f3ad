"""Draws houses: rooms of four types with plausible furniture and contents.

Every draw comes from a hash of its seed, so a house is the same on every machine and
under every Python version. A layout is the furniture of one room; ALFRED has 30 rooms of
each type, and so has this world. All furniture together can be searched, doors included,
in `MAX_SEARCH_TURNS`, which leaves room for the longest task within the horizon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from practicum.core.canonical import stable_seed
from practicum.core.task import Task
from practicum.envs.text.alfworld.goals import CLEAN, COOL, HEAT, LOOK, SIMPLE, TWO, Goal
from practicum.envs.text.alfworld.tasks import make_task
from practicum.envs.text.alfworld.things import APPLIANCES, OPENABLE, PLACES

NUM_LAYOUTS = 30
MAX_SEARCH_TURNS = 39
OPEN_SHARE = 0.06
"""How many doors stand open at the start."""
NUM_OTHERS = (18, 26)
"""Fewest and most objects beside those asked for."""

_FURNITURE: Mapping[str, str] = {
    "kitchen": "cabinet 3-6 coffeemachine 1-1 countertop 1-3 diningtable 0-1 drawer 2-4 fridge 1-1 "
    "garbagecan 1-1 microwave 1-1 shelf 0-3 sinkbasin 1-1 stoveburner 2-4 toaster 1-1",
    "livingroom": "armchair 1-2 cabinet 0-3 coffeetable 1-1 diningtable 0-1 drawer 2-5 dresser 0-1 "
    "garbagecan 1-1 ottoman 0-1 safe 0-1 shelf 0-4 sidetable 1-2 sofa 1-2 tvstand 0-1",
    "bedroom": "armchair 0-1 bed 1-2 desk 1-2 drawer 2-6 dresser 0-1 garbagecan 1-1 "
    "laundryhamper 0-1 safe 0-1 shelf 0-5 sidetable 0-2",
    "bathroom": "bathtubbasin 0-1 cabinet 2-4 cart 0-1 countertop 1-1 drawer 0-3 garbagecan 1-1 "
    "handtowelholder 1-2 shelf 0-2 sidetable 0-1 sinkbasin 1-2 toilet 1-1 toiletpaperhanger 1-1 "
    "towelholder 1-1",
}
"""Room type -> receptacle kinds with the fewest and the most there are."""

_BELONGINGS: Mapping[str, str] = {
    "kitchen": "apple bowl bread butterknife cup dishsponge egg fork glassbottle kettle knife "
    "ladle lettuce mug pan peppershaker plate pot potato saltshaker soapbottle spatula spoon "
    "statue tomato vase winebottle",
    "livingroom": "book bowl box candle cellphone creditcard keychain laptop newspaper pen pencil "
    "pillow plate remotecontrol statue tissuebox vase watch wateringcan",
    "bedroom": "alarmclock baseballbat basketball book bowl box cd cellphone cloth creditcard "
    "keychain laptop mug pen pencil pillow statue tennisracket tissuebox vase watch",
    "bathroom": "candle cloth dishsponge handtowel newspaper plunger soapbar soapbottle "
    "spraybottle tissuebox toiletpaper towel",
}
"""Room type -> object kinds found in it."""

LAMP_OF: Mapping[str, str] = {"bedroom": "desklamp", "livingroom": "floorlamp"}

ROOMS = tuple(_FURNITURE)
Choice = TypeVar("Choice")


class Draws:
    """A stream of draws from hashes; `random` promises its methods for one version only."""

    def __init__(self, *seed: str | int) -> None:
        self._seed = seed
        self._count = 0

    def below(self, limit: int) -> int:
        """Draw a whole number from 0 up to, not including, the limit."""
        self._count += 1
        return stable_seed(*self._seed, self._count) % limit

    def between(self, low: int, high: int) -> int:
        """Draw a whole number, both ends included."""
        return low + self.below(high - low + 1)

    def chance(self, share: float) -> bool:
        """Draw whether something happens that does so in this share of cases."""
        return self.below(10_000) < share * 10_000

    def one_of(self, choices: Sequence[Choice]) -> Choice:
        """Draw one of several."""
        return choices[self.below(len(choices))]

    def shuffled(self, items: Sequence[Choice]) -> list[Choice]:
        """Put items in a drawn order."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in items]


@lru_cache(maxsize=512)
def layout(room: str, index: int) -> Mapping[str, int]:
    """The furniture of one room: receptacle kind -> count."""
    for attempt in range(100):
        draws = Draws("alfworld", "layout", room, index, attempt)
        words = _FURNITURE[room].split()
        counts = {}
        for word, bounds in zip(words[::2], words[1::2], strict=True):
            low, high = map(int, bounds.split("-"))
            if count := draws.between(low, high):
                counts[word] = count
        if (
            sum(n * (2 if word in OPENABLE else 1) for word, n in counts.items())
            <= MAX_SEARCH_TURNS
        ):
            return counts
    raise AssertionError(f"no {room} is small enough")


def all_goals() -> list[Goal]:
    """Every goal that makes sense in some room, in a fixed order."""
    goals: dict[Goal, None] = {}
    for room in ROOMS:
        furniture = _FURNITURE[room].split()[::2]
        for word in _BELONGINGS[room].split():
            targets = [place for place in furniture if place in PLACES[word]]
            goals |= dict.fromkeys(Goal(t, word, p) for p in targets for t in (SIMPLE, TWO))
            for task_type in (CLEAN, HEAT, COOL):
                appliance, treatable = APPLIANCES[Goal(task_type, "", "").treatment or ""]
                if appliance in furniture and word in treatable:
                    others = [place for place in targets if place != appliance]
                    goals |= dict.fromkeys(Goal(task_type, word, p) for p in others)
            if room in LAMP_OF:
                goals[Goal(LOOK, word, LAMP_OF[room])] = None
    # Two of a kind cannot be asked to share what holds one.
    return [g for g in goals if g.task_type != TWO or not g.target.endswith(("holder", "hanger"))]


def fitting_layouts(goal: Goal, indices: Sequence[int]) -> list[tuple[str, int]]:
    """The rooms in which a goal can be set."""
    return [
        (room, index)
        for room in ROOMS
        if goal.object in _BELONGINGS[room].split()
        for index in indices
        if _fits(goal, room, layout(room, index))
    ]


def _fits(goal: Goal, room: str, furniture: Mapping[str, int]) -> bool:
    """Whether the target is there, and a place outside it where the object can start."""
    if goal.task_type == LOOK:
        has_lamp = LAMP_OF.get(room) == goal.target
        return has_lamp and any(place in furniture for place in PLACES[goal.target])
    if goal.treatment and APPLIANCES[goal.treatment][0] not in furniture:
        return False
    starts = [place for place in PLACES[goal.object] if place in furniture]
    return goal.target in furniture and len(starts) > 1


def furnish(goal: Goal, room: str, index: int, *, seed: int, split: str = "") -> Task:
    """Fill a room with objects, and set the goal in it."""
    draws = Draws("alfworld", "house", room, index, *_parts(goal), seed)
    furniture = layout(room, index)
    contents = {word: [list[str]() for _ in range(n)] for word, n in furniture.items()}
    for word, count in _counts(draws, goal, room).items():
        for number in draws.shuffled(range(1, count + 1)):
            # What is asked for does not lie at the target already.
            taken = goal.target if word == goal.object and not goal.treatment else None
            places = [p for p in PLACES[word] if p in furniture and p != taken]
            if places:
                draws.one_of(contents[_likely(draws, places)]).append(f"{word} {number}")
    doors = [f"{w} {n}" for w in furniture if w in OPENABLE for n in range(1, furniture[w] + 1)]
    opened = [door for door in doors if draws.chance(OPEN_SHARE)]
    return make_task(goal, contents, opened, wording=draws.below(2), split=split)


def _counts(draws: Draws, goal: Goal, room: str) -> dict[str, int]:
    """How many of each object kind there are."""
    counts = {goal.object: goal.num_objects + draws.below(2)}
    if room in LAMP_OF:
        counts[LAMP_OF[room]] = 1
    words = [w for w in draws.shuffled(_BELONGINGS[room].split()) if w not in counts]
    missing = draws.between(*NUM_OTHERS)
    for word in words:
        count = min(missing, draws.between(1, 3))
        if count:
            counts[word] = count
        missing -= count
    return counts


def _likely(draws: Draws, places: Sequence[str]) -> str:
    """Draw a place; each is about half as likely as the one before it, down to a floor."""
    weights = [max(2, 16 >> rank) for rank in range(len(places))]
    point = draws.below(sum(weights))
    for place, weight in zip(places, weights, strict=True):
        if point < weight:
            return place
        point -= weight
    raise AssertionError("the point lies below the sum of the weights")


def _parts(goal: Goal) -> tuple[str, str, str]:
    return goal.task_type, goal.object, goal.target
