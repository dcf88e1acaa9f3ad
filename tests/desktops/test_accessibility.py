from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from desktops.machines import click, desktop, require_desktop, until, window_of

from practicum.core.errors import MachineError
from practicum.desktops import atspi
from practicum.desktops.apps import APPS, BROWSER, CALC, EDITOR, App
from practicum.desktops.computer import Computer, Key, Node, Screen, Text


def every(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from every(child)


async def find(computer: Computer, limit_s: float = 30, **wanted: Any) -> Node:
    """Wait for a node with these fields."""

    async def look() -> Node | None:
        tree = await computer.accessibility()
        for node in every(tree):
            if all(getattr(node, key) == value for key, value in wanted.items()):
                return node
        return None

    node = await until(look, limit_s)
    assert isinstance(node, Node)
    return node


def middle(node: Node) -> tuple[int, int]:
    assert node.box is not None
    x, y, width, height = node.box
    return x + width // 2, y + height // 2


async def open_app(computer: Computer, app: App, *arguments: str) -> None:
    await computer.launch(app.argv(*arguments))
    await window_of(computer, app.class_name, limit_s=60)
    await computer.settle()


@pytest.mark.parametrize("app", APPS.values(), ids=APPS)
async def test_every_application_opens_a_window(app: App) -> None:
    require_desktop(app.command[0])
    async with desktop(Screen(1280, 800)) as machine:
        await open_app(machine.computer, app)
        if app.name != "terminal":  # xterm tells nothing

            async def tells() -> list[str]:
                tree = await machine.computer.accessibility()
                return [frame.role for found in tree.children for frame in found.children]

            assert "frame" in await until(tells, 60)


async def test_the_tree_tells_what_was_typed_and_where_menus_are() -> None:
    require_desktop("mousepad")
    async with desktop() as machine:
        computer = machine.computer
        await open_app(computer, EDITOR)
        await computer.perform([Text("Grüße <you>")])
        text = await find(computer, role="text", text="Grüße <you>")
        assert {"focused", "editable", "showing"} <= text.states
        menu = await find(computer, role="menu", name="File")
        await computer.perform(click(*middle(menu)))
        item = await find(computer, role="menu item", name="Save As...")
        assert item.box is not None and item.box[1] > middle(menu)[1]
        await computer.perform([Key("escape"), Key("escape", False)])

        async def is_closed() -> bool:
            tree = await computer.accessibility()
            return all(node.name != "Save As..." for node in every(tree))

        await until(is_closed)


async def test_a_web_page_is_in_the_tree_and_changes_with_it() -> None:
    require_desktop("chromium")
    page = "<title>T{0}</title><h1>Number {0}</h1><a href='two.html'>onwards</a><input value='v'>"
    async with desktop(Screen(1280, 800)) as machine:
        computer = machine.computer
        await computer.write_file("~/one.html", page.format(1).encode())
        await computer.write_file("~/two.html", page.format(2).encode())
        await open_app(computer, BROWSER, f"file://{computer.home}/one.html")
        await find(computer, role="heading", name="Number 1")
        link = await find(computer, role="link", name="onwards")
        await computer.perform(click(*middle(link)))
        await find(computer, role="heading", name="Number 2")
        bar = await find(computer, role="entry", name="Address and search bar")
        assert bar.text.endswith("two.html")


async def test_cells_of_a_sheet_have_names_texts_and_places() -> None:
    require_desktop("libreoffice")
    async with desktop(Screen(1280, 800)) as machine:
        computer = machine.computer
        await computer.write_file("~/a.csv", b"one,two\n3,4\n")
        await open_app(computer, CALC, "--infilter=CSV:44,34,76,1", "a.csv")
        cell = await find(computer, limit_s=60, role="table cell", name="B2")
        assert (cell.text, cell.value) == ("4", 4.0)
        await computer.settle(quiet_s=1, timeout_s=20)
        empty = await find(computer, role="table cell", name="C3")
        await computer.perform(click(*middle(empty)))
        await find(computer, role="table cell", name="C3", states=empty.states | {"focused"})
        await computer.perform([Text("=B2*10\n")])
        assert (await find(computer, role="table cell", name="C3", text="40")).value == 40.0


async def test_an_application_that_does_not_answer_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_desktop("mousepad", "pcmanfm")
    async with desktop() as machine:
        computer = machine.computer
        await open_app(computer, APPS["files"])
        await open_app(computer, EDITOR)
        await find(computer, role="application", name="mousepad")
        await computer.run(["pkill", "-STOP", "-x", "mousepad"])
        monkeypatch.setattr(atspi, "APP_LIMIT_S", 1.0)
        tree = await computer.accessibility()
        assert [app.name for app in tree.children] == ["pcmanfm"]
        assert tree.attributes[atspi.UNANSWERED] == "mousepad"


async def test_a_dead_bus_is_a_named_fault() -> None:
    async with desktop() as machine:
        assert (await machine.computer.accessibility()).role == "desktop frame"
        await machine.computer.run(["pkill", "-KILL", "-x", "dbus-daemon"])
        with pytest.raises(MachineError) as caught:
            await machine.computer.accessibility()
        assert caught.value.kind == "accessibility"
