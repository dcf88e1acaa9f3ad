"""What calls of pyautogui's functions mean as `Input`s. Nothing here touches a screen.

Three things differ from pyautogui on purpose. Moves go at once, so that the same code does the
same thing every time; a drag keeps its duration. `PAUSE` is kept between two calls and not
after the last one. What pyautogui ignores without a word, an unknown key or a point off the
screen, is a `DialectError`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from practicum.desktops.computer import (
    Button,
    Input,
    Key,
    Move,
    Press,
    Screen,
    Scroll,
    Text,
    Wait,
)

Given = dict[str, Any]
"""Arguments by name."""

PAUSE_S = 0.1
"""pyautogui's own."""
MAX_WAIT_S = 60.0
MAX_INPUTS = 5_000
MAX_CHARACTERS = 20_000
MAX_SCROLL = 10_000
DRAG_STEPS = 10
SHORTEST_DRAG_S = 0.1
"""Applications do not see a drag that takes no time as one."""

KEYS = frozenset(
    """
    accept add alt altleft altright apps backspace browserback browserfavorites browserforward
    browserhome browserrefresh browsersearch browserstop capslock clear command convert ctrl
    ctrlleft ctrlright decimal del delete divide down end enter esc escape execute f1 f2 f3 f4 f5
    f6 f7 f8 f9 f10 f11 f12 f13 f14 f15 f16 f17 f18 f19 f20 f21 f22 f23 f24 final fn hanguel hangul
    hanja help home insert junja kana kanji launchapp1 launchapp2 launchmail launchmediaselect left
    modechange multiply nexttrack nonconvert num0 num1 num2 num3 num4 num5 num6 num7 num8 num9
    numlock option optionleft optionright pagedown pageup pause pgdn pgup playpause prevtrack print
    printscreen prntscrn prtsc prtscr return right scrolllock select separator shift shiftleft
    shiftright sleep space stop subtract tab up volumedown volumemute volumeup win winleft winright
    yen
    """.split()
)
"""pyautogui's names of keys, besides the single characters."""

_BUTTONS: dict[object, Button] = {
    "left": "left",
    "primary": "left",
    1: "left",
    "middle": "middle",
    2: "middle",
    "right": "right",
    "secondary": "right",
    3: "right",
}


_LAST = "logScreenshot _pause"
SIGNATURES = {
    "moveTo": f"x y duration tween {_LAST}",
    "move": f"xOffset yOffset duration tween {_LAST}",
    "moveRel": f"xOffset yOffset duration tween {_LAST}",
    "click": f"x y clicks interval button duration tween {_LAST}",
    "leftClick": f"x y interval duration tween {_LAST}",
    "rightClick": f"x y interval duration tween {_LAST}",
    "middleClick": f"x y interval duration tween {_LAST}",
    "doubleClick": f"x y interval button duration tween {_LAST}",
    "tripleClick": f"x y interval button duration tween {_LAST}",
    "mouseDown": f"x y button duration tween {_LAST}",
    "mouseUp": f"x y button duration tween {_LAST}",
    "dragTo": f"x y duration tween button {_LAST} mouseDownUp",
    "drag": f"xOffset yOffset duration tween button {_LAST} mouseDownUp",
    "dragRel": f"xOffset yOffset duration tween button {_LAST} mouseDownUp",
    "scroll": f"clicks! x y {_LAST}",
    "vscroll": f"clicks! x y {_LAST}",
    "hscroll": f"clicks! x y {_LAST}",
    "write": f"message! interval {_LAST}",
    "typewrite": f"message! interval {_LAST}",
    "press": f"keys! presses interval {_LAST}",
    "keyDown": f"key! {_LAST}",
    "keyUp": f"key! {_LAST}",
    "hotkey": f"interval {_LAST}",
    "position": "",
    "size": "",
    "sleep": "seconds!",
}
"""The functions there are, and their arguments in pyautogui's order; `!` marks required ones."""

_CLICKS: dict[str, Given] = {
    "click": {},
    "leftClick": {},
    "rightClick": {"button": "right"},
    "middleClick": {"button": "middle"},
    "doubleClick": {"clicks": 2},
    "tripleClick": {"clicks": 3},
}


@dataclass(frozen=True, slots=True)
class Copy:
    """Put a text into the clipboard, as `pyperclip.copy` does."""

    text: str


Step = Input | Copy


class DialectError(ValueError):
    """Code that is not done; the text says why, to whoever wrote the code."""


class PointerNeededError(Exception):
    """What code does depends on where the pointer is, and that was not said."""


class Hand:
    """Collects what calls of pyautogui would do."""

    def __init__(self, screen: Screen, pointer: tuple[int, int] | None) -> None:
        self.screen = screen
        self._pointer = pointer
        self.pause_s = PAUSE_S
        self.steps: list[Step] = []
        self._owed_s = 0.0
        """The pause after the last call, if another one follows."""
        self._waited_s = 0.0
        self._num_characters = 0

    def call(self, name: str, args: Sequence[Any], kwargs: Given) -> Any:
        """Call a function of `SIGNATURES` as code would."""
        try:
            given = _bind(name, args, kwargs)
            if name == "position":
                return self._where()
            if name == "size":
                return self.screen.width, self.screen.height
            self._act(name, given)
        except DialectError as error:
            raise DialectError(f"pyautogui.{name}: {error}") from error
        if name != "sleep" and given.get("_pause", True):
            self._owed_s = self.pause_s
        return None

    def sleep(self, seconds: Any) -> None:
        """Wait."""
        self._wait(_number("seconds", seconds))

    def copy(self, text: Any) -> None:
        """Put a text into the clipboard."""
        self._count_characters(text, "text")
        self._add(Copy(text))

    def key(self, key: Any, *, is_down: bool) -> None:
        """Press or release one key."""
        self._add(Key(_key(key), is_down))

    def _act(self, name: str, given: Given) -> None:
        match name:
            case "moveTo":
                self._move(*self._point(given))
            case "move" | "moveRel":
                self._move(*self._offset(given))
            case "dragTo":
                self._drag(self._point(given), given)
            case "drag" | "dragRel":
                self._drag(self._offset(given), given)
            case "mouseDown" | "mouseUp":
                self._go(given)
                self._add(Press(_button(given.get("button", "left")), name == "mouseDown"))
            case "scroll" | "vscroll":
                self._go(given)
                self._add(Scroll(up=_scroll(given["clicks"])))
            case "hscroll":
                self._go(given)
                self._add(Scroll(right=_scroll(given["clicks"])))
            case "write" | "typewrite":
                self._write(given)
            case "press":
                self._press(given["keys"], given)
            case "keyDown" | "keyUp":
                self.key(given["key"], is_down=name == "keyDown")
            case "hotkey":
                self._hotkey(given)
            case "sleep":
                self.sleep(given["seconds"])
            case _:
                self._click(_CLICKS[name] | given)

    def _click(self, given: Given) -> None:
        button = _button(given.get("button", "left"))
        interval_s = _number("interval", given.get("interval", 0))
        num = _count("clicks", given.get("clicks", 1))
        self._go(given)
        for click in range(num):
            if click:
                self._wait(interval_s)
            self._add(Press(button, True))
            self._add(Press(button, False))

    def _drag(self, to: tuple[int, int], given: Given) -> None:
        button = _button(given.get("button", "left"))
        duration_s = max(_number("duration", given.get("duration", 0)), SHORTEST_DRAG_S)
        has_button = given.get("mouseDownUp", True)
        (x0, y0), (x1, y1) = self._where(), to
        if has_button:
            self._add(Press(button, True))
        for step in range(1, DRAG_STEPS + 1):
            self._wait(duration_s / DRAG_STEPS)
            done = step / DRAG_STEPS
            self._move(round(x0 + (x1 - x0) * done), round(y0 + (y1 - y0) * done))
        if has_button:
            self._add(Press(button, False))

    def _write(self, given: Given) -> None:
        message = given["message"]
        if isinstance(message, (list, tuple)):
            self._press(message, given)
            return
        self._count_characters(message, "message")
        interval_s = _number("interval", given.get("interval", 0))
        for text in message if interval_s else [message]:
            if text:
                self._add(Text(text))
            self._wait(interval_s)

    def _press(self, keys: Any, given: Given) -> None:
        interval_s = _number("interval", given.get("interval", 0))
        for _ in range(_count("presses", given.get("presses", 1))):
            for key in keys if isinstance(keys, (list, tuple)) else [keys]:
                self.key(key, is_down=True)
                self.key(key, is_down=False)
            self._wait(interval_s)

    def _hotkey(self, given: Given) -> None:
        keys = given["keys"]
        if len(keys) == 1 and isinstance(keys[0], (list, tuple)):
            keys = keys[0]
        if not keys:
            raise DialectError("no key is given")
        interval_s = _number("interval", given.get("interval", 0))
        for is_down in (True, False):
            for key in keys if is_down else reversed(keys):
                self.key(key, is_down=is_down)
                self._wait(interval_s)

    def _go(self, given: Given) -> None:
        if given.get("x") is not None or given.get("y") is not None:
            self._move(*self._point(given))

    def _move(self, x: int, y: int) -> None:
        width, height = self.screen.width, self.screen.height
        if not (0 <= x < width and 0 <= y < height):
            raise DialectError(
                f"({x}, {y}) is off the screen, which is {width} x {height} pixels: "
                f"x is 0 to {width - 1}, y is 0 to {height - 1}"
            )
        self._pointer = (x, y)
        self._add(Move(x, y))

    def _where(self) -> tuple[int, int]:
        if self._pointer is None:
            raise PointerNeededError
        return self._pointer

    def _point(self, given: Given) -> tuple[int, int]:
        x, y = _pair(given.get("x"), given.get("y"))
        return (
            self._where()[0] if x is None else int(_number("x", x)),
            self._where()[1] if y is None else int(_number("y", y)),
        )

    def _offset(self, given: Given) -> tuple[int, int]:
        x, y = _pair(given.get("xOffset"), given.get("yOffset"))
        return (
            self._where()[0] + int(_number("xOffset", x or 0)),
            self._where()[1] + int(_number("yOffset", y or 0)),
        )

    def _wait(self, seconds: float) -> None:
        if seconds < 0:
            raise DialectError(f"a wait of {seconds:g} s is less than none")
        self._waited_s += seconds
        if self._waited_s > MAX_WAIT_S:
            raise DialectError(f"more than {MAX_WAIT_S:g} s of waiting in one action")
        if seconds:
            self._add(Wait(seconds))

    def _count_characters(self, text: Any, name: str) -> None:
        if not isinstance(text, str):
            raise DialectError(f"{name} is {text!r} and not a text")
        self._num_characters += len(text)
        if self._num_characters > MAX_CHARACTERS:
            raise DialectError(f"more than {MAX_CHARACTERS} characters at once")

    def _add(self, one: Step) -> None:
        if self._owed_s:
            owed_s, self._owed_s = self._owed_s, 0.0
            self._wait(owed_s)
        if len(self.steps) >= MAX_INPUTS:
            raise DialectError(f"more than {MAX_INPUTS} inputs in one action")
        self.steps.append(one)


def _bind(name: str, args: Sequence[Any], kwargs: Given) -> Given:
    """Give arguments their names, as calling the function would."""
    if name == "hotkey":
        given: Given = {"keys": list(args)}
        args = ()
    else:
        given = {}
    names = SIGNATURES[name].split()
    required = [one.rstrip("!") for one in names if one.endswith("!")]
    names = [one.rstrip("!") for one in names]
    if len(args) > len(names):
        raise DialectError(f"{len(args)} arguments, and it takes {len(names)}: {', '.join(names)}")
    given |= dict(zip(names, args, strict=False))
    for key, value in kwargs.items():
        if key not in names:
            raise DialectError(f"there is no argument {key!r}; it takes {', '.join(names)}")
        if key in given:
            raise DialectError(f"{key!r} is given twice")
        given[key] = value
    if missing := [one for one in required if one not in given]:
        raise DialectError(f"{missing[0]!r} is missing")
    return given


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise DialectError(f"{name} is {value!r} and not a number")
    return value


def _count(name: str, value: Any) -> int:
    number = _number(name, value)
    if number != int(number) or not 0 <= number <= MAX_INPUTS:
        raise DialectError(f"{name} is {value!r} and not a whole number up to {MAX_INPUTS}")
    return int(number)


def _scroll(value: Any) -> int:
    number = int(_number("clicks", value))
    if abs(number) > MAX_SCROLL:
        raise DialectError(f"clicks is {number}: not more than {MAX_SCROLL} at once")
    return number


def _pair(x: Any, y: Any) -> tuple[Any, Any]:
    """Take a point given as one argument apart, as pyautogui does."""
    if isinstance(x, (list, tuple)):
        if y is not None or len(x) != 2:
            raise DialectError(f"{x!r} is not a point")
        return x[0], x[1]
    if isinstance(x, str):
        raise DialectError(f"x is {x!r}: pictures are not searched for; give a position")
    return x, y


def _button(value: Any) -> Button:
    name = value.lower() if isinstance(value, str) else value
    if isinstance(name, bool) or not isinstance(name, (str, int)) or name not in _BUTTONS:
        raise DialectError(f"button is {value!r}: there are 'left', 'middle' and 'right'")
    return _BUTTONS[name]


def _key(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise DialectError(f"{value!r} is not the name of a key")
    if len(value) == 1:
        return value
    name = value.lower()
    if name in KEYS:
        return name
    near = difflib.get_close_matches(name, KEYS, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if "+" in name:
        parts = ", ".join(repr(part.strip()) for part in name.split("+"))
        hint = f"; for keys together use pyautogui.hotkey({parts})"
    raise DialectError(f"there is no key {value!r}{hint}")
