"""A client of one X server: pointer, keyboard, windows.

Calls block, for well under a millisecond as a rule; `xvfb` makes them in a thread of its own,
one at a time.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import xcffib
import xcffib.damage
import xcffib.xfixes
import xcffib.xproto
import xcffib.xtest
from xcffib.ffi import ffi

from practicum.desktops import keys
from practicum.desktops.computer import Button, Key, Move, Press, Screen, Scroll, Text, Window
from practicum.desktops.frames import Cursor

_KEY_PRESS, _KEY_RELEASE, _BUTTON_PRESS, _BUTTON_RELEASE, _MOTION = 2, 3, 4, 5, 6
_BUTTONS: dict[Button, int] = {"left": 1, "middle": 2, "right": 3}
_WHEEL_UP, _WHEEL_DOWN, _WHEEL_LEFT, _WHEEL_RIGHT = 4, 5, 6, 7
_AUTH = "MIT-MAGIC-COOKIE-1"
_CONNECT_LIMIT_S = _MANAGER_LIMIT_S = 10.0
_ACTIVATE_LIMIT_S = 1.0
_PROBE_S = 0.01
_VENDOR_KEYSYMS = 0x1008
_REACT_LIMIT_S, _QUIET_S = 3.0, 0.3

XInput = Move | Press | Key | Text | Scroll
XError = (xcffib.XcffibException, OSError)
"""What a broken or closed connection raises."""


def authority(cookie: bytes) -> bytes:
    """An Xauthority file with one cookie, good for whatever display."""
    family_wild = 0xFFFF
    parts = [b"", b"", _AUTH.encode(), cookie]
    return struct.pack(">H", family_wild) + b"".join(
        struct.pack(">H", len(part)) + part for part in parts
    )


class XClient:
    """One connection to an X server."""

    def __init__(self, socket_path: str, cookie: bytes) -> None:
        self._x: Any = _connect(socket_path, cookie)
        self._test = self._x(xcffib.xtest.key)
        self._fixes = self._x(xcffib.xfixes.key)
        self._fixes.QueryVersion(5, 0).reply()
        self._damage = self._x(xcffib.damage.key)
        self._damage.QueryVersion(1, 1).reply()
        setup = self._x.get_setup()
        self._root = setup.roots[0].root
        self.screen = Screen(setup.roots[0].width_in_pixels, setup.roots[0].height_in_pixels)
        self._keyboard = _Keyboard(self._x, self._await_reaction)
        self._atoms: dict[str, int] = {}
        # The server would draw the pointer into the picture, at any moment or not at all; so it
        # is hidden from the picture, and drawn where it is wanted.
        self._fixes.HideCursor(self._root)
        self._drawing = self._x.generate_id()
        self._num_drawings = 0
        self._damage.Create(self._drawing, self._root, xcffib.damage.ReportLevel.NonEmpty)
        self.sync()

    def close(self) -> None:
        """Hang up."""
        self._x.disconnect()

    def sync(self) -> None:
        """Wait until the server has done all that was asked."""
        self._x.core.GetInputFocus().reply()

    def paint_root(self, colour: int) -> None:
        """Give the desktop a background."""
        self._x.core.ChangeWindowAttributes(self._root, xcffib.xproto.CW.BackPixel, [colour])
        self._x.core.ClearArea(False, self._root, 0, 0, 0, 0)
        self.sync()

    def has_window_manager(self) -> bool:
        """Whether a window manager runs."""
        return bool(self._longs(self._root, "_NET_SUPPORTING_WM_CHECK"))

    def await_window_manager(self) -> None:
        """Wait until a window manager takes care of new windows."""
        _await(self.has_window_manager)
        # It says that it runs before it does, and loses what programs ask of it in between; they
        # wait five seconds for an answer. A window of our own shows when it really runs.
        window, depth_of_parent, visual_of_parent = self._x.generate_id(), 0, 0
        self._x.core.CreateWindow(
            *(depth_of_parent, window, self._root, 0, 0, 1, 1, 0),
            *(xcffib.xproto.WindowClass.InputOutput, visual_of_parent, 0, []),
        )

        def is_managed() -> bool:
            self._x.core.UnmapWindow(window)
            self._x.core.MapWindow(window)
            time.sleep(_PROBE_S)
            return bool(self._longs(window, "WM_STATE"))

        _await(is_managed)
        self._x.core.DestroyWindow(window)
        _await(lambda: not self._longs(self._root, "_NET_CLIENT_LIST_STACKING"))

    def perform(self, inputs: Sequence[XInput]) -> None:
        """Use pointer and keyboard."""
        for item in inputs:
            match item:
                case Move(x, y):
                    self._test.FakeInput(_MOTION, 0, 0, self._root, x, y, 0)
                case Press(button, is_down):
                    kind = _BUTTON_PRESS if is_down else _BUTTON_RELEASE
                    self._fake(kind, _BUTTONS[button])
                case Scroll(up, right):
                    self._turn(_WHEEL_UP if up > 0 else _WHEEL_DOWN, abs(up))
                    self._turn(_WHEEL_RIGHT if right > 0 else _WHEEL_LEFT, abs(right))
                case Key(name, is_down):
                    self._key(keys.keysym_of(name), is_down)
                case Text(text):
                    self._type(text)
        self.sync()

    def _fake(self, kind: int, detail: int) -> None:
        self._test.FakeInput(kind, detail, 0, self._root, 0, 0, 0)

    def _turn(self, button: int, count: int) -> None:
        for _ in range(count):
            self._fake(_BUTTON_PRESS, button)
            self._fake(_BUTTON_RELEASE, button)

    def _key(self, keysym: int, is_down: bool) -> None:
        code, is_shifted = self._keyboard.place(keysym)
        shift, _ = self._keyboard.place(keys.SHIFT)
        if is_shifted and is_down:
            self._fake(_KEY_PRESS, shift)
        self._fake(_KEY_PRESS if is_down else _KEY_RELEASE, code)
        if is_shifted and is_down:
            self._fake(_KEY_RELEASE, shift)

    def _type(self, text: str) -> None:
        keysyms = [keys.keysym_of_character(character) for character in text]
        shift, _ = self._keyboard.place(keys.SHIFT)
        for part in self._keyboard.parts(keysyms):
            for keysym in part:
                code, is_shifted = self._keyboard.place(keysym)
                if is_shifted:
                    self._fake(_KEY_PRESS, shift)
                self._fake(_KEY_PRESS, code)
                self._fake(_KEY_RELEASE, code)
                if is_shifted:
                    self._fake(_KEY_RELEASE, shift)
            self.sync()

    def count_drawings(self) -> int:
        """A number that is a new one whenever something was drawn since the last call."""
        self.sync()
        is_drawn = False
        while (event := self._x.poll_for_event()) is not None:
            is_drawn |= isinstance(event, xcffib.damage.NotifyEvent)
        if is_drawn:
            self._num_drawings += 1
            self._damage.Subtract(self._drawing, 0, 0)
        return self._num_drawings

    def _await_reaction(self) -> None:
        """Wait until programs have read the keys typed: they draw then, and are quiet again."""
        end_s = time.monotonic() + _REACT_LIMIT_S
        count = first = self.count_drawings()
        quiet_since_s = time.monotonic()
        while time.monotonic() < end_s:
            time.sleep(_PROBE_S)
            if (now := self.count_drawings()) != count:
                count, quiet_since_s = now, time.monotonic()
            elif count != first and time.monotonic() - quiet_since_s > _QUIET_S:
                return

    def pointer(self) -> tuple[int, int]:
        """Where the pointer is."""
        reply = self._x.core.QueryPointer(self._root).reply()
        return reply.root_x, reply.root_y

    def cursor(self) -> Cursor:
        """What the pointer looks like."""
        reply = self._fixes.GetCursorImage().reply()
        pixels = np.array(reply.cursor_image, "<u4").view(np.uint8)
        return Cursor(
            reply.x - reply.xhot,
            reply.y - reply.yhot,
            pixels.reshape(reply.height, reply.width, 4),
        )

    def clipboard_owner(self) -> int:
        """The window that serves the clipboard; 0 if none does."""
        owner: int = self._x.core.GetSelectionOwner(self._atom("CLIPBOARD")).reply().owner
        return owner

    def windows(self) -> list[Window]:
        """The window manager's windows, the topmost last."""
        active = next(iter(self._longs(self._root, "_NET_ACTIVE_WINDOW")), 0)
        found = []
        for window in self._longs(self._root, "_NET_CLIENT_LIST_STACKING"):
            try:
                found.append(self._window(window, is_active=window == active))
            except xcffib.xproto.WindowError:
                continue  # closed while we looked
        return found

    def _window(self, window: int, *, is_active: bool) -> Window:
        size = self._x.core.GetGeometry(window)
        corner = self._x.core.TranslateCoordinates(window, self._root, 0, 0)
        title = self._text(window, "_NET_WM_NAME") or self._text(window, "WM_NAME")
        names = self._text(window, "WM_CLASS").split("\0")
        at, extent = corner.reply(), size.reply()
        return Window(
            id=f"0x{window:08x}",
            title=title,
            class_name=".".join(name for name in names if name),
            x=at.dst_x,
            y=at.dst_y,
            width=extent.width,
            height=extent.height,
            is_active=is_active,
        )

    def activate(self, window_id: str) -> None:
        """Have the window manager raise a window and give it the keyboard.

        What is typed next must not reach another window, so this waits until it was done. Not
        for ever: if the window shows a dialog, that one gets the keyboard.
        """
        now, source_is_pager = 0, 2
        window = self._known(window_id)
        self._tell("_NET_ACTIVE_WINDOW", window, [source_is_pager, now, 0, 0, 0])
        end_s = time.monotonic() + _ACTIVATE_LIMIT_S
        while window not in self._longs(self._root, "_NET_ACTIVE_WINDOW"):
            if time.monotonic() > end_s:
                return
            time.sleep(0.002)

    def close_window(self, window_id: str) -> None:
        """Ask a window to close."""
        self._tell("_NET_CLOSE_WINDOW", self._known(window_id), [0, 2, 0, 0, 0])

    def _known(self, window_id: str) -> int:
        try:
            window = int(window_id, 0)
        except ValueError:
            window = -1
        if window not in self._longs(self._root, "_NET_CLIENT_LIST_STACKING"):
            raise ValueError(f"there is no window {window_id!r}")
        return window

    def _tell(self, message: str, window: int, data: list[int]) -> None:
        event = struct.pack("<BBHII5I", 33, 32, 0, window, self._atom(message), *data)
        mask = (
            xcffib.xproto.EventMask.SubstructureNotify
            | xcffib.xproto.EventMask.SubstructureRedirect
        )
        self._x.core.SendEvent(False, self._root, mask, event)
        self.sync()

    def _atom(self, name: str) -> int:
        if name not in self._atoms:
            reply = self._x.core.InternAtom(False, len(name), name).reply()
            self._atoms[name] = reply.atom
        return self._atoms[name]

    def _property(self, window: int, name: str) -> Any:
        everything = 1 << 20
        return self._x.core.GetProperty(
            False, window, self._atom(name), xcffib.xproto.Atom.Any, 0, everything
        ).reply()

    def _longs(self, window: int, name: str) -> list[int]:
        reply = self._property(window, name)
        return list(reply.value.to_atoms()) if reply.value_len else []

    def _text(self, window: int, name: str) -> str:
        reply = self._property(window, name)
        return bytes(reply.value.buf()).decode(errors="replace") if reply.value_len else ""


def _is_idle(keysym: int) -> bool:
    """Whether a keysym is one of the many of multimedia keyboards that nobody can name here."""
    return keysym >> 16 == _VENDOR_KEYSYMS and keysym not in keys.KEYSYMS


def _await(is_so: Callable[[], object]) -> None:
    end_s = time.monotonic() + _MANAGER_LIMIT_S
    while not is_so():
        if time.monotonic() > end_s:
            raise TimeoutError
        time.sleep(0.002)


def _connect(socket_path: str, cookie: bytes) -> Any:
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(_CONNECT_LIMIT_S)
    try:
        line.connect(socket_path)
    except OSError:
        line.close()
        raise
    line.setblocking(True)
    # Not through xcffib.connect, which lets go of the cookie before it is sent, and takes none
    # with a colon in it.
    name, data = ffi.new("char[]", _AUTH.encode()), ffi.new("char[]", cookie)
    auth = ffi.new(
        "xcb_auth_info_t *",
        {"name": name, "namelen": len(_AUTH), "data": data, "datalen": len(cookie)},
    )
    connection = xcffib.lib.xcb_connect_to_fd(line.detach(), auth)
    error = xcffib.lib.xcb_connection_has_error(connection)
    if error:
        xcffib.lib.xcb_disconnect(connection)
        raise xcffib.ConnectionException(error)
    return xcffib.wrap(int(ffi.cast("uintptr_t", connection)))


class _Keyboard:
    """Which key, with shift or without, gives which keysym; spare keys become what is missing."""

    def __init__(self, x: Any, await_reaction: Callable[[], None]) -> None:
        self._x = x
        self._await_reaction = await_reaction
        setup = x.get_setup()
        first = setup.min_keycode
        reply = x.core.GetKeyboardMapping(first, setup.max_keycode - first + 1).reply()
        width = reply.keysyms_per_keycode
        self._width = width
        self._places: dict[int, tuple[int, bool]] = {}
        self._spare: list[int] = []
        """Keycodes without a meaning, or with one given here, the one used longest ago first."""
        self._given: dict[int, int] = {}
        """By spare keycode, the keysym it was given."""
        for code in range(first, setup.max_keycode + 1):
            row = reply.keysyms[(code - first) * width : (code - first + 1) * width]
            if not any(keysym and not _is_idle(keysym) for keysym in row):
                self._spare.append(code)
                continue
            for level in (0, 1):
                if row[level]:
                    self._places.setdefault(row[level], (code, level == 1))

    def place(self, keysym: int) -> tuple[int, bool]:
        """The key for a keysym, and whether it needs shift; a spare key if there is none."""
        if keysym not in self._places:
            self._give([keysym])
        return self._places[keysym]

    def parts(self, keysyms: Sequence[int]) -> Iterator[Sequence[int]]:
        """Cut a text so that the spare keys are enough for each part, and prepare them."""
        start, missing = 0, dict[int, None]()
        for position, keysym in enumerate(keysyms):
            if keysym in self._places and keysym not in self._given.values():
                continue
            if keysym not in missing and len(missing) == len(self._spare):
                self._give(list(missing))
                yield keysyms[start:position]
                start, missing = position, {}
            missing[keysym] = None
        self._give(list(missing))
        yield keysyms[start:]

    def _give(self, keysyms: Sequence[int]) -> None:
        """Make sure that all these keysyms have a key at the same time."""
        for keysym in keysyms:
            if keysym in self._places:
                code = self._places[keysym][0]
                self._spare.remove(code)
                self._spare.append(code)
        lacking = [keysym for keysym in keysyms if keysym not in self._places]
        if any(code in self._given for code in self._spare[: len(lacking)]):
            # Keys typed with the old meaning must have been read before the new one is given.
            self._await_reaction()
        for keysym in lacking:
            code = self._spare.pop(0)
            self._spare.append(code)
            self._places.pop(self._given.pop(code, -1), None)
            self._given[code] = keysym
            self._places[keysym] = (code, False)
            # The same with shift, so that holding it changes nothing.
            self._x.core.ChangeKeyboardMapping(1, code, 2, [keysym, keysym])
        if lacking:
            self._x.core.GetInputFocus().reply()
