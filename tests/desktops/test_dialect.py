"""pyautogui code is read into inputs, or refused with a reason; never executed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from desktops.hostile import hostile
from hypothesis import given
from hypothesis import strategies as st

from practicum.desktops import dialect
from practicum.desktops.computer import (
    Input,
    Key,
    Move,
    Press,
    Screen,
    Scroll,
    Text,
    Wait,
)
from practicum.desktops.dialect import Copy, DialectError, PointerNeededError

SCREEN = Screen(800, 600)
PREFIX = "import pyautogui; import time; pyautogui.FAILSAFE = False; "
LOOP = "for _ in range(3):\n  pyautogui.press('a')"
TWO_LINES = "import pyautogui\npyautogui.click()"


def inputs(code: str, pointer: tuple[int, int] = (5, 6)) -> list[Input]:
    return list(dialect.read(code, SCREEN, pointer).inputs)


def click(button: str = "left") -> list[Input]:
    return [Press(button), Press(button, False)]  # type: ignore[arg-type]


def tap(*names: str) -> list[Input]:
    return [Key(name, is_down) for name in names for is_down in (True, False)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("pyautogui.moveTo(1, 2)", [Move(1, 2)]),
        ("pyautogui.moveTo(1.9, y=2.2)", [Move(1, 2)]),
        ("pyautogui.moveTo((1, 2))", [Move(1, 2)]),
        ("pyautogui.moveTo(y=9)", [Move(5, 9)]),
        ("pyautogui.moveTo()", [Move(5, 6)]),
        ("pyautogui.move(10, -2)", [Move(15, 4)]),
        ("pyautogui.moveRel(xOffset=3)", [Move(8, 6)]),
        ("pyautogui.moveTo(1, 2, 0.73, pyautogui.easeInElastic)", [Move(1, 2)]),
        ("pyautogui.click()", click()),
        ("pyautogui.click(7, 8)", [Move(7, 8), *click()]),
        ("pyautogui.click(x=7, y=8, clicks=2)", [Move(7, 8), *click(), *click()]),
        (
            "pyautogui.click(7, 8, 2, 0.5, 'right')",
            [Move(7, 8), *click("right"), Wait(0.5), *click("right")],
        ),
        ("pyautogui.click(button='middle')", click("middle")),
        ("pyautogui.click(button=pyautogui.SECONDARY)", click("right")),
        ("pyautogui.leftClick()", click()),
        ("pyautogui.rightClick(7, 8)", [Move(7, 8), *click("right")]),
        ("pyautogui.middleClick()", click("middle")),
        ("pyautogui.doubleClick(7, 8)", [Move(7, 8), *click(), *click()]),
        ("pyautogui.tripleClick()", click() * 3),
        ("pyautogui.mouseDown()", [Press()]),
        (
            "pyautogui.mouseUp(7, 8, button='right')",
            [Move(7, 8), Press("right", False)],
        ),
        ("pyautogui.scroll(-3)", [Scroll(up=-3)]),
        ("pyautogui.vscroll(3, 7, 8)", [Move(7, 8), Scroll(up=3)]),
        ("pyautogui.hscroll(2)", [Scroll(right=2)]),
        ("pyautogui.write('a < b\\n')", [Text("a < b\n")]),
        ("pyautogui.typewrite('hé', interval=0.1)", [Text("h"), Wait(0.1), Text("é"), Wait(0.1)]),
        ("pyautogui.write('')", []),
        ("pyautogui.write(['a', 'enter'])", tap("a", "enter")),
        ("pyautogui.press('<')", tap("<")),
        ("pyautogui.press('Enter', presses=2)", tap("enter", "enter")),
        ("pyautogui.press(['up', 'down'])", tap("up", "down")),
        ("pyautogui.keyDown('shift')", [Key("shift")]),
        ("pyautogui.keyUp('shift')", [Key("shift", False)]),
        (
            "pyautogui.hotkey('ctrl', 'c')",
            [Key("ctrl"), Key("c"), Key("c", False), Key("ctrl", False)],
        ),
        (
            "pyautogui.hotkey(*['alt', 'f4'])",
            [Key("alt"), Key("f4"), Key("f4", False), Key("alt", False)],
        ),
        ("pyautogui.sleep(2)", [Wait(2)]),
        ("time.sleep(0.5)", [Wait(0.5)]),
        ("import pyautogui as pg, time\npg.scroll(1)", [Scroll(up=1)]),
        ("from pyautogui import press\npress('a')", tap("a")),
        ("from time import sleep\nsleep(1)", [Wait(1)]),
        ("x, y = 3, 4\npyautogui.moveTo(x * 2 + 1, y - 1)", [Move(7, 3)]),
        ("w, h = pyautogui.size()\npyautogui.moveTo(w / 2, h // 2)", [Move(400, 300)]),
        ("x = pyautogui.position()[0]\nx += 1\npyautogui.moveTo(int(x), 1)", [Move(6, 1)]),
        ("name = 'Ann'\npyautogui.write(f'Dear {name}' + '!' * 3)", [Text("Dear Ann!!!")]),
        ("for _ in range(2): pyautogui.scroll(1, _pause=False)", [Scroll(up=1)] * 2),
        ("for key in ['a', 'b']:\n    pyautogui.press(key, _pause=False)", tap("a", "b")),
        (
            "with pyautogui.hold('shift'):\n    pyautogui.press('left', _pause=False)",
            [Key("shift"), *tap("left"), Key("shift", False)],
        ),
        ("'''a comment'''\npass  # and another", []),
        (
            "pyautogui.FAILSAFE = False; pyautogui.PAUSE = 0\npyautogui.click(); pyautogui.click()",
            click() * 2,
        ),
    ],
)
def test_code_becomes_inputs(code: str, expected: list[Input]) -> None:
    assert inputs(code) == expected


def test_a_pause_is_kept_between_calls_and_not_after_the_last() -> None:
    assert inputs("pyautogui.press('a'); pyautogui.press('b')") == [*tap("a"), Wait(0.1), *tap("b")]
    assert inputs("pyautogui.PAUSE = 1\npyautogui.press('a'); time.sleep(2)") == [
        *tap("a"),
        Wait(1),
        Wait(2),
    ]


def test_a_drag_goes_step_by_step_in_the_time_it_was_given() -> None:
    done = inputs("pyautogui.dragTo(105, 6, duration=1.0, button='left', mouseDownUp=True)")
    assert done[0] == Press() and done[-1] == Press(is_down=False)
    moves = [one for one in done if isinstance(one, Move)]
    assert moves[0] == Move(15, 6) and moves[-1] == Move(105, 6) and len(moves) == 10
    assert sum(one.seconds for one in done if isinstance(one, Wait)) == pytest.approx(1.0)
    assert inputs("pyautogui.drag(-5, -6, mouseDownUp=False)")[-1] == Move(0, 0)


def test_a_text_is_copied_where_that_is_allowed() -> None:
    code = "import pyperclip\npyperclip.copy('é')\npyautogui.click()"
    plan = dialect.read(code, SCREEN, (5, 6), can_copy=True)
    assert plan.steps == (Copy("é"), *click())
    for hidden in (code, "pyperclip.copy('é')", "from pyperclip import copy"):
        with pytest.raises(DialectError):
            inputs(hidden)


def test_the_pointer_is_followed() -> None:
    assert inputs("pyautogui.moveTo(100, 100)\npyautogui.move(1, 1, _pause=False)")[-1] == Move(
        101, 101
    )


@pytest.mark.parametrize(
    "code", ["pyautogui.move(1, 1)", "pyautogui.drag(1, 1)", "x = pyautogui.position()"]
)
def test_code_that_depends_on_the_pointer_asks_for_it(code: str) -> None:
    with pytest.raises(PointerNeededError):
        dialect.read(code, SCREEN, None)
    known = dialect.read(f"pyautogui.moveTo(9, 9)\n{code}", SCREEN, None)
    assert known == dialect.read(f"pyautogui.moveTo(9, 9)\n{code}", SCREEN, (5, 6))


def test_what_is_printed_is_kept() -> None:
    plan = dialect.read(
        "print(pyautogui.size())\nprint('at', pyautogui.position())", SCREEN, (5, 6)
    )
    assert plan.output == "(800, 600)\nat (5, 6)\n" and plan.steps == ()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "pyautogui.press('entr')",
            "pyautogui.press: there is no key 'entr'; did you mean 'enter'?",
        ),
        ("pyautogui.press('ctrl+c')", "use pyautogui.hotkey('ctrl', 'c')"),
        ("\npyautogui.click(800, 0)", "line 2: pyautogui.click: (800, 0) is off the screen"),
        ("pyautogui.click(1, 2, cliks=3)", "there is no argument 'cliks'; it takes x, y, clicks"),
        ("import os", "line 1: 'import os' is not allowed; allowed are pyautogui.{click"),
        ("pyautogui.screenshot()", "'pyautogui.screenshot' is not allowed"),
        ("click(1, 2)", "'click' is not defined"),
        ("pyautogui.click(", "not valid Python: '(' was never closed (line 1)"),
    ],
)
def test_a_refusal_tells_the_agent_what_to_do(code: str, said: str) -> None:
    with pytest.raises(DialectError) as caught:
        inputs(code)
    assert said in str(caught.value)


def test_hostile_code_is_refused_and_nothing_of_it_is_executed(tmp_path: Path) -> None:
    target = tmp_path / "made"
    codes = hostile(str(target))
    assert len(set(codes)) >= 200
    modules = set(sys.modules)
    for code in codes:
        with pytest.raises(DialectError):
            inputs(code)
            pytest.fail(f"read: {code[:200]}")
    assert not target.exists()
    assert not {"pyautogui", "pty"} & (set(sys.modules) - modules)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(code: str) -> None:
    try:
        inputs(code)
    except DialectError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["python", "-c", PREFIX + "pyautogui.click(1, 2)"], "pyautogui.click(1, 2)"),
        (["/usr/bin/python3", "-c", PREFIX + LOOP], LOOP),
        (["python", "-c", "import pyautogui; pyautogui.click()"], "pyautogui.click()"),
        ("python -c 'import pyautogui; import time; pyautogui.click()'", "pyautogui.click()"),
        (["python", "-c", PREFIX], ""),
        (["python", "-c", TWO_LINES], TWO_LINES),
        (["python", "-c", "print('import pyautogui')"], None),
        (["python", "pyautogui.py"], None),
        (["ls", "-c", "import pyautogui"], None),
        ("echo 'unclosed", None),
    ],
)
def test_commands_of_osworld_clients_are_recognised(
    command: list[str] | str, code: str | None
) -> None:
    assert dialect.code_of(command) == code


def test_a_move_of_computer_13_is_the_same_every_time() -> None:
    for move in ("10, 20, 0.51, pyautogui.easeInBounce", "10, 20, 0.99, pyautogui.easeOutQuad"):
        assert inputs(f"pyautogui.moveTo({move})") == [Move(10, 20)]
