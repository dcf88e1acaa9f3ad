"""A leased desktop's ports on this machine, for clients that know only `host:port`.

OSWorld's getters dial the desktop's server, browser and VLC by number and know nothing of
tokens. Here each port listens on the loopback interface of the client's machine and passes on
to the gateway with the token. Every user of this machine can then use the desktop, so this is
done only when asked for; web pages are turned away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from practicum.core.sockets import is_loopback, listen
from practicum.desktops.gateway.doors import Door, Doors, refusal
from practicum.desktops.gateway.relay import Passage, relay

LOCAL = "127.0.0.1"
MAX_BODY_BYTES = 2**30
"""The gateway has a limit of its own."""


@asynccontextmanager
async def forwarded(
    doors: Doors, numbers: Mapping[str, int] | None = None
) -> AsyncIterator[Mapping[str, int]]:
    """Open local ports onto a desktop's; gives the numbers by name, free ones unless given."""
    wanted = dict(numbers or {})
    unknown = set(wanted) - set(doors)
    if unknown:
        raise ValueError(f"the desktop has no port {', '.join(sorted(unknown))}")
    async with AsyncExitStack() as stack:
        ports = {
            name: await stack.enter_async_context(_one(name, door, wanted.get(name, 0)))
            for name, door in doors.items()
        }
        yield ports


def osworld_address(ports: Mapping[str, int], host: str = LOCAL) -> str:
    """Local ports as OSWorld's providers give an address: `host:server:chromium:vnc:vlc`.

    A port that the desktop has not is 9, the discard port: nothing answers there.
    """
    order = ("server", "chromium", "vnc", "vlc")
    return ":".join([host, *(str(ports.get(name, 9)) for name in order)])


@asynccontextmanager
async def _one(name: str, door: Door, port: int) -> AsyncIterator[int]:
    async with door.connect() as session:
        with listen(LOCAL, port) as listener:
            number: int = listener.getsockname()[1]
            passage = Passage(
                name,
                door,
                session,
                f"http://{LOCAL}:{number}",
                MAX_BODY_BYTES,
                _nothing,
                _accept,
                is_local=True,
            )
            app = web.Application()
            app.router.add_route("*", "/{tail:.*}", partial(_pass_on, passage))
            runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
            await runner.setup()
            try:
                await web.SockSite(runner, listener).start()
                yield number
            finally:
                await session.close()  # ends the sockets that are being relayed
                await runner.cleanup()


async def _pass_on(passage: Passage, request: web.Request) -> web.StreamResponse:
    host = urlsplit(f"//{request.host}").hostname or ""
    if "Origin" in request.headers or not is_loopback(host):
        return refusal(403, "unauthorized", "not from a web page")
    try:
        return await relay(request, request.rel_url.raw_path.removeprefix("/"), passage)
    except (aiohttp.ClientError, OSError) as error:
        return refusal(502, "connection", f"the gateway does not answer: {type(error).__name__}")


def _nothing() -> None:
    """The gateway sees the use itself."""


async def _accept(_: int) -> None:
    """What the gateway answers is passed back as it is."""
