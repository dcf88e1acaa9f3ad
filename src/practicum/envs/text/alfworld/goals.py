"""The six task types: what they ask for, in ALFWorld's words and as a test on the world."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

SIMPLE = "pick_and_place_simple"
LOOK = "look_at_obj_in_light"
CLEAN = "pick_clean_then_place_in_recep"
HEAT = "pick_heat_then_place_in_recep"
COOL = "pick_cool_then_place_in_recep"
TWO = "pick_two_obj_and_place"

WORDINGS: Mapping[str, tuple[str, str]] = {
    SIMPLE: ("put a {object} in {target}", "put some {object} on {target}"),
    LOOK: ("look at {object} under the {target}", "examine the {object} with the {target}"),
    CLEAN: ("put a clean {object} in {target}", "clean some {object} and put it in {target}"),
    HEAT: ("put a hot {object} in {target}", "heat some {object} and put it in {target}"),
    COOL: ("put a cool {object} in {target}", "cool some {object} and put it in {target}"),
    TWO: ("put two {object} in {target}", "find two {object} and put them in {target}"),
}
"""Task type -> its two wordings. The order of the types is that of every listing."""

TREATMENTS: Mapping[str, str] = {CLEAN: "clean", HEAT: "heat", COOL: "cool"}
"""Task type -> what must be done to the object before it is placed."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked for: a task type, an object kind, and a receptacle or lamp kind."""

    task_type: str
    object: str
    target: str
    """The receptacle to put it in; for `look_at_obj_in_light` the lamp."""

    @property
    def num_objects(self) -> int:
        """How many objects must end up at the target."""
        return 2 if self.task_type == TWO else 1

    @property
    def treatment(self) -> str | None:
        """`clean`, `heat` or `cool`, where the task asks for it."""
        return TREATMENTS.get(self.task_type)

    def words(self, wording: int) -> str:
        """Write the goal as ALFWorld does, in one of its two wordings."""
        template = WORDINGS[self.task_type][wording]
        return template.format(object=self.object, target=self.target)


def read_goal(text: str) -> Goal | None:
    """Read a goal from its words; None for words that are not ALFWorld's own."""
    for task_type, pattern in _PATTERNS:
        if match := pattern.fullmatch(text):
            return Goal(task_type, match["object"], match["target"])
    return None


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(template.format(object=r"(?P<object>\w+)", target=r"(?P<target>\w+)"))


# `put a clean plate in fridge` fits no simple wording, as object names are one word.
_PATTERNS = tuple(
    (task_type, _pattern(template))
    for task_type, templates in WORDINGS.items()
    for template in templates
)
