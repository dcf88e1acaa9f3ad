"""The web application: routes, admission, errors with a name, and how it is served."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from practicum.core.errors import MachineError
from practicum.core.sockets import listen, url_of
from practicum.desktops.computer import Computer
from practicum.desktops.server import admission
from practicum.desktops.server.commands import CommandRoutes
from practicum.desktops.server.desk import REQUEST_ID, BadRequestError, Desk, Terms, complain
from practicum.desktops.server.files import FileRoutes
from practicum.desktops.server.native import NativeRoutes
from practicum.desktops.server.once import Once
from practicum.desktops.server.screen import ScreenRoutes
from practicum.desktops.server.stand_ins import StandIns
from practicum.desktops.server.windows import WindowRoutes

logger = logging.getLogger(__name__)

SHUTDOWN_S = 2.0
KEEP_ALIVE_S = 600.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and what it asks for."""

    url: str
    token: str | None = field(repr=False)
    """None: it is open."""


@asynccontextmanager
async def running(
    source: Callable[[], Computer],
    terms: Terms | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[Address]:
    """Serve a computer in the running event loop; port 0 takes a free one.

    `source` gives the computer, for every request anew: `lambda: machine.computer` follows a
    machine through its resets.
    """
    terms = terms or Terms()
    admission.check(terms, host)
    with listen(host, port) as listener:
        runner = web.AppRunner(
            build(source, terms),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=SHUTDOWN_S,
            keepalive_timeout=KEEP_ALIVE_S,
        )
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            yield Address(url_of(listener), None if terms.is_open else terms.token)
        finally:
            await runner.cleanup()


def build(source: Callable[[], Computer], terms: Terms) -> web.Application:
    """Build the application over a computer."""
    desk, once = Desk(source, terms), Once()
    stand_ins = StandIns(desk)

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        return admission.turn_away(request, terms) or await handler(request)

    @web.middleware
    async def at_most_once(request: web.Request, handler: Handler) -> web.StreamResponse:
        request_id = request.headers.get(REQUEST_ID)

        async def act() -> web.Response:
            response = await handler(request)
            assert isinstance(response, web.Response)
            return response

        # An upload again leaves the same file, so it needs no id; and it is too large to keep.
        is_upload = request.content_type.startswith("multipart/")
        if request_id is None or request.method != "POST" or is_upload:
            return await handler(request)
        try:
            body = await request.read()
        except web.HTTPException as error:
            return complain(error.reason, error.status)
        return await once.respond(
            request_id, hashlib.sha256(request.path.encode() + b"\0" + body).digest(), act
        )

    app = web.Application(
        client_max_size=terms.max_body_bytes, middlewares=[admit, at_most_once, _name_errors]
    )
    for routes in (
        ScreenRoutes(desk, stand_ins),
        CommandRoutes(desk, stand_ins),
        FileRoutes(desk),
        WindowRoutes(desk, stand_ins),
        NativeRoutes(desk),
    ):
        app.add_routes(routes.routes())
    return app


@web.middleware
async def _name_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer with JSON whatever happens; nobody is shown a traceback."""
    try:
        return await handler(request)
    except BadRequestError as error:
        return complain(str(error), error.status)
    except web.HTTPException as error:
        return complain(error.reason, error.status)
    except FileNotFoundError as error:
        return complain(str(error) or "File not found", 404)
    except PermissionError as error:
        return complain(str(error), 403, kind="permission")
    except ValueError as error:
        return complain(str(error), 400)
    except MachineError as error:
        return complain(str(error), 500, kind=error.kind)
    except OSError as error:
        return complain(str(error), 500, kind="system")
    except Exception:
        logger.exception("%s %s failed", request.method, request.path)
        return complain("the server failed; its log says why", 500, kind="crash")
