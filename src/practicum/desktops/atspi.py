"""What applications show, read over D-Bus from AT-SPI, the accessibility bus of a desktop.

An application tells its whole tree in one answer, from a cache that it fills once somebody
listens; so somebody does, from the start. What is not on the screen is left out, and so is an
application that does not answer in time: its name is then in the top node's attributes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus
from dbus_fast.errors import DBusError

from practicum.core.errors import MachineError
from practicum.desktops.atspi_boxes import straighten
from practicum.desktops.atspi_names import role_name, state_names
from practicum.desktops.computer import Node, Screen

APP_LIMIT_S = 8.0
"""How long one application may take to answer everything."""
MAX_NODES = 6000
MAX_DEPTH = 80
MAX_WIDTH = 1024
"""More children than that are not asked for; of a table, the cells on the screen are."""
MAX_CELLS = 2000
MAX_TEXT = 20_000
UNANSWERED = "unanswered"
"""The top node's attribute with the applications that did not answer."""

_CALLS_AT_ONCE = 200
_CALL_LIMIT_S = 5.0
_ROOT = "/org/a11y/atspi/accessible/root"
_REGISTRY = "org.a11y.atspi.Registry"
_ATSPI = "org.a11y.atspi."
_SCREEN_COORDINATES = 0
_APPLICATION, _TABLE_CELL = 75, 56
# Any event that never comes: it is the listening that makes applications fill their caches.
_SILENT_EVENT = "window:desktop-create"

T = TypeVar("T")


class _Ref(NamedTuple):
    """An object: who has it, and where."""

    owner: str
    path: str


@dataclass(slots=True)
class _Item:
    """One object as an application describes it."""

    ref: _Ref
    parent: _Ref
    index: int
    num_children: int
    """-1 if it did not say."""
    interfaces: frozenset[str]
    name: str
    role: int
    description: str
    states: frozenset[str]
    told: dict[str, str] | None = None
    """Its attributes, if it told them already."""
    children: list[_Item] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    """Attributes that we add."""


class Accessibility:
    """A client of one desktop's accessibility bus."""

    def __init__(
        self,
        address: str,
        screen: Screen,
        here: Callable[[str], str],
        program: Callable[[int], Awaitable[str]],
    ) -> None:
        self._address = address
        """Of the session's bus, as programs on the desktop know it."""
        self._screen = screen
        self._here = here
        """Turns such an address into one that we reach."""
        self._program = program
        """Names the program behind a process id."""
        self._bus: MessageBus | None = None
        self._watch: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[MessageBus] | None = None

    def begin(self) -> None:
        """Have the bus started, and listen to it from now on."""
        self._starting = asyncio.create_task(self._connect())
        # Whoever wants the tree sees a failure; if nobody does, it is none.
        self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def tree(self) -> Node:
        """The tree of what is shown, a `desktop frame` on top."""
        if self._starting is None:
            raise MachineError("the desktop is down", kind="down")
        try:
            async with asyncio.timeout(_CALL_LIMIT_S):
                bus = await asyncio.shield(self._starting)
            if not bus.connected:
                raise EOFError
            reader = _Reader(bus, self._screen)
            apps = await reader.children_of(_Ref(_REGISTRY, _ROOT))
        except (OSError, EOFError, TimeoutError, DBusError, _RefusedError) as error:
            raise MachineError(
                f"the accessibility bus does not answer: {type(error).__name__} {error}",
                kind="accessibility",
            ) from error
        found = await asyncio.gather(*(self._application(reader, app) for app in apps))
        silent = [name for name in found if isinstance(name, str)]
        width, height = self._screen.width, self._screen.height
        return Node(
            role="desktop frame",
            name="main",
            box=(0, 0, width, height),
            attributes={UNANSWERED: ", ".join(sorted(silent))} if silent else {},
            children=tuple(node for node in found if isinstance(node, Node)),
        )

    async def _application(self, reader: _Reader, app: _Ref) -> Node | str | None:
        """An application's tree; its name if it does not answer, None if it is gone."""
        try:
            async with asyncio.timeout(APP_LIMIT_S):
                return await reader.application(app)
        except TimeoutError:
            pid = await reader.pid_of(app.owner)
            return await self._program(pid) if pid is not None else f"connection {app.owner}"
        except _RefusedError:
            return None
        except (OSError, EOFError) as error:
            raise MachineError("the accessibility bus is gone", kind="accessibility") from error

    async def _connect(self) -> MessageBus:
        session = await MessageBus(bus_address=self._here(self._address)).connect()
        try:
            call = Message("org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus", "GetAddress")
            [address] = _body(await session.call(call))
        finally:
            _hang_up(session)
            await _until_closed(session)
        bus = await MessageBus(bus_address=self._here(address)).connect()
        self._bus = bus
        self._watch = asyncio.create_task(_until_closed(bus))
        listen = Message(
            *(_REGISTRY, "/org/a11y/atspi/registry", _REGISTRY, "RegisterEvent"),
            signature="s",
            body=[_SILENT_EVENT],
        )
        _body(await bus.call(listen))
        return bus

    async def close(self) -> None:
        """Hang up."""
        for task in (self._starting, self._watch):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
        self._starting = None
        if self._bus is not None:
            _hang_up(self._bus)


class _RefusedError(Exception):
    """An object or method that there is not (any more)."""


class _Reader:
    """Reads one tree."""

    def __init__(self, bus: MessageBus, screen: Screen) -> None:
        self._bus = bus
        self._screen = screen
        self._slots = asyncio.Semaphore(_CALLS_AT_ONCE)
        self._num_nodes = 0

    async def call(
        self, ref: _Ref, interface: str, member: str, signature: str = "", *body: Any
    ) -> Any:
        """Call a method; what it gives back if that is one thing."""
        message = Message(
            *(ref.owner, ref.path, interface, member), signature=signature, body=list(body)
        )
        async with self._slots:
            reply = _body(await self._bus.call(message))
        return reply[0] if len(reply) == 1 else reply

    async def prop(self, ref: _Ref, interface: str, name: str) -> Any:
        """The value of a property."""
        variant = await self.call(
            ref, "org.freedesktop.DBus.Properties", "Get", "ss", _ATSPI + interface, name
        )
        return variant.value

    async def children_of(self, ref: _Ref) -> list[_Ref]:
        """All children of an object."""
        return [
            _Ref(*child) for child in await self.call(ref, _ATSPI + "Accessible", "GetChildren")
        ]

    async def pid_of(self, owner: str) -> int | None:
        """The process behind a name on the bus."""
        bus = _Ref("org.freedesktop.DBus", "/org/freedesktop/DBus")
        with contextlib.suppress(TimeoutError, _RefusedError):
            async with asyncio.timeout(_CALL_LIMIT_S):
                pid: int = await self.call(bus, bus.owner, "GetConnectionUnixProcessID", "s", owner)
                return pid
        return None

    async def application(self, app: _Ref) -> Node:
        """The tree of one application."""
        cache = _Ref(app.owner, "/org/a11y/atspi/cache")
        known: dict[_Ref, _Item] = {}
        with contextlib.suppress(_RefusedError):  # a toolkit without one is asked step by step
            for row in await self.call(cache, _ATSPI + "Cache", "GetItems"):
                item = _item_of(row)
                known[item.ref] = item
        top = known.get(app) or await self._describe(app, app)
        await self._find_shown(top, known)
        return straighten(await self._finish(top))

    async def _find_shown(self, top: _Item, known: dict[_Ref, _Item]) -> None:
        """Fill in the children that are on the screen, level by level."""
        below: dict[_Ref, list[_Item]] = {}
        for item in known.values():
            if item is not top:
                below.setdefault(item.parent, []).append(item)
        front = [top]
        for _ in range(MAX_DEPTH):
            lists = await _all(
                self._children(item, below.get(item.ref, []), known) for item in front
            )
            following = []
            for item, children in zip(front, lists, strict=True):
                item.children = [child for child in children if _is_shown(child, item)]
                following += item.children
            self._num_nodes += len(following)
            if not following:
                return
            if self._num_nodes > MAX_NODES:
                break
            front = following
        for item in front:
            item.notes["left-out"] = "what is below: the tree is too big"

    async def _children(
        self, item: _Item, cached: list[_Item], known: dict[_Ref, _Item]
    ) -> list[_Item]:
        if item.num_children == 0 and not cached:
            return []
        if len(cached) == item.num_children and all(child.index >= 0 for child in cached):
            return sorted(cached, key=lambda child: child.index)
        try:
            count = item.num_children
            if count < 0:
                count = await self.prop(item.ref, "Accessible", "ChildCount")
            if count > MAX_WIDTH:
                return await self._cells(item, count)
            refs = await self.children_of(item.ref)
        except _RefusedError:
            return []
        found = await _all(self._look_up(ref, item.ref, known) for ref in refs)
        return [child for child in found if child is not None]

    async def _look_up(self, ref: _Ref, parent: _Ref, known: dict[_Ref, _Item]) -> _Item | None:
        if ref in known:
            return known[ref]
        try:
            return await self._describe(ref, parent)
        except _RefusedError:
            return None

    async def _describe(self, ref: _Ref, parent: _Ref, like: _Item | None = None) -> _Item:
        """Ask for what a cache would have told; not for what it has in common with another."""
        accessible = _ATSPI + "Accessible"
        if like is None:
            role, interfaces = await asyncio.gather(
                self.call(ref, accessible, "GetRole"), self.call(ref, accessible, "GetInterfaces")
            )
        else:
            role, interfaces = like.role, like.interfaces
        told, states = await asyncio.gather(
            self.call(ref, "org.freedesktop.DBus.Properties", "GetAll", "s", accessible),
            self.call(ref, accessible, "GetState"),
        )
        return _Item(
            *(ref, parent, 0, told["ChildCount"].value, frozenset(interfaces)),
            *(told["Name"].value, role, told["Description"].value, state_names(states)),
            told=dict(told["Attributes"].value) if "Attributes" in told else None,
        )

    async def _cells(self, table: _Item, count: int) -> list[_Item]:
        """The cells of a big table that are on the screen."""
        if _ATSPI + "Table" not in table.interfaces:
            table.notes["left-out"] = f"{count} children"
            return []
        x, y, width, height = await self.call(
            table.ref, _ATSPI + "Component", "GetExtents", "u", _SCREEN_COORDINATES
        )
        left, top = max(x, 0), max(y, 0)
        right = min(x + width, self._screen.width) - 1
        bottom = min(y + height, self._screen.height) - 1
        first = await self._cell_at(table, left + 2, top + 2)
        last = await self._cell_at(table, right - 2, bottom - 2)
        if first is None or last is None:
            table.notes["left-out"] = f"{count} cells"
            return []
        places = [
            (row, column)
            for row in range(first[0], last[0] + 1)
            for column in range(first[1], last[1] + 1)
        ]
        if len(places) > MAX_CELLS:
            table.notes["left-out"] = f"{len(places) - MAX_CELLS} cells on the screen"
        cell = await self._cell(table, *places[0])
        rest = (self._cell(table, *place, like=cell) for place in places[1:MAX_CELLS])
        return [cell, *await _all(rest)]

    async def _cell(self, table: _Item, row: int, column: int, like: _Item | None = None) -> _Item:
        ref = await self.call(table.ref, _ATSPI + "Table", "GetAccessibleAt", "ii", row, column)
        return await self._describe(_Ref(*ref), table.ref, like)

    async def _cell_at(self, table: _Item, x: int, y: int) -> tuple[int, int] | None:
        """Row and column of the cell under a point."""
        cell = _Ref(
            *await self.call(
                table.ref,
                *(_ATSPI + "Component", "GetAccessibleAtPoint", "iiu", x, y, _SCREEN_COORDINATES),
            )
        )
        if cell.path.endswith("/null"):
            return None
        index = await self.call(cell, _ATSPI + "Accessible", "GetIndexInParent")
        if index < 0:
            return None
        row, column = await _all(
            self.call(table.ref, _ATSPI + "Table", member, "i", index)
            for member in ("GetRowAtIndex", "GetColumnAtIndex")
        )
        return row, column

    async def _finish(self, item: _Item) -> Node:
        """Turn an item into a node, with what only the object itself can tell."""
        box, (text, value), actions, attributes, children = await asyncio.gather(
            self._box(item),
            self._content(item),
            self._actions(item),
            self._attributes(item),
            _all(self._finish(child) for child in item.children),
        )
        if item.description:
            attributes = {"description": item.description, **attributes}
        return Node(
            role=role_name(item.role),
            name=item.name.strip(),  # some pad it to make room for a shortcut
            text=text,
            value=value,
            states=item.states,
            box=box,
            actions=actions,
            attributes={**attributes, **item.notes},
            children=tuple(children),
        )

    async def _box(self, item: _Item) -> tuple[int, int, int, int] | None:
        if _ATSPI + "Component" not in item.interfaces:
            return None
        with contextlib.suppress(_RefusedError):
            x, y, width, height = await self.call(
                item.ref, _ATSPI + "Component", "GetExtents", "u", _SCREEN_COORDINATES
            )
            return (x, y, width, height) if width > 0 and height > 0 else None
        return None

    async def _content(self, item: _Item) -> tuple[str, float | None]:
        text = await self._text(item)
        if item.role == _TABLE_CELL and not text:
            return "", None  # a sheet has hundreds of empty cells, each with the value zero
        return text, await self._value(item)

    async def _text(self, item: _Item) -> str:
        if _ATSPI + "Text" not in item.interfaces:
            return ""
        with contextlib.suppress(_RefusedError):
            length = await self.prop(item.ref, "Text", "CharacterCount")
            if length > 0:
                text: str = await self.call(
                    item.ref, _ATSPI + "Text", "GetText", "ii", 0, min(length, MAX_TEXT)
                )
                if length > MAX_TEXT:
                    item.notes["left-out"] = f"{length - MAX_TEXT} characters of the text"
                # They stand for embedded objects, which are nodes of their own.
                return text.replace("\ufffc", "").replace("\ufffd", "")
        return ""

    async def _value(self, item: _Item) -> float | None:
        if _ATSPI + "Value" not in item.interfaces:
            return None
        with contextlib.suppress(_RefusedError):
            return float(await self.prop(item.ref, "Value", "CurrentValue"))
        return None

    async def _actions(self, item: _Item) -> tuple[str, ...]:
        if _ATSPI + "Action" not in item.interfaces:
            return ()
        with contextlib.suppress(_RefusedError):
            rows = await self.call(item.ref, _ATSPI + "Action", "GetActions")
            return tuple(row[0] for row in rows if row[0])
        return ()

    async def _attributes(self, item: _Item) -> dict[str, str]:
        if item.told is not None:
            return item.told
        with contextlib.suppress(_RefusedError):
            return dict(await self.call(item.ref, _ATSPI + "Accessible", "GetAttributes"))
        return {}


def _item_of(row: Sequence[Any]) -> _Item:
    ref, _, parent, index, count, interfaces, name, role, description, states = row
    return _Item(
        *(_Ref(*ref), _Ref(*parent), index, count, frozenset(interfaces), name, role, description),
        states=state_names(states),
    )


def _is_shown(item: _Item, parent: _Item) -> bool:
    # Windows are kept whatever they say: some toolkits forget to mark them.
    return "showing" in item.states or parent.role == _APPLICATION


def _body(reply: Message | None) -> list[Any]:
    if reply is None or reply.message_type is not MessageType.METHOD_RETURN:
        raise _RefusedError(str(reply.body[:1] if reply else ""))
    return reply.body


async def _all(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    return list(await asyncio.gather(*jobs))


async def _until_closed(bus: MessageBus) -> None:
    # The bus goes when the desktop does; that is no news.
    with contextlib.suppress(OSError, EOFError):
        await bus.wait_for_disconnect()


def _hang_up(bus: MessageBus) -> None:
    if bus.connected:
        bus.disconnect()
