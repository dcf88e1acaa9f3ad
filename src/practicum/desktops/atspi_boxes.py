"""Puts right what LibreOffice tells wrongly about where things are.

Its own widgets leave out the height of the menu bar, and it tells of a second menu bar that
nobody sees. GTK's widgets among them are right. Where a version of it has none of that, nothing
is changed.
"""

from __future__ import annotations

from dataclasses import replace

from practicum.desktops.computer import Node

_Shift = tuple[int, int]
_NONE: _Shift = (0, 0)


def straighten(node: Node, shift: _Shift = _NONE) -> Node:
    """Move what is in the wrong place, and leave out what is not there."""
    children = []
    for child in node.children:
        if child.role == "menu bar" and child.box is None:
            continue
        children.append(straighten(child, _shift_of(child, node, shift)))
    box = node.box
    if box is not None and shift != _NONE:
        box = (box[0] + shift[0], box[1] + shift[1], box[2], box[3])
    return replace(node, box=box, children=tuple(children))


def _shift_of(child: Node, parent: Node, shift: _Shift) -> _Shift:
    """How far a child is from where it says that it is, when its parent is off by `shift`."""
    if child.box is None or parent.box is None:
        return shift
    apart = (parent.box[0] - child.box[0], parent.box[1] - child.box[1])
    if child.role == "root pane" and child.box[2:] == parent.box[2:]:
        return apart  # it fills its parent, so it is where its parent is
    fills = child.box[2] == parent.box[2] and abs(child.box[3] - parent.box[3]) <= 1
    if shift != _NONE and fills and apart == (-shift[0], -shift[1]):
        return _NONE  # fills its parent and knows where it is: one of GTK's
    return shift
