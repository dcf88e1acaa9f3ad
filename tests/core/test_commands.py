import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.commands import FREE_TEXT, Call, Command, signature, to_call, to_text, usage

COMMANDS = (
    Command("get", "get {count:int} {item}", "fetch"),
    Command("inventory", "inventory", "look"),
)


@given(st.text(max_size=60))
def test_any_text_survives_the_way_through_a_call(text: str) -> None:
    assert to_text(COMMANDS, to_call(COMMANDS, text)) == text


def test_a_known_action_becomes_a_named_call() -> None:
    assert to_call(COMMANDS, "get 2 oak logs") == Call("get", {"count": 2, "item": "oak logs"})


def test_a_number_that_would_not_come_back_stays_text() -> None:
    assert to_call(COMMANDS, "get 007 logs").name == FREE_TEXT


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
