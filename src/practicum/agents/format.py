"""What an action format is: instructions, rendering and parsing from one definition.

The text a format renders is the text its parser reads: `render` parses what it wrote and
refuses anything that would come back changed. So demonstrations cannot teach an answer
that the parser turns down.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from practicum.core.canonical import content_hash
from practicum.core.commands import Command, signature, usage
from practicum.core.env import Decision, Environment
from practicum.core.episode import FormatError, FormatErrorKind
from practicum.core.errors import PracticumError

Parsed = Decision | FormatError

MAX_ANSWER_CHARS = 100_000
"""Longer answers are refused unread: no environment takes such an action."""

_THINK_BLOCK = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)\n?```", re.DOTALL)


class CannotRenderError(PracticumError):
    """A decision that this format cannot write so that it reads back the same."""


class ActionFormat(ABC):
    """One way to answer. Stateless."""

    name: str
    shape: str
    """The form in one or two lines, for instructions and feedback."""
    rule: str
    """How to use the form, in a sentence."""
    shows_calls = False
    """Actions are listed as function signatures and not as the environment's own text."""

    def instructions(self, commands: Sequence[Command]) -> str:
        """Tell the model how to answer."""
        heading = "Functions" if self.shows_calls else "Actions"
        write = signature if self.shows_calls else usage
        lines = (f"- {write(command)}: {command.help}" for command in commands)
        return f"{heading}:\n{chr(10).join(lines)}\n\n{self.rule}\n{self.shape}"

    @abstractmethod
    def write(self, decision: Decision, commands: Sequence[Command]) -> str:
        """Write a decision; `render` checks the result."""

    @abstractmethod
    def read(self, answer: str, commands: Sequence[Command]) -> Parsed:
        """Read an answer that is neither empty nor an unfinished thought."""

    def render(self, decision: Decision, commands: Sequence[Command]) -> str:
        """Write a decision as the answer a model should give."""
        text = self.write(decision, commands)
        if self.parse(text, commands) != decision:
            raise CannotRenderError(
                f"format {self.name!r} cannot write {decision!r}: it would not read back the same"
            )
        return text

    def parse(self, text: str, commands: Sequence[Command]) -> Parsed:
        """Read one answer: exactly one action, or a typed format error."""
        if not text.strip():
            return self.error(FormatErrorKind.EMPTY, "Your answer was empty.")
        if len(text) > MAX_ANSWER_CHARS:
            return self.error(FormatErrorKind.BAD_SYNTAX, "Your answer was far too long.")
        thoughts = [thought.strip() for thought in _THINK_BLOCK.findall(text)]
        answer = _THINK_BLOCK.sub("", text)
        if "<think>" in answer:
            return self.error(
                FormatErrorKind.UNFINISHED_THOUGHT,
                "Your thought did not end: nothing in it was carried out.",
            )
        # A chat template may open the thought in the prompt: the answer only closes it.
        head, closes, tail = answer.partition("</think>")
        if closes:
            thoughts.append(head.strip())
            answer = tail
        if not answer.strip():
            return self.no_action()
        parsed = self.read(answer, commands)
        if isinstance(parsed, Decision) and thoughts:
            joined = "\n".join(t for t in [*thoughts, parsed.thought] if t)
            return Decision(parsed.action, joined)
        return parsed

    def error(self, kind: FormatErrorKind, what: str) -> FormatError:
        """Make a format error whose feedback repeats the form."""
        return FormatError(kind, f"{what} Answer in this form:\n{self.shape}")

    def no_action(self) -> FormatError:
        """The error for an answer in which no action was found."""
        return self.error(FormatErrorKind.NO_ACTION, "Your answer held no action.")

    def several_actions(self, count: int) -> FormatError:
        """The error for an answer with more than one action."""
        return self.error(
            FormatErrorKind.SEVERAL_ACTIONS,
            f"Your answer held {count} actions and none was carried out; give exactly one.",
        )

    def bad_syntax(self, what: str) -> FormatError:
        """The error for an answer whose form is broken."""
        return self.error(FormatErrorKind.BAD_SYNTAX, what)

    def fingerprint(self, commands: Sequence[Command]) -> str:
        """Hash what the format says and how it reads: equal means equal behaviour.

        Taken over outcomes on fixed answers, so that a comment in the parser does not make
        two evaluations incomparable and a changed rule does.
        """
        outcomes = []
        for answer in _PROBES:
            parsed = self.parse(answer, commands)
            if isinstance(parsed, FormatError):
                outcomes.append([parsed.kind.value, parsed.feedback])
            else:
                outcomes.append([parsed.action.text, parsed.thought])
        return content_hash([self.name, self.instructions(commands), outcomes])


def system_text(environment: Environment, action_format: ActionFormat) -> str:
    """What a model is told: the rules of the world, then how to answer."""
    return f"{environment.rules}\n\n{action_format.instructions(environment.commands)}"


def spans_lines(commands: Sequence[Command]) -> bool:
    """Whether an action of this environment may have several lines."""
    return any(command.is_multiline for command in commands)


def take_action(text: str, commands: Sequence[Command]) -> str:
    """Cut the action out of what follows an action marker.

    A fenced block is taken whole. Without one, an action that cannot span lines ends with
    its line, so that a remark under it is not executed.
    """
    fence = _FENCE.match(text.lstrip())
    if fence:
        return fence[1].strip()
    stripped = text.strip()
    if spans_lines(commands):
        return stripped
    return stripped.split("\n", 1)[0].strip()


def put_action(action: str) -> str:
    """Write an action behind a marker; the reverse of `take_action`."""
    return f"\n```\n{action}\n```" if "\n" in action else f" {action}"


_PROBES = (
    "",
    "get 1 stick",
    "Action: get 1 stick",
    "Thought: the next Action: is plain.\nAction: get 1 stick",
    "Thought: I need a stick.\nAction:\nget 1 stick",
    "Thought: a\nAction: get 1 stick\nI have done it.",
    "Action: get 1 stick\nAction: get 2 stick",
    "Action: get 1 stick\nObservation: Got 1 stick\nAction: get 2 stick",
    "Thought: a\nAction:\n```\nget 1 jack-o-lantern\n```",
    "Thought: a\nAction: [[ get 2 oak logs ]]",
    "[[ get 2 oak logs ]] and [[ inventory ]]",
    "<think>Action: get 1 stick</think>\nAction: inventory",
    "<think>I could say Action: get 1 stick",
    "> think: I need logs\n> get 2 oak logs",
    "> get 2 oak logs\n> inventory",
    "<action>get 2 oak logs</action>",
    "<action>get 2 oak logs",
    "<action>inventory</action><action>inventory</action>",
    '{"thought": "a", "function_name": "get", "arguments": {"count": 2, "item": "oak logs"}}',
    '{"function_name": "fly", "arguments": {}}',
    '{"thought": "a", "action": "get", "count": 2, "item": "oak logs"}',
    '{"action": "fly"}',
    '{"action": "inventory"} {"action": "inventory"}',
    '{"function_name": "get", "arguments": {"count": 2',
    '```python\nget(2, "oak logs")\n```',
    "```python\n__import__('os').system('true')\n```",
    "```python\ninventory()\ninventory()\n```",
    "Action: SELECT a\nFROM b",
)
