"""Code as action: one Python call in a fenced block. Parsed, never evaluated."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence

from practicum.agents.format import ActionFormat, Parsed
from practicum.core.commands import FREE_TEXT, Argument, Call, Command, to_call, to_text
from practicum.core.env import Decision
from practicum.core.episode import FormatErrorKind
from practicum.core.message import Action

_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)\n?```", re.DOTALL)
_THOUGHT = re.compile(r"^\s*Thought:\s?")


class CodeFormat(ActionFormat):
    """`Thought: why` and a fenced Python call."""

    name = "code"
    shape = "Thought: <your reasoning>\n```python\nfunction(arguments)\n```"
    rule = "Write your reasoning, then exactly one call with literal arguments:"
    shows_calls = True

    def write(self, decision: Decision, commands: Sequence[Command]) -> str:
        """Write the call in a Python block."""
        call = to_call(commands, decision.action.text)
        arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
        thought = f"Thought: {decision.thought}\n" if decision.thought else ""
        return f"{thought}```python\n{call.name}({arguments})\n```"

    def read(self, answer: str, commands: Sequence[Command]) -> Parsed:
        """Read the one call with literal arguments."""
        blocks = list(_BLOCK.finditer(answer))
        if not blocks:
            if "```" in answer:
                return self.bad_syntax("Your code block was not closed.")
            return self.no_action()
        if len(blocks) > 1:
            return self.several_actions(len(blocks))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an odd escape in a string is no concern of ours
                statements = ast.parse(blocks[0][1]).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return self.bad_syntax("Your code could not be read.")
        if not statements:
            return self.no_action()
        if len(statements) > 1:
            return self.several_actions(len(statements))
        try:
            text = to_text(commands, _read_call(statements[0], commands))
        except ValueError as error:
            return self.error(FormatErrorKind.UNKNOWN_CALL, f"That call does not exist: {error}.")
        if not text.strip():
            return self.no_action()
        thought = _THOUGHT.sub("", answer[: blocks[0].start()]).strip()
        return Decision(Action(text), thought)


def _read_call(statement: ast.stmt, commands: Sequence[Command]) -> Call:
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        raise ValueError("only a single function call is possible")
    call = statement.value
    if not isinstance(call.func, ast.Name):
        raise ValueError("only the listed functions can be called")
    names = _parameter_names(call.func.id, commands)
    if len(call.args) > len(names):
        raise ValueError(f"{call.func.id} takes {len(names)} arguments; got {len(call.args)}")
    arguments = {name: _literal(node) for name, node in zip(names, call.args, strict=False)}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ValueError(f"{call.func.id} got an argument twice or unnamed")
        arguments[keyword.arg] = _literal(keyword.value)
    return Call(call.func.id, arguments)


def _parameter_names(function: str, commands: Sequence[Command]) -> list[str]:
    if function == FREE_TEXT:
        return ["text"]
    return [name for c in commands if c.name == function for name in c.parameters]


def _literal(node: ast.expr) -> Argument:
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    value = node.operand if isinstance(node, ast.UnaryOp) and negative else node
    if not isinstance(value, ast.Constant) or isinstance(value.value, bool):
        raise ValueError("arguments must be plain strings or numbers")
    if isinstance(value.value, int | float):
        return -value.value if negative else value.value
    if isinstance(value.value, str) and not negative:
        return value.value
    raise ValueError("arguments must be plain strings or numbers")
