"""pyautogui code as agents write it, read into `Input`s. Nothing of it is ever executed.

The code is parsed and walked over with an allow-list: pyautogui's functions for pointer and
keyboard, `time.sleep`, numbers, texts, lists, arithmetic, plain assignments, `for` over `range`
or a list, `with pyautogui.hold(...)`, `print`. Anything else is a `DialectError` whose text is
feedback for the agent, and then nothing of the code is done: all of it is read before the
first input.

`perform` does what was read. `code_of` recognises the `python -c` commands in which clients of
OSWorld wrap such code.
"""

from __future__ import annotations

import ast
import operator
import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from practicum.desktops.computer import Computer, Input, Screen
from practicum.desktops.gestures import (
    SIGNATURES,
    Copy,
    DialectError,
    Hand,
    PointerNeededError,
    Step,
)

__all__ = [
    "Copy",
    "DialectError",
    "Plan",
    "PointerNeededError",
    "Step",
    "code_of",
    "perform",
    "read",
]

MAX_CODE_CHARACTERS = 50_000
MAX_STATEMENTS = 10_000
MAX_NUMBER = 10**9
MAX_LENGTH = 20_000
"""Of a text or a list that the code makes."""

ALLOWED = (
    f"allowed are pyautogui.{{{', '.join(sorted(SIGNATURES))}, hold}}, time.sleep, "
    "print, numbers, texts, lists, arithmetic, assignments and for loops over range(...) or a list"
)

_PYAUTOGUI, _TIME, _PYPERCLIP = "pyautogui", "time", "pyperclip"
_TWEENS = frozenset(
    ["linear"]
    + [
        f"ease{way}{curve}"
        for way in ("In", "Out", "InOut")
        for curve in "Quad Cubic Quart Quint Sine Expo Circ Elastic Back Bounce".split()
    ]
)
_CONSTANTS = {"LEFT": "left", "MIDDLE": "middle", "RIGHT": "right"} | {
    "PRIMARY": "primary",
    "SECONDARY": "secondary",
}
_SETTINGS = frozenset(
    {"PAUSE", "FAILSAFE", "MINIMUM_DURATION", "MINIMUM_SLEEP", "DARWIN_CATCH_UP_TIME"}
)
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_BUILTINS = ("int", "round", "str", "print", "range")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a piece of code does."""

    steps: tuple[Step, ...]
    output: str
    """What it prints."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The steps of code that could not copy."""
        inputs = tuple(step for step in self.steps if not isinstance(step, Copy))
        assert len(inputs) == len(self.steps), "for whoever can copy there is `perform`"
        return inputs


@dataclass(frozen=True, slots=True)
class _Module:
    name: str


@dataclass(frozen=True, slots=True)
class _Function:
    module: str
    name: str


def read(
    code: str, screen: Screen, pointer: tuple[int, int] | None, *, can_copy: bool = False
) -> Plan:
    """Read code into inputs for a screen and where the pointer is; or raise `DialectError`.

    `can_copy`: `pyperclip.copy` is allowed, and the plan is for `perform`. Without a pointer, code
    that depends on it raises `PointerNeededError`.
    """
    if len(code) > MAX_CODE_CHARACTERS:
        raise DialectError(f"the code has more than {MAX_CODE_CHARACTERS} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes are the agent's affair
            tree = ast.parse(code)
    except SyntaxError as error:
        raise DialectError(f"not valid Python: {error.msg} (line {error.lineno})") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise DialectError(f"not valid Python: {error}") from error
    reader = _Reader(code, Hand(screen, pointer), can_copy)
    try:
        reader.block(tree.body)
    except RecursionError as error:
        raise DialectError("the code is nested too deeply") from error
    return Plan(tuple(reader.hand.steps), "".join(reader.printed))


async def perform(plan: Plan, computer: Computer) -> None:
    """Do what code says; what this computer cannot type or press is a `ValueError`."""
    inputs: list[Input] = []
    for step in plan.steps:
        if isinstance(step, Copy):
            await computer.perform(inputs)
            inputs = []
            await computer.set_clipboard(step.text)
        else:
            inputs.append(step)
    await computer.perform(inputs)


def code_of(command: Sequence[str] | str) -> str | None:
    """The code inside a `python -c "import pyautogui; …"` command; None if it is not one.

    The statements that clients put in front are taken off, because they do so with `;`, which
    makes a syntax error of code that begins with `for` or `with`.
    """
    if isinstance(command, str):
        try:
            command = shlex.split(command)
        except ValueError:
            return None
    if len(command) != 3 or command[1] != "-c":
        return None
    program = PurePosixPath(command[0]).name
    if not program.startswith("python") or not command[2].lstrip().startswith("import pyautogui"):
        return None
    rest = command[2].strip()
    for prefix in ("import pyautogui", "import time", "pyautogui.FAILSAFE = False"):
        first, separator, others = rest.partition(";")
        if first.strip() == prefix:
            rest = others.strip() if separator else ""
    return rest


class _Reader:
    """Walks over the statements. Knows values of literals only, and no Python object."""

    def __init__(self, code: str, hand: Hand, can_copy: bool) -> None:
        self.hand = hand
        self.printed: list[str] = []
        self._code = code
        self._num_statements = 0
        self._modules = (_PYAUTOGUI, _TIME, *([_PYPERCLIP] if can_copy else []))
        self._names: dict[str, Any] = {
            _PYAUTOGUI: _Module(_PYAUTOGUI),
            _TIME: _Module(_TIME),
            **({_PYPERCLIP: _Module(_PYPERCLIP)} if can_copy else {}),
            **{name: _Function("builtins", name) for name in _BUILTINS},
        }

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Go through statements in order."""
        for statement in statements:
            self._num_statements += 1
            if self._num_statements > MAX_STATEMENTS:
                raise DialectError(f"more than {MAX_STATEMENTS} statements in one action")
            try:
                self._statement(statement)
            except DialectError as error:
                if str(error).startswith("line "):
                    raise
                raise DialectError(f"line {statement.lineno}: {error}") from error

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as call):
                self._value(call)
            case ast.Import(names=names):
                for alias in names:
                    if alias.name not in self._modules:
                        raise self._refuse(statement)
                    self._names[alias.asname or alias.name] = _Module(alias.name)
            case ast.ImportFrom(module=module, names=names, level=0):
                for alias in names:
                    self._names[alias.asname or alias.name] = self._attribute(
                        statement, module, alias.name
                    )
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self._value(value))
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                old = self._names.get(name)
                self._names[name] = self._operate(statement, op, old, self._value(value))
            case ast.For(target=target, iter=iterated, body=body, orelse=[]):
                for item in self._items(iterated):
                    self._assign(target, item)
                    self.block(body)
            case ast.With(
                items=[ast.withitem(context_expr=ast.Call() as call, optional_vars=None)]
            ):
                self._hold(statement, call)
            case _:
                raise self._refuse(statement)

    def _assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name) if _is_plain(value):
                self._names[name] = value
            case ast.Tuple(elts=targets) if isinstance(value, (list, tuple)):
                if len(targets) != len(value):
                    raise DialectError(f"{len(value)} values for {len(targets)} names")
                for one, item in zip(targets, value, strict=True):
                    self._assign(one, item)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if (
                self._names.get(name) == _Module(_PYAUTOGUI) and attribute in _SETTINGS
            ):
                if attribute == "PAUSE":
                    self.hand.pause_s = _seconds(value)
            case _:
                raise self._refuse(target)

    def _items(self, iterated: ast.expr) -> Sequence[Any]:
        if isinstance(iterated, ast.Call) and self._value(iterated.func) == _Function(
            "builtins", "range"
        ):
            args, kwargs = self._arguments(iterated)
            if kwargs or not args or not all(type(arg) is int for arg in args) or len(args) > 3:
                raise self._refuse(iterated)
            if len(args) == 3 and args[2] == 0:
                raise DialectError("range() with a step of 0")
            numbers = range(*args)
            if len(numbers) > MAX_STATEMENTS:
                raise DialectError(f"more than {MAX_STATEMENTS} rounds of a loop")
            return numbers
        items = self._value(iterated)
        if not isinstance(items, (list, tuple, str)):
            raise self._refuse(iterated)
        return items

    def _hold(self, statement: ast.With, call: ast.Call) -> None:
        if self._value(call.func) != _Function(_PYAUTOGUI, "hold"):
            raise self._refuse(call)
        args, kwargs = self._arguments(call)
        if len(args) != 1 or kwargs:
            raise self._refuse(call)
        keys = args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
        for key in keys:
            self.hand.key(key, is_down=True)
        self.block(statement.body)
        for key in reversed(keys):
            self.hand.key(key, is_down=False)

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value) if _is_plain(value):
                return _bounded(value)
            case ast.Name(id=name) if name in self._names:
                return self._names[name]
            case ast.Name(id=name):
                raise DialectError(f"{name!r} is not defined; {ALLOWED}")
            case ast.Tuple(elts=elements):
                return tuple(self._value(element) for element in elements)
            case ast.List(elts=elements):
                return [self._value(element) for element in elements]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._operate(node, ast.Sub(), 0, self._value(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._operate(node, ast.Add(), 0, self._value(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return self._operate(node, op, self._value(left), self._value(right))
            case ast.Subscript(value=value, slice=ast.Constant(value=int() as index)):
                items = self._value(value)
                if isinstance(items, (list, tuple, str)) and 0 <= index < len(items):
                    return items[index]
            case ast.JoinedStr(values=parts):
                return _bounded("".join(self._joined(part) for part in parts))
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                module = self._names.get(name)
                if isinstance(module, _Module):
                    return self._attribute(node, module.name, attribute)
            case ast.Call():
                return self._call(node)
        raise self._refuse(node)

    def _joined(self, part: ast.expr) -> str:
        match part:
            case ast.Constant(value=str() as text):
                return text
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return self._text(part, self._value(value))
        raise self._refuse(part)

    def _text(self, node: ast.AST, value: Any) -> str:
        if not _is_plain(value):
            raise self._refuse(node)
        return str(value)

    def _attribute(self, node: ast.AST, module: str | None, name: str) -> Any:
        if module == _PYAUTOGUI:
            if name in SIGNATURES or name == "hold":
                return _Function(_PYAUTOGUI, name)
            if name in _CONSTANTS:
                return _CONSTANTS[name]
            if name in _TWEENS:
                return None
        if module in self._modules and (module, name) in (
            (_TIME, "sleep"),
            (_PYPERCLIP, "copy"),
        ):
            return _Function(module, name)
        raise self._refuse(node)

    def _call(self, call: ast.Call) -> Any:
        function = self._value(call.func)
        if not isinstance(function, _Function):
            raise self._refuse(call)
        args, kwargs = self._arguments(call)
        match function:
            case _Function(module="pyautogui", name=name) if name in SIGNATURES:
                return self.hand.call(name, args, kwargs)
            case _Function(module="time") if len(args) == 1 and not kwargs:
                return self.hand.sleep(args[0])
            case _Function(module="pyperclip") if len(args) == 1 and not kwargs:
                return self.hand.copy(args[0])
            case _Function(module="builtins", name="print") if not kwargs:
                texts = [self._text(call, arg) for arg in args]
                if sum(map(len, self.printed)) > MAX_LENGTH:
                    raise DialectError(f"more than {MAX_LENGTH} characters are printed")
                self.printed.append(" ".join(texts) + "\n")
                return None
            case _Function(module="builtins", name="str") if len(args) == 1 and not kwargs:
                return _bounded(self._text(call, args[0]))
            case _Function(module="builtins", name="int" | "round") if (
                len(args) == 1 and not kwargs
            ):
                number = args[0]
                if isinstance(number, (int, float)):
                    return int(number) if function.name == "int" else round(number)
        raise self._refuse(call)

    def _arguments(self, call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        for arg in call.args:
            if isinstance(arg, ast.Starred):
                args.extend(self._items(arg.value))
            else:
                args.append(self._value(arg))
        kwargs: dict[str, Any] = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                raise self._refuse(call)
            kwargs[keyword.arg] = self._value(keyword.value)
        if not all(_is_plain(value) for value in [*args, *kwargs.values()]):
            raise self._refuse(call)
        return args, kwargs

    def _operate(self, node: ast.AST, op: ast.operator, left: Any, right: Any) -> Any:
        function = _OPERATORS.get(type(op))
        numbers = all(type(value) in (int, float) for value in (left, right))
        is_text = type(left) is str and (
            (type(right) is str and isinstance(op, ast.Add))
            or (type(right) is int and isinstance(op, ast.Mult) and right <= MAX_LENGTH)
        )
        if function is None or not (numbers or is_text):
            raise self._refuse(node)
        if is_text and isinstance(op, ast.Mult) and len(left) * right > MAX_LENGTH:
            raise DialectError(f"a text of more than {MAX_LENGTH} characters")
        try:
            return _bounded(function(left, right))
        except ArithmeticError as error:
            raise DialectError(str(error)) from error

    def _refuse(self, node: ast.AST) -> DialectError:
        try:
            shown = ast.get_source_segment(self._code, node) or type(node).__name__
        except (IndexError, ValueError):
            shown = type(node).__name__
        shown = " ".join(shown.split())
        shown = shown if len(shown) <= 80 else f"{shown[:80]}…"
        return DialectError(
            f"line {getattr(node, 'lineno', 1)}: {shown!r} is not allowed; {ALLOWED}"
        )


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    return value is None or type(value) in (int, float, str, bool)


def _bounded(value: Any) -> Any:
    if type(value) in (int, float) and not abs(value) <= MAX_NUMBER:
        raise DialectError(f"a number beyond {MAX_NUMBER}")
    if type(value) is str and len(value) > MAX_LENGTH:
        raise DialectError(f"a text of more than {MAX_LENGTH} characters")
    return value


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= MAX_NUMBER:
        raise DialectError(f"PAUSE is {value!r} and not a number of seconds")
    return float(value)
