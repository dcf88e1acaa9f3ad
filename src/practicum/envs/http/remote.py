"""An environment on a server: tasks, rules and scripts from here, episodes from there.

`create` takes what `--server` takes:

| URL | spoken |
|---|---|
| `practicum+ws://host:port` | our WebSocket protocol |
| `agentgym+http://host:port` | AgentGym's HTTP; tasks by id if the server is ours |
| `http://host:port` | asked: what `/describe` names, and AgentGym's HTTP without one |

The engine of the environment is not needed here, only its package: panels are files.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from practicum.core.commands import Command
from practicum.core.env import Env, Environment, Script
from practicum.core.errors import ConfigError, EnvError, unknown_name
from practicum.core.retry import Backoff
from practicum.core.task import Panel, Task
from practicum.envs import registry
from practicum.envs.http.agentgym import AgentGymTransport
from practicum.envs.http.calls import BACKOFF, CALL_TIMEOUT_S, Caller, CallError
from practicum.envs.http.dialects import DIALECTS, Dialect, dialect_of
from practicum.envs.http.identity import index_task
from practicum.envs.http.native import NativeTransport

SCHEMES = {
    "practicum+ws": ("http", "native"),
    "practicum+wss": ("https", "native"),
    "agentgym+http": ("http", "agentgym"),
    "agentgym+https": ("https", "agentgym"),
    "http": ("http", ""),
    "https": ("https", ""),
}
INDEX_PANEL = "agentgym"
"""The tasks an AgentGym server has, by index and in its order."""

Transport = AgentGymTransport | NativeTransport


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and the dialect if the user named one."""

    base_url: str
    dialect: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a `--server` URL, or raise `ConfigError`."""
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            raise unknown_name("kind of server", parts.scheme or url, SCHEMES)
        if not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"{url!r} names no server: expected {parts.scheme}://host:port")
        scheme, dialect = SCHEMES[parts.scheme]
        return cls(f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}", dialect)


class IndexedTasks:
    """An environment that only AgentGym has: its tasks are indices, its actions any text."""

    commands: Sequence[Command] = (Command("say", "{text}", "any action the server takes"),)
    scripts: Mapping[str, Script] = {}

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.id = dialect.env_id
        self.max_turns = dialect.max_turns
        self.rules = f"You are playing {dialect.env_id}. The first message says what to do."

    def panel_names(self) -> Sequence[str]:
        """None of its own."""
        return ()

    def panel(self, name: str) -> Panel:
        """None of its own."""
        raise unknown_name("panel", name, [INDEX_PANEL])

    def open(self, task: Task) -> Any:
        """Only a server can."""
        raise ConfigError(f"{self.id} is played on an AgentGym server: --server URL")

    async def aclose(self) -> None:
        """Release nothing."""


class RemoteEnvironment:
    """An environment whose episodes are played on a server."""

    def __init__(
        self,
        local: Environment,
        address: Address,
        token: str | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self._local = local
        self._address = address
        self._caller = Caller(address.base_url, token, timeout_s, backoff)
        self._transport: Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def id(self) -> str:
        """The name in the registry."""
        return self._local.id

    @property
    def rules(self) -> str:
        """The environment's own."""
        return self._local.rules

    @property
    def commands(self) -> Sequence[Command]:
        """The environment's own."""
        return self._local.commands

    @property
    def max_turns(self) -> int:
        """The environment's own."""
        return self._local.max_turns

    @property
    def scripts(self) -> Mapping[str, Script]:
        """The environment's own; they see what the server shows."""
        return self._local.scripts

    def panel_names(self) -> Sequence[str]:
        """The environment's own panels, and that of an AgentGym server."""
        has_indices = self.id in DIALECTS and self._address.dialect != "native"
        return (*self._local.panel_names(), *((INDEX_PANEL,) if has_indices else ()))

    def panel(self, name: str) -> Panel:
        """Load a panel."""
        if name == INDEX_PANEL and name in self.panel_names():
            return self._index_panel
        return self._local.panel(name)

    @cached_property
    def _index_panel(self) -> Panel:
        count = DIALECTS[self.id].num_tasks
        return Panel(INDEX_PANEL, tuple(index_task(self.id, index) for index in range(count)))

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Env]:
        """Open one episode on the server."""
        transport = await self._connect()
        async with transport.open(task) as env:
            yield env

    async def aclose(self) -> None:
        """Close connections; idempotent."""
        transport, self._transport = self._transport, None
        if transport is not None and self._loop is asyncio.get_running_loop():
            await transport.aclose()
        await self._caller.aclose()
        await self._local.aclose()

    async def _connect(self) -> Transport:
        loop = asyncio.get_running_loop()
        if self._transport is None or self._loop is not loop:
            # Two episodes may both ask; both get the same answer, and the first one stays.
            found = await self._find_transport()
            if self._transport is None or self._loop is not loop:
                self._transport, self._loop = found, loop
        return self._transport

    async def _find_transport(self) -> Transport:
        described = await self._describe()
        spoken = self._address.dialect or (described or {}).get("dialect", "agentgym")
        if described is None:
            if spoken == "native":
                raise EnvError(
                    f"{self._caller.base_url} is not a practicum server: no /describe",
                    kind="bad-reply",
                )
            return AgentGymTransport(self._caller, dialect_of(self.id), is_ours=False)
        envs = described.get("envs")
        if not isinstance(envs, Mapping) or self.id not in envs:
            raise EnvError(
                f"{self._caller.base_url} serves {', '.join(envs or ()) or 'nothing'} "
                f"and not {self.id}",
                kind="wrong-environment",
            )
        if spoken != described.get("dialect"):
            raise EnvError(
                f"{self._caller.base_url} speaks {described.get('dialect')} and not {spoken}: "
                "give its URL as http:// or start it with the other --dialect",
                kind="wrong-dialect",
            )
        if spoken == "native":
            return NativeTransport(self._caller, self.id)
        path = str(envs[self.id].get("path", ""))
        return AgentGymTransport(self._caller, dialect_of(self.id), is_ours=True, path=path)

    async def _describe(self) -> Mapping[str, Any] | None:
        """What a practicum server says of itself; None if it is another's."""
        try:
            described = await self._caller.get("/describe")
        except CallError as error:
            # AgentGym's servers answer what they do not know with 404, or with a page.
            if error.kind in ("bad-request", "bad-reply"):
                return None
            raise
        is_ours = isinstance(described, Mapping) and "practicum" in described
        return described if is_ours else None


def create(
    url: str,
    env_id: str,
    token: str | None = None,
    timeout_s: float = CALL_TIMEOUT_S,
    backoff: Backoff = BACKOFF,
    options: Mapping[str, Any] | None = None,
) -> RemoteEnvironment:
    """Make the environment `env_id` that is played on the server at `url`.

    `options` go to the local part; give the server the same ones.
    """
    address = Address.parse(url)
    local = local_part(env_id, options or {})
    return RemoteEnvironment(local, address, token, timeout_s, backoff)


def local_part(env_id: str, options: Mapping[str, Any]) -> Environment:
    """What there is of an environment without its engine: panels, rules, commands, scripts.

    Where there is nothing here but AgentGym has such a server, its tasks go by index.
    """
    known = registry.entries()
    if env_id not in known:
        if env_id in DIALECTS:
            return IndexedTasks(DIALECTS[env_id])
        return registry.load_env(env_id, **options)
    if not known[env_id].missing():
        return registry.load_env(env_id, **options)
    try:
        # By its factory: the registry would ask for the engine, which only the server needs.
        return registry.load_env(known[env_id].factory, **options)
    except ConfigError:
        if env_id in DIALECTS:
            return IndexedTasks(DIALECTS[env_id])
        raise
