"""Actions: what they mean for pointer and keyboard, and what is refused."""

from __future__ import annotations

import pytest
from envs.desktop.memory_computer import MemoryComputer

from practicum.agents.formats import FORMATS
from practicum.core.commands import to_call
from practicum.core.env import Decision
from practicum.core.message import Action
from practicum.desktops.computer import Key, Move, Press, Screen, Scroll, Text, Wait
from practicum.envs.desktop.actions import (
    SPACES,
    Ended,
    Performed,
    RefusedError,
    Space,
    desktop_commands,
    from_pixels,
    read_action,
    to_pixels,
)
from practicum.envs.desktop.languages import Pyautogui

SCREEN = Screen(1280, 720)


def inputs(text: str, space: Space = "pixels") -> tuple[object, ...]:
    meaning = read_action(text, space, SCREEN)
    assert isinstance(meaning, Performed)
    return meaning.inputs


def test_a_click_is_a_move_a_press_and_a_release() -> None:
    assert inputs("click 10 20") == (Move(10, 20), Press(), Press(is_down=False))
    assert inputs("right_click 10 20")[1] == Press("right")
    assert inputs("double_click 1 2").count(Press()) == 2


def test_a_point_is_where_its_space_puts_it() -> None:
    assert inputs("move 640 360") == (Move(640, 360),)
    assert inputs("move 0.5 0.5", "unit") == (Move(640, 360),)
    assert inputs("move 1 1", "unit") == (Move(1279, 719),)
    assert inputs("move 999 0", "thousand") == (Move(1279, 0),)


@pytest.mark.parametrize("space", SPACES)
def test_a_pixel_survives_the_way_through_every_space(space: Space) -> None:
    for pixel in [(0, 0), (1279, 719), (17, 333), (640, 360)]:
        x, y = to_pixels(*from_pixels(*pixel, space, SCREEN), space, SCREEN)
        assert abs(x - pixel[0]) <= 1 and abs(y - pixel[1]) <= 1


@pytest.mark.parametrize(
    ("text", "space"),
    [
        ("click 1280 0", "pixels"),
        ("click -1 0", "pixels"),
        ("click 0.5 0.5", "pixels"),
        ("click 1.01 0", "unit"),
        ("click 1000 0", "thousand"),
        ("click", "pixels"),
        ("fly 1 2", "pixels"),
        ("", "pixels"),
        ("done please", "pixels"),
        ("scroll 1 1 down 0", "pixels"),
        ("scroll 1 1 sideways 3", "pixels"),
        ("wait 1000", "pixels"),
        ("key a+b", "pixels"),
        ("key ctrl+", "pixels"),
        ("type a\x00b", "pixels"),
        ("type " + "x" * 20_000, "pixels"),
    ],
)
def test_what_means_nothing_is_refused_and_never_taken_for_done(text: str, space: Space) -> None:
    with pytest.raises(RefusedError):
        read_action(text, space, SCREEN)


def test_keys_are_held_and_let_go_in_reverse() -> None:
    assert inputs("key ctrl+shift+t") == (
        *(Key("ctrl"), Key("shift"), Key("t")),
        *(Key("t", is_down=False), Key("shift", is_down=False), Key("ctrl", is_down=False)),
    )
    assert inputs("key ctrl++")[:2] == (Key("ctrl"), Key("+"))
    assert inputs("key +")[0] == Key("+")
    assert inputs("hotkey a+b")[:2] == (Key("a"), Key("b"))


def test_text_wheel_time_and_drags() -> None:
    assert inputs("type a <b> {c} ü") == (Text("a <b> {c} ü"),)
    assert inputs("scroll 5 6 down 3") == (Move(5, 6), Scroll(up=-3))
    assert inputs("wait 0.5") == (Wait(0.5),)
    drag = inputs("drag 0 0 80 40")
    assert drag[:2] == (Move(0, 0), Press()) and drag[-1] == Press(is_down=False)
    assert Move(80, 40) in drag


def test_ends_are_told_apart() -> None:
    assert read_action("done", "pixels", SCREEN) == Ended("done")
    assert read_action("fail", "pixels", SCREEN) == Ended("fail")
    assert read_action("answer 42", "pixels", SCREEN) == Ended("answer", "42")


ACTIONS = ("click 10 20", "drag 1 2 3 4", "type a, b = [c]!", "key ctrl+s", "wait 0.5", "done")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("text", [*ACTIONS, "scroll 1 2 left 3", "answer yes", "type {x: 1}"])
def test_every_format_writes_and_reads_every_action(name: str, text: str) -> None:
    commands = desktop_commands("pixels")
    decision = Decision(Action(text), "because")
    assert FORMATS[name].parse(FORMATS[name].render(decision, commands), commands) == decision
    assert to_call(commands, text).name == text.split()[0]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("drag 1 2 3 4", "pyautogui.moveTo(1, 2)\npyautogui.dragTo(3, 4, duration=0.3)"),
        ("type it's", 'pyautogui.write("it\'s")'),
        ("key ctrl+s", "pyautogui.hotkey('ctrl', 's')"),
        ("scroll 5 6 left 2", "pyautogui.hscroll(-2, 5, 6)"),
        ("scroll 5 6 up 2", "pyautogui.scroll(2, 5, 6)"),
        ("wait 0.5", "time.sleep(0.5)"),
        ("answer 4 2", "ANSWER 4 2"),
    ],
)
async def test_commands_are_put_into_code_that_is_read(text: str, code: str) -> None:
    language = Pyautogui()
    assert language.write(text) == code
    await language.read(code, MemoryComputer())
