"""Where the ports of one desktop are reached.

A desktop has a `server` (OSWorld's wire protocol), and may have `chromium` (the browser's
debugging port) and `vlc` (its HTTP interface): OSWorld's getters dial all three.
"""

from __future__ import annotations

import ctypes
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
from aiohappyeyeballs import AddrInfoType
from aiohttp import web

SERVER = "server"
CHROMIUM = "chromium"
VLC = "vlc"

CONNECT_TIMEOUT_S = 10.0
FAULT_HEADER = "X-Practicum-Fault"
"""On every refusal of the gateway's own, with the kind of fault: a desktop's 404 has none."""


def refusal(status: int, kind: str, message: str, retry_after_s: int | None = None) -> web.Response:
    """An answer of the gateway's own that is not what was asked for."""
    headers = {FAULT_HEADER: kind}
    if retry_after_s is not None:
        headers["Retry-After"] = str(retry_after_s)
    return web.json_response({"error": message, "kind": kind}, status=status, headers=headers)


@dataclass(frozen=True, slots=True)
class Door:
    """One port of a desktop, as seen from where it is relayed."""

    url: str
    """`http://host:port` and possibly a path in front of the port's own, no slash at the end."""
    authorization: str | None = field(default=None, repr=False)
    """What the other side wants to see."""
    is_gateway: bool = False
    """The other side is a gateway: it passes on what is meant for the desktop."""
    network_pid: int | None = None
    """A process in whose network the address is meant; None for our own."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    def connect(self) -> aiohttp.ClientSession:
        """Connections to it; whoever asks closes them."""
        pid = self.network_pid
        factory = None if pid is None else lambda address: socket_in(pid, address)
        return aiohttp.ClientSession(
            # Whatever limits concurrency does so above; a limit here would queue silently.
            connector=aiohttp.TCPConnector(limit=0, ssl=self.tls or True, socket_factory=factory),
            # How long an answer takes is the desktop's business (opening a file in an office
            # suite takes minutes); a desktop that died is found by its check.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )


Doors = Mapping[str, Door]


def socket_in(pid: int, address: AddrInfoType) -> socket.socket:
    """Make a socket in the network of another process; needs the right to enter it.

    A socket stays in the network it was made in, so this thread goes there and comes straight
    back: nothing else can run on it meanwhile.
    """
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        other = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(other)
            try:
                return socket.socket(*address[:3])
            finally:
                _enter(own)
        finally:
            os.close(other)
    finally:
        os.close(own)


_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot enter the desktop's network: {os.strerror(number)}")
