"""The accessibility tree as OSWorld's XML, written and read.

A node's role is its tag, with `-` for spaces; its name an attribute; its text the element's. The
rest is in namespaces that evaluators and agents know by URI. Windows Agent Arena uses the same
form with older URIs, so a namespace is known by a word in its URI when it is read.
"""

from __future__ import annotations

import ast
import re
import xml.etree.ElementTree as ET

from practicum.desktops.computer import Node

_NS = "https://accessibility.ubuntu.example.org/ns/"
NAMESPACES = {
    "st": f"{_NS}state",
    "attr": f"{_NS}attributes",
    "cp": f"{_NS}component",
    "doc": f"{_NS}document",
    "docattr": f"{_NS}document/attributes",
    "txt": f"{_NS}text",
    "val": f"{_NS}value",
    "act": f"{_NS}action",
}
MAX_DEPTH = 200

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_A_NAME = re.compile(r"[^\w.-]")
_EMBEDDED = str.maketrans("", "", "\ufffc\ufffd")
"""Marks of embedded objects in a text; OSWorld drops them too."""
_TRUE = "true"

for _prefix, _uri in NAMESPACES.items():
    ET.register_namespace(_prefix, _uri)


def write(node: Node) -> str:
    """Write a tree."""
    return ET.tostring(_element(node), encoding="unicode")


def read(text: str) -> Node:
    """Read a tree; what is not one is a `ValueError`."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise ValueError(f"not XML: {error}") from error
    return _node(root, 0)


def _element(node: Node) -> ET.Element:
    element = ET.Element(_name(node.role or "unknown"), {"name": _text(node.name)})
    for state in sorted(node.states):
        element.set(_key("st", state.replace(" ", "_").replace("-", "_")), _TRUE)
    for key, value in node.attributes.items():
        if key in ("image", "selection"):
            element.set(key, _text(value))
        else:
            element.set(_key("attr", key), _text(value))
    if node.box is not None and {"showing", "visible"} <= node.states:
        x, y, width, height = node.box
        element.set(_key("cp", "screencoord"), f"({x}, {y})")
        element.set(_key("cp", "size"), f"({width}, {height})")
    if node.value is not None:
        element.set(_key("val", "value"), str(node.value))
    for action in node.actions:
        element.set(_key("act", f"{action}_desc"), "")
        element.set(_key("act", f"{action}_kb"), "")
    if text := _text(node.text.translate(_EMBEDDED)):
        element.text = text
    element.extend(_element(child) for child in node.children)
    return element


def _key(prefix: str, name: str) -> str:
    return f"{{{NAMESPACES[prefix]}}}{_name(name)}"


def _name(name: str) -> str:
    """Make an XML name; a first character that cannot begin one gets `_` in front."""
    plain = _NOT_A_NAME.sub("-", name) or "unknown"
    return plain if plain[0].isalpha() or plain[0] == "_" else f"_{plain}"


def _text(text: str) -> str:
    return _NOT_XML.sub("", text)


def _node(element: ET.Element, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise ValueError(f"a tree of more than {MAX_DEPTH} levels")
    states, attributes, actions = set(), {}, []
    value: float | None = None
    component: dict[str, str] = {}
    for key, content in element.attrib.items():
        uri, _, name = key.rpartition("}")
        if not uri:
            if name != "name":
                attributes[name] = content
        elif "document" in uri:
            attributes[name] = content
        elif "state" in uri:
            if content == _TRUE:
                states.add(name.replace("_", "-"))
        elif "component" in uri:
            component[name] = content
        elif "attributes" in uri:
            attributes[name] = content
        elif "value" in uri:
            if name == "value":
                value = _number(content)
        elif "action" in uri and name.endswith("_desc"):
            actions.append(name.removesuffix("_desc"))
    return Node(
        role=element.tag.rpartition("}")[2].replace("-", " "),
        name=element.get("name", ""),
        text=element.text or "",
        value=value,
        states=frozenset(states),
        box=_box(component),
        actions=tuple(actions),
        attributes=attributes,
        children=tuple(_node(child, depth + 1) for child in element),
    )


def _box(component: dict[str, str]) -> tuple[int, int, int, int] | None:
    try:
        x, y = ast.literal_eval(component["screencoord"])
        width, height = ast.literal_eval(component["size"])
        return int(x), int(y), int(width), int(height)
    except (KeyError, ValueError, TypeError, SyntaxError):
        return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
