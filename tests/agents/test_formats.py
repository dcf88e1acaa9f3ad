"""Every format: what it renders it reads, and what went wrong elsewhere goes right here."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from practicum.agents.format import ActionFormat, CannotRenderError
from practicum.agents.formats import FORMATS, get_format
from practicum.core.commands import Command
from practicum.core.env import Decision
from practicum.core.episode import FormatError, FormatErrorKind
from practicum.core.errors import ConfigError
from practicum.core.message import Action
from practicum.envs.text.textcraft.env import COMMANDS

SQL = (Command("query", "{sql}", "run a query", is_multiline=True),)

every_format = pytest.mark.parametrize("action_format", FORMATS.values(), ids=FORMATS)


def read(name: str, text: str, commands: tuple[Command, ...] = COMMANDS) -> Decision:
    parsed = get_format(name).parse(text, commands)
    assert isinstance(parsed, Decision), parsed
    return parsed


def read_error(name: str, text: str) -> FormatErrorKind:
    parsed = get_format(name).parse(text, COMMANDS)
    assert isinstance(parsed, FormatError), parsed
    return parsed.kind


words = st.text("abcdefghijklmnopqrstuvwxyz -_.,;!?'()", min_size=1, max_size=40).map(
    lambda text: " ".join(text.split())
)
plain_thoughts = st.one_of(st.just(""), words.filter(bool))
plain_actions = st.one_of(
    words.filter(lambda text: text and not text.startswith(("think:", "thought:"))),
    st.builds("get {} {}".format, st.integers(0, 99), words.filter(bool)),
    st.builds("craft {} x using {}".format, st.integers(1, 9), words.filter(bool)),
)


@every_format
@settings(max_examples=200, deadline=None)
@given(action=plain_actions, thought=plain_thoughts)
def test_what_is_rendered_reads_back_the_same(
    action_format: ActionFormat, action: str, thought: str
) -> None:
    assume("```" not in action + thought)
    decision = Decision(Action(action), thought)
    assert action_format.parse(action_format.render(decision, COMMANDS), COMMANDS) == decision


@every_format
@settings(max_examples=300, deadline=None)
@given(action=st.text(max_size=60), thought=st.text(max_size=60))
def test_whatever_cannot_be_written_is_refused_and_never_changed(
    action_format: ActionFormat, action: str, thought: str
) -> None:
    decision = Decision(Action(action), thought)
    try:
        text = action_format.render(decision, COMMANDS)
    except CannotRenderError:
        return
    assert action_format.parse(text, COMMANDS) == decision


@every_format
@settings(max_examples=300, deadline=None)
@given(answer=st.text(max_size=200))
def test_any_answer_is_an_action_or_a_typed_error(action_format: ActionFormat, answer: str) -> None:
    parsed = action_format.parse(answer, COMMANDS)
    if isinstance(parsed, FormatError):
        assert action_format.shape in parsed.feedback
    else:
        assert parsed.action.text.strip()


@every_format
def test_sql_over_several_lines_stays_whole(action_format: ActionFormat) -> None:
    decision = Decision(Action("SELECT name\nFROM city\n\nWHERE size > 3"), "I count cities.")
    assert action_format.parse(action_format.render(decision, SQL), SQL) == decision


@every_format
@pytest.mark.parametrize("text", ["", " ", "\n\n\t"])
def test_empty_output_is_an_error(action_format: ActionFormat, text: str) -> None:
    assert read_error(action_format.name, text) == FormatErrorKind.EMPTY


@every_format
def test_an_action_in_an_unfinished_thought_is_not_executed(action_format: ActionFormat) -> None:
    answer = action_format.render(Decision(Action("inventory")), COMMANDS)
    assert read_error(action_format.name, f"<think>perhaps\n{answer}") == (
        FormatErrorKind.UNFINISHED_THOUGHT
    )


@every_format
def test_an_action_in_a_finished_thought_is_not_executed(action_format: ActionFormat) -> None:
    first = action_format.render(Decision(Action("get 1 stick")), COMMANDS)
    second = action_format.render(Decision(Action("inventory")), COMMANDS)
    parsed = read(action_format.name, f"<think>not {first}</think>\n{second}")
    assert parsed.action.text == "inventory"


@every_format
def test_a_thought_that_the_prompt_opened_is_closed_by_the_answer(
    action_format: ActionFormat,
) -> None:
    answer = action_format.render(Decision(Action("inventory")), COMMANDS)
    assert read(action_format.name, f"let me look</think>\n{answer}").thought == "let me look"


@every_format
def test_more_than_one_action_is_an_error(action_format: ActionFormat) -> None:
    one = action_format.render(Decision(Action("get 1 stick")), COMMANDS)
    two = action_format.render(Decision(Action("inventory")), COMMANDS)
    assert read_error(action_format.name, f"{one}\n{two}") == FormatErrorKind.SEVERAL_ACTIONS


@every_format
def test_an_imagined_reply_and_second_action_is_an_error(action_format: ActionFormat) -> None:
    one = action_format.render(Decision(Action("get 1 stick")), COMMANDS)
    two = action_format.render(Decision(Action("inventory")), COMMANDS)
    assert read_error(action_format.name, f"{one}\nGot 1 stick\n{two}") == (
        FormatErrorKind.SEVERAL_ACTIONS
    )


@every_format
def test_hyphens_survive(action_format: ActionFormat) -> None:
    decision = Decision(Action("get 1 jack-o-lantern"), "a lantern")
    assert read(action_format.name, action_format.render(decision, COMMANDS)) == decision


@every_format
def test_a_remark_under_the_action_is_not_executed(action_format: ActionFormat) -> None:
    answer = action_format.render(Decision(Action("get 1 stick"), "need"), COMMANDS)
    parsed = read(action_format.name, f"{answer}\nThis will get the stick.")
    assert parsed.action.text == "get 1 stick"


@every_format
def test_prose_alone_holds_no_action(action_format: ActionFormat) -> None:
    assert read_error(action_format.name, "I think I should fetch a stick now.") == (
        FormatErrorKind.NO_ACTION
    )


@every_format
def test_fingerprints_tell_formats_and_commands_apart(action_format: ActionFormat) -> None:
    assert action_format.fingerprint(COMMANDS) == action_format.fingerprint(COMMANDS)
    assert action_format.fingerprint(COMMANDS) != action_format.fingerprint(SQL)
    prints = {other.fingerprint(COMMANDS) for other in FORMATS.values()}
    assert len(prints) == len(FORMATS)


@every_format
def test_an_endless_answer_is_refused_unread(action_format: ActionFormat) -> None:
    assert read_error(action_format.name, "[" * 200_000) == FormatErrorKind.BAD_SYNTAX


def test_react_reads_an_action_on_one_line() -> None:
    assert read("react", "Action: get 1 stick").action.text == "get 1 stick"


def test_react_reads_an_action_on_the_next_line() -> None:
    parsed = read("react", "Thought:\nI need a stick.\n\nAction:\nget 1 stick")
    assert parsed == Decision(Action("get 1 stick"), "I need a stick.")


def test_react_reads_a_fenced_action() -> None:
    assert read("react", "Action:\n```\nget 1 stick\n```").action.text == "get 1 stick"


def test_react_is_not_misled_by_the_word_action_in_a_thought() -> None:
    text = "Thought: my next Action: will be to look.\nAction: inventory"
    assert read("react", text).action.text == "inventory"


def test_react_reads_unfenced_sql_over_several_lines() -> None:
    text = "Thought: count\nAction: SELECT count(*)\nFROM city"
    assert read("react", text, SQL).action.text == "SELECT count(*)\nFROM city"


def test_bracket_reads_what_its_own_prompt_asks_for() -> None:
    assert read("bracket", "Action: [[ get 2 oak logs ]]").action.text == "get 2 oak logs"


def test_bracket_that_does_not_close_is_broken() -> None:
    assert read_error("bracket", "Action: [[ get 2 oak logs") == FormatErrorKind.BAD_SYNTAX


def test_adapt_reads_the_line_that_is_no_thought() -> None:
    parsed = read("adapt", "> think: I need logs first.\n> get 2 oak logs")
    assert parsed == Decision(Action("get 2 oak logs"), "I need logs first.")


def test_adapt_refuses_several_commands() -> None:
    assert read_error("adapt", "> get 2 oak logs\n> inventory") == FormatErrorKind.SEVERAL_ACTIONS


def test_adapt_takes_a_finished_thought_alone_for_no_action() -> None:
    assert read_error("adapt", "> think: Task completed") == FormatErrorKind.NO_ACTION


def test_tag_that_does_not_close_is_broken() -> None:
    assert read_error("tag", "<action>inventory") == FormatErrorKind.BAD_SYNTAX


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"function_name": "get", "arguments": {"count": 2', FormatErrorKind.BAD_SYNTAX),
        ('{"function_name": "fly", "arguments": {}}', FormatErrorKind.UNKNOWN_CALL),
        ('{"function_name": "get", "arguments": {"item": "x"}}', FormatErrorKind.UNKNOWN_CALL),
        ('{"function_name": "inventory"}', FormatErrorKind.BAD_SYNTAX),
        ('{"function_name": "inventory", "arguments": []}', FormatErrorKind.BAD_SYNTAX),
        ('{"function_name": "inventory", "arguments": {}, "x": 1}', FormatErrorKind.BAD_SYNTAX),
        ('{"arguments": {}, "arguments": {}, "function_name": "inventory"}',
         FormatErrorKind.BAD_SYNTAX),
        ('{"function_name": "get", "arguments": {"count": ' + "9" * 5000 + ', "item": "x"}}',
         FormatErrorKind.BAD_SYNTAX),
        ("{" * 5000, FormatErrorKind.BAD_SYNTAX),
        ('{"a":' * 20000, FormatErrorKind.BAD_SYNTAX),
    ],
)  # fmt: skip
def test_function_calls_that_are_broken_say_how(text: str, kind: FormatErrorKind) -> None:
    assert read_error("function_call", text) == kind


def test_a_function_call_may_be_fenced() -> None:
    text = '```json\n{"thought": "t", "function_name": "inventory", "arguments": {}}\n```'
    assert read("function_call", text) == Decision(Action("inventory"), "t")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("__import__('os').system('touch /tmp/evil')", FormatErrorKind.UNKNOWN_CALL),
        ("get(1, open('/etc/passwd').read())", FormatErrorKind.UNKNOWN_CALL),
        ("get(1 + 1, 'stick')", FormatErrorKind.UNKNOWN_CALL),
        ("get(True, 'stick')", FormatErrorKind.UNKNOWN_CALL),
        ("get(1, 'stick', 2)", FormatErrorKind.UNKNOWN_CALL),
        ("get(1, *['stick'])", FormatErrorKind.UNKNOWN_CALL),
        ("get(1, **{'item': 'x'})", FormatErrorKind.UNKNOWN_CALL),
        ("x = inventory()", FormatErrorKind.UNKNOWN_CALL),
        ("inventory", FormatErrorKind.UNKNOWN_CALL),
        ("import os", FormatErrorKind.UNKNOWN_CALL),
        ("inventory()\ninventory()", FormatErrorKind.SEVERAL_ACTIONS),
        ("get(1, 'stick'", FormatErrorKind.BAD_SYNTAX),
        ("(" * 5000, FormatErrorKind.BAD_SYNTAX),
        ("# nothing", FormatErrorKind.NO_ACTION),
    ],
)
def test_code_is_parsed_and_never_evaluated(code: str, kind: FormatErrorKind) -> None:
    assert read_error("code", f"```python\n{code}\n```") == kind


def test_code_takes_positions_and_names() -> None:
    for call in ('get(2, "oak logs")', 'get(count=2, item="oak logs")', 'get(2, item="oak logs")'):
        assert read("code", f"```python\n{call}\n```").action.text == "get 2 oak logs"


def test_code_with_an_odd_escape_is_read_without_a_warning() -> None:
    assert read("code", "```python\nget(1, '\\d')\n```").action.text == "get 1 \\d"


def test_unknown_formats_come_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'react'"):
        get_format("raect")
