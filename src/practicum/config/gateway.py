"""What a gateway serves, to whom, and on what terms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from practicum.config.base import StrictConfig
from practicum.config.pool import PoolConfig
from practicum.core.sockets import is_loopback

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
"""A short name, as it stands in metrics and logs."""
PortNumber = Annotated[int, Field(ge=1, le=65535)]


class PortsConfig(StrictConfig):
    """Ports inside a desktop that are passed on; one that is not given is not."""

    chromium: PortNumber | None = None
    """The browser's debugging port; 9222 in OSWorld's tasks."""
    vlc: PortNumber | None = None
    """VLC's HTTP interface; 8080 in OSWorld's tasks."""
    vnc: PortNumber | None = None

    def numbers(self) -> dict[str, int]:
        """The ports that there are, by name."""
        return {name: number for name, number in self.model_dump().items() if number is not None}


class OsworldPortsConfig(PortsConfig):
    """Ports of a machine made for OSWorld."""

    server: PortNumber = 5000
    chromium: PortNumber | None = 9222
    vlc: PortNumber | None = 8080


class SecretConfig(StrictConfig):
    """Where a token is kept; never the token itself."""

    env: str | None = None
    """The environment variable that holds it."""
    file: Path | None = None
    """The file that holds it."""

    @model_validator(mode="after")
    def _one_place(self) -> SecretConfig:
        if (self.env is None) == (self.file is None):
            raise ValueError("a token comes from a variable (env) or a file (file): name one")
        return self


class TokenConfig(SecretConfig):
    """A token that the gateway accepts, and its quotas."""

    name: Name
    max_leases: int = Field(ge=0)
    """Desktops it may hold at a time; 0 for one that only reads metrics."""
    requests_per_s: float | None = Field(None, gt=0)
    """Requests to desktops it may make on average, with a burst of one second's worth."""


class TlsConfig(StrictConfig):
    """The certificate to serve with."""

    cert: Path
    key: Path


class LocalHostConfig(StrictConfig):
    """Desktops that this gateway starts itself."""

    name: Name
    kind: Literal["local"]
    body: Literal["xvfb", "namespace"] = "xvfb"
    """`namespace`: each with a network, processes and a file system of its own."""
    width: int = Field(1920, ge=320, le=7680)
    height: int = Field(1080, ge=240, le=4320)
    template: Path | None = None
    """A folder whose content is copied over each desktop's home."""
    ports: PortsConfig = PortsConfig()
    pool: PoolConfig = PoolConfig()

    @model_validator(mode="after")
    def _own_ports(self) -> LocalHostConfig:
        if self.body == "xvfb" and self.ports.numbers() and self.pool.size > 1:
            raise ValueError(
                "xvfb desktops share this machine's network, so that one's browser would answer "
                "for all: use body namespace, pool.size 1, or no ports"
            )
        return self


class BridgeHostConfig(StrictConfig):
    """Desktops behind another gateway."""

    name: Name
    kind: Literal["bridge"]
    url: str
    token: SecretConfig
    ca_file: Path | None = None
    """Certificates to trust instead of the system's."""
    size: int = Field(ge=1)
    """Desktops to take there at a time: what our token's quota is there."""


class AddressConfig(StrictConfig):
    """One OSWorld server: a host and its ports, as OSWorld's providers give them."""

    host: str
    ports: OsworldPortsConfig = OsworldPortsConfig()
    token: SecretConfig | None = None
    """For a server that asks for one."""


class ServersHostConfig(StrictConfig):
    """OSWorld servers that run elsewhere, each in a machine of its own."""

    name: Name
    kind: Literal["servers"]
    addresses: list[AddressConfig] = Field(min_length=1)
    keeps_state: Literal[True]
    """Must be said: nobody resets these machines between two leases."""


HostConfig = Annotated[
    LocalHostConfig | BridgeHostConfig | ServersHostConfig, Field(discriminator="kind")
]


class GatewayConfig(StrictConfig):
    """One gateway."""

    host: str = "127.0.0.1"
    """Where to listen; other than on the loopback interface only with `tls`."""
    port: int = Field(8700, ge=0, le=65535)
    """0 takes a free one."""
    tls: TlsConfig | None = None
    tokens: list[TokenConfig] = Field(min_length=1)
    hosts: list[HostConfig] = Field(min_length=1)
    ttl_s: float = Field(60.0, gt=0)
    """A lease without request or heartbeat for so long ends."""
    max_wait_s: float = Field(20.0, ge=0)
    """How long one request for a desktop may wait in line before it is told to come back."""
    max_waiting: int = Field(1024, ge=1)
    """Requests that wait in line at a time."""
    max_body_mb: float = Field(256.0, gt=0)
    """The largest body or message that is passed on to a desktop."""
    audit_log: Path | None = None
    """A JSONL file with every lease, request and refusal; no bodies, no secrets."""

    @model_validator(mode="after")
    def _is_safe(self) -> GatewayConfig:
        if self.tls is None and not is_loopback(self.host):
            raise ValueError(
                f"{self.host} can be reached from other machines: give tls.cert and tls.key, or "
                "listen on 127.0.0.1"
            )
        for what, names in (
            ("tokens", [token.name for token in self.tokens]),
            ("hosts", [host.name for host in self.hosts]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"{what}: two have the same name")
        return self
