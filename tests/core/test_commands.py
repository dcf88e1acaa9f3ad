import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.commands import FREE_TEXT, Call, Command, signature, to_call, to_text, usage

COMMANDS = (
    Command("get", "get {count:int} {item}", "fetch"),
    Command("inventory", "inventory", "look"),
)


POINTER = (
    Command("click", "click {x:number} {y:number}", "click"),
    Command("scroll", "scroll {way:up|down} {count:int}", "scroll"),
)


@given(st.text(max_size=60))
def test_any_text_survives_the_way_through_a_call(text: str) -> None:
    assert to_text(COMMANDS, to_call(COMMANDS, text)) == text


def test_a_known_action_becomes_a_named_call() -> None:
    assert to_call(COMMANDS, "get 2 oak logs") == Call("get", {"count": 2, "item": "oak logs"})


def test_a_number_that_would_not_come_back_stays_text() -> None:
    assert to_call(COMMANDS, "get 007 logs").name == FREE_TEXT
    assert to_call(COMMANDS, f"get {'9' * 5000} logs").name == FREE_TEXT


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (Call("fly", {}), "there is no function 'fly'"),
        (Call("get", {"count": 1}), "get takes count, item"),
        (Call("get", {"count": "1", "item": "a"}), "whole number"),
        (Call("get", {"count": True, "item": "a"}), "whole number"),
        (Call("get", {"count": 1, "item": 2}), "must be a string"),
        (Call(FREE_TEXT, {"words": "a"}), "exactly one argument"),
    ],
)
def test_calls_that_do_not_exist_say_why(call: Call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        to_text(COMMANDS, call)


def test_commands_are_written_for_instructions() -> None:
    assert signature(COMMANDS[0]) == "get(count: int, item: str)"
    assert usage(COMMANDS[0]) == "get COUNT ITEM"


def test_numbers_and_choices_are_read_and_written() -> None:
    assert to_call(POINTER, "click 0.5 12") == Call("click", {"x": 0.5, "y": 12})
    assert to_text(POINTER, Call("click", {"x": 0.1 + 0.2, "y": 1e-9})) == "click 0.3 0"
    assert to_call(POINTER, "scroll down 3") == Call("scroll", {"way": "down", "count": 3})
    assert to_call(POINTER, "scroll left 3").name == FREE_TEXT
    assert usage(POINTER[1]) == "scroll up|down COUNT"
    assert signature(POINTER[1]) == "scroll(way: up|down, count: int)"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (Call("click", {"x": "1", "y": 2}), "x must be a number"),
        (Call("click", {"x": float("nan"), "y": 2}), "x must be a number"),
        (Call("click", {"x": True, "y": 2}), "x must be a number"),
        (Call("scroll", {"way": "left", "count": 1}), "one of up, down, not 'left'"),
        (Call("scroll", {"way": "up", "count": 1.5}), "whole number"),
    ],
)
def test_wrong_numbers_and_choices_say_why(call: Call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        to_text(POINTER, call)
