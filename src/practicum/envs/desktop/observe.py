"""What an agent is shown of a desktop: a picture, the accessibility tree as text, or both.

The tree is pruned to what is on the screen and either says something or can be used, one
numbered line each with role, name, states, text and the centre to click at; empty cells of a
sheet are not among them. Where lines or characters are cut, the text says how many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from practicum.core.message import Image, Observation
from practicum.desktops.computer import Computer, Node, Screen, Window
from practicum.envs.desktop.actions import Space, from_pixels

View = Literal["tree", "screenshot", "both"]
VIEWS: tuple[View, ...] = get_args(View)

MAX_LINES = 200
MAX_TEXT_CHARS = 300
MAX_FOCUSED_TEXT_CHARS = 3000
"""Of the element with the keyboard and of terminals: what is read and edited."""

SHOWN_STATES = ("focused", "checked", "selected", "expanded", "pressed")
SILENT_ROLES = frozenset(
    {"desktop frame", "application", "filler", "panel", "scroll pane", "split pane", "separator"}
    | {"section", "grouping", "redundant object", "layered pane", "viewport", "scroll bar"}
    | {"root pane", "tool bar", "menu bar", "unknown"}
)
"""Containers: their content speaks for them."""
EDITED_ROLES = frozenset({"text", "entry", "password text", "terminal", "spin button"})
"""Their text is what is in them, not what they are called."""
USABLE_ROLES = EDITED_ROLES | {
    *("push button", "toggle button", "check box", "radio button", "combo box", "slider", "link"),
    *("menu", "menu item", "check menu item", "radio menu item", "page tab"),
}
"""Worth a line even without a name."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element that is shown to the agent, or can be found by an oracle or a check."""

    role: str
    name: str
    text: str
    states: frozenset[str]
    centre: tuple[int, int]


def elements(root: Node, screen: Screen) -> list[Element]:
    """The elements of a tree that are on the screen and worth a line, in reading order."""
    found: list[Element] = []
    for node in walk(root):
        centre = _centre(node, screen)
        if centre is None:
            continue
        element = _element(node, centre)
        if _is_worth_a_line(element) and not (found and _repeats(element, found[-1])):
            found.append(element)
    return found


def _element(node: Node, centre: tuple[int, int]) -> Element:
    name, text = node.name.strip(), node.text.strip("\n")
    if not name and node.role not in EDITED_ROLES:
        name, text = text.strip(), ""
    if text.strip() == name:
        text = ""
    return Element(node.role, name, text, node.states, centre)


def _is_worth_a_line(element: Element) -> bool:
    if element.role in SILENT_ROLES:
        return False
    if element.role == "table cell" and _CELL.fullmatch(element.name):
        # Of a sheet's thousand cells, those that hold something and the one in use.
        return bool(element.text) or "focused" in element.states
    return bool(element.name or element.text) or element.role in USABLE_ROLES


def _repeats(element: Element, before: Element) -> bool:
    """Say whether a text is only what the element around it is called."""
    return element.role in ("static", "label") and element.name in (before.name, before.text)


_CELL = re.compile(r"[A-Z]{1,3}[0-9]{1,7}")


def walk(node: Node) -> Iterator[Node]:
    """Go through a tree, parents first."""
    yield node
    for child in node.children:
        yield from walk(child)


def _centre(node: Node, screen: Screen) -> tuple[int, int] | None:
    """The middle of the part of a node that is on the screen."""
    if node.box is None or "showing" not in node.states:
        return None
    x, y, width, height = node.box
    left, right = max(0, x), min(screen.width, x + width)
    top, bottom = max(0, y), min(screen.height, y + height)
    if right <= left or bottom <= top:
        return None
    return (left + right) // 2, (top + bottom) // 2


def describe_tree(root: Node, windows: Sequence[Window], space: Space, screen: Screen) -> str:
    """Write windows and elements as text."""
    lines = ["Windows, the topmost last:"] if windows else ["There is no window."]
    lines += [f"- {_quote(w.title)}{' (active)' if w.is_active else ''}" for w in windows]
    shown = elements(root, screen)
    if shown:
        lines.append("Elements:")
    lines += [_line(n, e, space, screen) for n, e in enumerate(shown[:MAX_LINES], start=1)]
    if len(shown) > MAX_LINES:
        lines.append(f"… and {len(shown) - MAX_LINES} elements more, not listed")
    return "\n".join(lines)


def _line(number: int, element: Element, space: Space, screen: Screen) -> str:
    x, y = from_pixels(*element.centre, space, screen)
    states = [state for state in SHOWN_STATES if state in element.states]
    name = f" {_quote(element.name)}" if element.name else ""
    said = f" {{{', '.join(states)}}}" if states else ""
    long = "focused" in element.states or element.role == "terminal"
    text = _cut(element.text, MAX_FOCUSED_TEXT_CHARS if long else MAX_TEXT_CHARS)
    content = f" = {_quote(text)}" if text else ""
    return f"[{number}] {element.role}{name} at {x:g} {y:g}{said}{content}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    # The end of a long text is where things happen: in a terminal, in a log, while typing.
    return f"(… {len(text) - limit} characters before) {text[-limit:]}"


_LINE = re.compile(
    r'^\[\d+\] (?P<role>[a-z][a-z ]*?)(?: (?P<name>"(?:[^"\\]|\\.)*"))?'
    r" at (?P<x>[\d.]+) (?P<y>[\d.]+)"
)


_WINDOW = re.compile(r'^- ("(?:[^"\\]|\\.)*")')


def find_shown(text: str, role: str, name: str, nth: int = 1) -> tuple[str, str] | None:
    """Find an element in the text an agent was shown; its coordinates as written, or None.

    A name that ends in `*` is the beginning of one.
    """
    seen = 0
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or match["role"] != role:
            continue
        has = json.loads(match["name"]) if match["name"] else ""
        if has == name or (name.endswith("*") and has.startswith(name[:-1])):
            seen += 1
            if seen == nth:
                return match["x"], match["y"]
    return None


def shown_windows(text: str) -> list[str]:
    """The titles of the windows in the text an agent was shown."""
    marks = (_WINDOW.match(line) for line in text.splitlines())
    return [json.loads(mark[1]) for mark in marks if mark]


async def observe(computer: Computer, view: View, space: Space, head: str) -> Observation:
    """Look at the desktop; `head` comes before what is seen."""
    images: tuple[Image, ...] = ()
    if view != "tree":
        images = (await computer.screenshot("png"),)
    if view == "screenshot":
        return Observation(head, images)
    tree = await computer.accessibility()
    seen = describe_tree(tree, await computer.windows(), space, computer.screen)
    # The home folder's real place is another in every episode and of no use to anyone.
    seen = seen.replace(str(computer.home), "~")
    return Observation(f"{head}\n\n{seen}", images)
