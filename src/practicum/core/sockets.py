"""Where a server listens, and who can reach it."""

from __future__ import annotations

import ipaddress
import socket

from practicum.core.errors import ConfigError


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """Bind a port, 0 for a free one; nothing is accepted before `listen` is called on it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error}") from error
    return listener


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """The URL under which a socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
