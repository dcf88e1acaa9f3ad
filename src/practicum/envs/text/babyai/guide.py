"""minigrid's own bot, made to speak in action texts.

The bot suggests one low-level move at a time and keeps a stack of what it is after. The
guide plays a copy of the game, tells the bot every move made, and picks the action text
that serves what the bot is after: `pick up red ball 1` for a walk and a grasp.

The bot explores: it goes by the cells it has seen so far. It knows the level's objects by
identity, though, so it reads more than the text shows. It is helped where it is lost: with
a mission that starts with the object in hand, with a key shut in a box, and with several
locked doors of which only one has a key in sight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from practicum.core.env import StepResult
from practicum.envs.text.babyai.engine import make_bot, make_walk
from practicum.envs.text.babyai.menu import DROP, FORWARD, LEFT, PICK_UP, RIGHT, TOGGLE
from practicum.envs.text.babyai.view import AHEAD, Place, Thing
from practicum.envs.text.babyai.world import Game

_MAX_SEARCHES = 200
"""Searches the bot may make for one suggestion; in some dead ends it would never stop."""

_PLAIN = {
    LEFT: "turn left",
    RIGHT: "turn right",
    FORWARD: "move forward",
    TOGGLE: "toggle",
    DROP: "drop",
}

Cell = tuple[int, int]


class LostError(Exception):
    """The bot has no suggestion: the mission cannot be done any more, or it is confused."""


class Guide:
    """Follows one game and says what to do next."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._box = _box_with_key(game)
        self._bot = _make_bot(game, self._box)
        self._last: int | None = None
        self._move: int | None = None
        """The bot's suggestion for this moment, once it was asked."""

    def follow(self, text: str) -> StepResult:
        """Play an action in the guide's copy of the game; the bot learns of every move."""
        self._ask()
        return self.game.step(text, watch=self._note)

    def advise(self) -> tuple[str, str]:
        """Say which action comes next, and why."""
        move = self._ask()
        text = self._text_for_target() or self._text_for_move(move)
        if text not in self.game.menu.actions:
            raise LostError(f"the bot wants to {text}, which cannot be done")
        return text, f"I have to {self.game.mission}. {self._reason(text)}"

    def _note(self, move: int) -> None:
        self._last, self._move = move, None
        if move == TOGGLE and self._box is not None and not _is_on_grid(self.game, self._box):
            self._box, self._last = None, None
            self._bot = _make_bot(self.game, None)
        self._ask()

    def _ask(self) -> int:
        """Ask the bot, which must be asked exactly once between any two moves."""
        if self._move is None:
            self._bot.bfs_counter = 0
            try:
                self._move = int(self._bot.replan(self._last))
            except Exception as error:  # the bot's dead ends have many names
                raise LostError(str(error)) from error
        if not self._bot.stack and self._box is not None:
            return TOGGLE
        return self._move

    def _text_for_target(self) -> str | None:
        """Name the one action that serves what the bot is walking to, if there is one."""
        goal = self._subgoal(1)
        if not _is_walk(goal) or (where := self._position(goal)) is None:
            return None
        thing = self.game.view.by_place.get(self._place(where))
        if thing is not None and goal.reason != "PutNext":
            then = type(self._subgoal(2)).__name__
            for text in _ways_to(thing, then, is_last=self._subgoal(3) is None):
                if text in self.game.menu.actions:
                    return text
        return self._text_for_doorway(where)

    def _text_for_doorway(self, where: Cell) -> str | None:
        """Name the furthest open door in sight on the bot's way."""
        path, _, _ = self._bot._shortest_path(lambda cell, _: tuple(cell) == where)
        for cell in reversed(path or []):
            thing = self.game.view.by_place.get(self._place(cell))
            if thing is not None and thing.state == "open":
                text = f"go through {thing.label}"
                return text if text in self.game.menu.actions else None
        return None

    def _text_for_move(self, move: int) -> str:
        if move != PICK_UP:
            return _PLAIN.get(move, "wait")
        thing = self.game.view.by_place.get(AHEAD)
        return f"pick up {thing.label}" if thing else "pick up nothing"

    def _subgoal(self, depth: int) -> Any:
        """What the bot is after: 1 is what it does now, 2 what comes after it."""
        stack = self._bot.stack
        return stack[-depth] if depth <= len(stack) else None

    def _position(self, goal: Any) -> Cell | None:
        target = goal.datum
        if hasattr(target, "obj_set"):
            _, where = self._bot._find_obj_pos(target, goal.reason == "PutNext")
        else:
            where = getattr(target, "cur_pos", target)
        return None if where is None else (int(where[0]), int(where[1]))

    def _place(self, cell: Cell) -> Place:
        """Turn a cell of the grid into a place as the player sees it."""
        column, row = self.game.world.get_view_coords(*cell)
        size = int(self.game.world.agent_view_size)
        return int(column) - size // 2, size - 1 - int(row)

    def _reason(self, text: str) -> str:
        ahead = self.game.view.by_place.get(AHEAD)
        if text.startswith("pick up"):
            return self._reason_to_pick_up(text.removeprefix("pick up "))
        if text.startswith("go to"):
            return f"I can reach the {text.removeprefix('go to ')} now, so I go to it."
        if text.startswith("toggle and go through"):
            door = text.removeprefix("toggle and go through ")
            return f"I need the {door} open, so I go there, open it and step into it."
        if text.startswith("go through"):
            return f"My way leads through the {text.removeprefix('go through ')}."
        if text == "toggle":
            return f"The {ahead.name if ahead else 'door'} is right in front of me: I toggle it."
        if text == "drop":
            return f"I do not need to hold the {self._held()} any longer, so I put it down here."
        return f"{self._heading()}, so I {text}."

    def _reason_to_pick_up(self, label: str) -> str:
        following = self._subgoal(3 if _is_walk(self._subgoal(1)) else 2)
        if _is_walk(following) and following.reason == "Open":
            return f"I need the {label} for a locked door, so I pick it up."
        if _is_walk(following) and following.reason is None:
            return f"The {label} is in the way, so I pick it up to move it."
        return f"The {label} is what I need, so I pick it up."

    def _held(self) -> str:
        kind, color = self.game.view.carried or ("", "")
        return f"{color} {kind}".strip()

    def _heading(self) -> str:
        """Say what the bot is walking to."""
        goal = self._subgoal(1)
        target = getattr(goal, "datum", None)
        if target is None or goal.reason == "Explore":
            return "I do not see what I need yet and have to look around"
        kind, color = getattr(target, "type", None), getattr(target, "color", None)
        if not (kind or color):
            held = self._held()
            return f"I need a free place for the {held}" if held else "I have to walk around"
        name = " ".join(filter(None, (color, kind or "object")))
        return f"I want to get {'next ' if goal.reason == 'PutNext' else ''}to the {name}"


def _is_walk(goal: Any) -> bool:
    return type(goal).__name__ == "GoNextToSubgoal"


def _ways_to(thing: Thing, then: str, *, is_last: bool) -> list[str]:
    """Actions that serve a walk to a thing, given what the bot does there; best first."""
    ways = [f"go to {thing.label}"]
    if then == "PickupSubgoal":
        ways.insert(0, f"pick up {thing.label}")
    # Behind a locked door the bot first puts the key down, for which it stays outside.
    if then == "OpenSubgoal" and (is_last or thing.state != "locked"):
        ways.insert(0, f"toggle and go through {thing.label}")
    return ways


def _make_bot(game: Game, box: Any) -> Any:
    bot = make_bot(game.world)
    _keep_from_circling(bot)
    _keep_from_hopeless_doors(bot, game)
    if box is not None:
        bot.stack = [make_walk(bot, box)]
    elif game.world.carrying is not None and game.world.step_count == 0:
        # The bot would look for the object it already holds.
        del bot.stack[-2:]
    return bot


def _keep_from_circling(bot: Any) -> None:
    """Make the bot give up where it would search for ever."""
    search = bot._breadth_first_search

    def search_boundedly(*args: Any, **kwargs: Any) -> Any:
        if bot.bfs_counter >= _MAX_SEARCHES:
            raise LostError("the bot goes round in circles")
        return search(*args, **kwargs)

    bot._breadth_first_search = search_boundedly


def _keep_from_hopeless_doors(bot: Any, game: Game) -> None:
    """Make the bot try locked doors with a known key first, not the nearest one for ever."""
    shortest_path = bot._shortest_path

    def has_known_key(color: str) -> bool:
        grid, held = game.world.grid, game.world.carrying
        seen = (grid.get(int(x), int(y)) for x, y in zip(*bot.vis_mask.nonzero(), strict=True))
        return any(c and (c.type, c.color) == ("key", color) for c in (held, *seen))

    def path_to_promising(
        accept: Callable[[Cell, Any], Any], try_with_blockers: bool = False
    ) -> Any:
        if accept.__name__ == "unopened_door":
            found = shortest_path(
                lambda where, cell: accept(where, cell) and has_known_key(cell.color),
                try_with_blockers,
            )
            if found[0] is not None:
                return found
        return shortest_path(accept, try_with_blockers)

    bot._shortest_path = path_to_promising


def _box_with_key(game: Game) -> Any:
    cells = game.world.grid.grid
    return next((c for c in cells if c is not None and c.type == "box" and c.contains), None)


def _is_on_grid(game: Game, thing: Any) -> bool:
    return any(cell is thing for cell in game.world.grid.grid)
