"""Who may come in.

A token is asked for on every route, as `Authorization: Bearer …` or as user or password of basic
authentication, which is what clients send that can only be given a URL. Web pages are turned
away in any case: a browser that knows the token would lend it to every page.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from urllib.parse import urlsplit

from aiohttp import web

from practicum.core.errors import ConfigError
from practicum.core.sockets import is_loopback
from practicum.desktops.server.desk import Terms, complain


def check(terms: Terms, host: str) -> None:
    """Refuse terms under which anybody could use the desktop."""
    if terms.is_open and not is_loopback(host):
        raise ConfigError(
            f"{host} can be reached from other machines, and the server is open: "
            "ask for a token, or serve on 127.0.0.1"
        )
    if not terms.is_open and not terms.token.strip():
        raise ConfigError("the token is empty")


def turn_away(request: web.Request, terms: Terms) -> web.Response | None:
    """The answer to someone who may not come in; None for all others."""
    if "Origin" in request.headers:
        return complain("not from a web page", 403, kind="unauthorized")
    if terms.is_open:
        # A page can point a name of its own at this machine; then the name gives it away.
        host = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
        if not is_loopback(host):
            return complain(f"not under the name {host!r}", 403, kind="unauthorized")
        return None
    expected = terms.token.encode()
    given = _tokens(request.headers.get("Authorization", ""))
    # Compared in constant time, so that a wrong one says nothing about the right one.
    if any(hmac.compare_digest(one, expected) for one in given):
        return None
    refusal = complain("no or wrong token", 401, kind="unauthorized")
    refusal.headers["WWW-Authenticate"] = 'Basic realm="practicum"'
    return refusal


def _tokens(header: str) -> list[bytes]:
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "bearer":
        return [rest.strip().encode()]
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(rest, validate=True).partition(b":")
        except binascii.Error:
            return []
        return [user, password]
    return []
