"""Machines whose ports a gateway can reach.

`ServedMachine` is a local desktop with the in-desktop server in front of it. `AddressedMachine`
is someone else's: an OSWorld server by its address, which we can look at but not reset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from practicum.core.errors import MachineError
from practicum.desktops import server
from practicum.desktops.computer import Computer, Machine
from practicum.desktops.gateway.doors import SERVER, Door, Doors

LOOK_TIMEOUT_S = 10.0


def network_pid(keeper_pid: int) -> int:
    """The process of a desktop in namespaces that is inside; its keeper waits outside."""
    children = Path(f"/proc/{keeper_pid}/task/{keeper_pid}/children").read_text().split()
    if not children:
        raise MachineError(f"nothing runs in the desktop of keeper {keeper_pid}", kind="down")
    return int(children[0])


class ServedMachine:
    """A local desktop and its server, which listens on the loopback interface alone."""

    def __init__(
        self,
        machine: Machine,
        ports: Mapping[str, int],
        network_pid: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._machine = machine
        self._ports = ports
        self._network_pid = network_pid
        self._stack = AsyncExitStack()
        self._doors: dict[str, Door] = {}

    @property
    def id(self) -> str:
        """The desktop's name."""
        return self._machine.id

    @property
    def computer(self) -> Computer:
        """What to act on."""
        return self._machine.computer

    @property
    def doors(self) -> Doors:
        """Where its ports are; new after each reset, so that no old key fits."""
        return dict(self._doors)

    async def start(self) -> None:
        """Bring it up, then its server."""
        await self._machine.start()
        await self._serve()

    async def reset(self) -> None:
        """Give both their first state."""
        await self._stop_serving()
        await self._machine.reset()
        await self._serve()

    async def check(self) -> None:
        """Raise `MachineError` if it does not work any more."""
        await self._machine.check()

    async def stop(self) -> None:
        """Take both down; idempotent."""
        try:
            await self._stop_serving()
        finally:
            await self._machine.stop()

    async def _serve(self) -> None:
        address = await self._stack.enter_async_context(
            server.running(lambda: self._machine.computer)
        )
        authorization = f"Bearer {address.token}"
        self._doors = {SERVER: Door(address.url, authorization)}
        for name, port in self._ports.items():
            self._doors[name] = Door(f"http://127.0.0.1:{port}", network_pid=self._network_pid())

    async def _stop_serving(self) -> None:
        stack, self._stack = self._stack, AsyncExitStack()
        self._doors = {}
        await stack.aclose()


class AddressedMachine:
    """An OSWorld server that runs elsewhere. It keeps what its users do to it."""

    def __init__(
        self,
        host: str,
        ports: Mapping[str, int],
        authorization: str | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._host = host
        self._ports = ports
        self._authorization = authorization
        self._on_stop = on_stop
        self._is_stopped = False

    @property
    def id(self) -> str:
        """Its address."""
        return f"{self._host}:{self._ports[SERVER]}"

    @property
    def computer(self) -> Computer:
        """What to act on."""
        raise MachineError("a gateway passes its desktops on and does not act on them")

    @property
    def doors(self) -> Doors:
        """Its ports."""
        return {
            name: Door(
                f"http://{self._host}:{port}",
                self._authorization if name == SERVER else None,
            )
            for name, port in self._ports.items()
        }

    async def start(self) -> None:
        """Look whether it is there."""
        await self.check()

    async def reset(self) -> None:
        """Leave it as it is, which its entry in the config says in so many words."""

    async def check(self) -> None:
        """Ask for a picture, as OSWorld does to see whether a machine is ready."""
        door = self.doors[SERVER]
        headers = {"Authorization": door.authorization} if door.authorization else {}
        try:
            async with (
                asyncio.timeout(LOOK_TIMEOUT_S),
                door.connect() as session,
                session.get(f"{door.url}/screenshot", headers=headers) as answer,
            ):
                status = answer.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise MachineError(
                f"{self.id} does not answer: {type(error).__name__}: {error}", kind="unreachable"
            ) from error
        if status != 200:
            raise MachineError(f"{self.id} gives no picture: HTTP {status}", kind="no-picture")

    async def stop(self) -> None:
        """Leave it running: it is not ours; its address may be tried again."""
        if not self._is_stopped:
            self._is_stopped = True
            self._on_stop()
