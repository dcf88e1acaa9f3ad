"""The gateway over real desktops, through the client that agents use."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from desktops.gateways import TOKEN
from desktops.machines import require_desktop
from desktops.test_pool import until

from practicum.config.gateway import GatewayConfig
from practicum.core.errors import MachineError
from practicum.desktops.computer import Key, Text
from practicum.desktops.gateway.app import GatewayApp
from practicum.desktops.gateway.client import GatewayClient
from practicum.desktops.gateway.hosts import PoolHost
from practicum.desktops.gateway.server import running
from practicum.desktops.namespaces import why_no_room
from practicum.desktops.provider import leased

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _desktop() -> None:
    require_desktop()


def config(tmp_path: Path, **changes: object) -> GatewayConfig:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    pool = {"size": changes.pop("size", 2), "spares": changes.pop("spares", 1)}
    host = {"name": "here", "kind": "local", "width": 640, "height": 480, "pool": pool}
    return GatewayConfig.model_validate(
        {
            "port": 0,
            "tokens": [{"name": "tests", "file": str(token), "max_leases": 16}],
            "hosts": [{**host, **changes.pop("local", {})}],  # type: ignore[dict-item]
            **changes,
        }
    )


@asynccontextmanager
async def gateway(
    tmp_path: Path, **changes: object
) -> AsyncIterator[tuple[GatewayClient, GatewayApp]]:
    async with (
        running(config(tmp_path, **changes)) as (url, app),
        GatewayClient(url, TOKEN) as client,
    ):
        yield client, app


async def episode(client: GatewayClient, number: int) -> str:
    """Use a desktop as an agent does; returns what was there before."""
    async with client.lease() as lease:
        computer = lease.computer
        left = await computer.run("cat ~/mine 2>/dev/null; ls ~/Documents")
        await computer.launch(["xterm", "-e", "bash", "-c", "read line; echo $line > ~/mine"])
        async with asyncio.timeout(60):
            while not [w for w in await computer.windows() if "xterm" in w.class_name.lower()]:
                await asyncio.sleep(0.05)
            await computer.settle()
            await computer.perform([Text(f"user {number} <"), Key("enter"), Key("enter", False)])
            while True:
                try:
                    if (written := (await computer.read_file("~/mine")).decode()).strip():
                        break
                except FileNotFoundError:
                    await asyncio.sleep(0.05)
        assert written == f"user {number} <\n"
        picture = await computer.screenshot()
        assert picture.data.startswith(b"\x89PNG")
        return left.output


async def test_agents_share_desktops_and_find_them_as_new(tmp_path: Path) -> None:
    require_desktop("xterm")
    async with gateway(tmp_path, size=2, spares=2) as (client, app):
        found = await asyncio.gather(*(episode(client, k) for k in range(6)))
        assert found == [""] * 6
        host = app.desk.hosts[0]
        assert isinstance(host, PoolHost)
        assert not host.pool.quarantine


VICTIM = """
import asyncio, sys
from practicum.desktops.gateway.client import GatewayClient

async def main():
    client = GatewayClient(sys.argv[1], sys.stdin.readline().strip())
    async with client.lease() as lease:
        await lease.computer.run("echo half an episode > ~/mine; sleep 1000 & echo $! > ~/pid")
        print(lease.id, flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


async def test_the_desktop_of_a_killed_client_comes_back_as_new(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    terms = {"size": 1, "ttl_s": 3, "audit_log": str(audit)}
    async with gateway(tmp_path, **terms) as (client, _):
        victim = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", VICTIM, client.url),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert victim.stdin and victim.stdout
        try:
            victim.stdin.write(f"{TOKEN}\n".encode())
            lease_id = (await victim.stdout.readline()).decode().strip()
        finally:
            victim.kill()
            await victim.wait()
        async with client.lease() as lease:
            found = await lease.computer.run("ls ~ | grep -c mine; pgrep -u $(id -u) sleep")
            assert found.output == "0\n"
        ends = [json.loads(line) for line in audit.read_text().splitlines()]
        reasons = {e["lease"]: e["reason"] for e in ends if e["event"] == "end"}
        assert reasons[lease_id] == "expired"


async def test_when_the_x_server_is_killed_the_fault_has_a_name_and_the_pool_heals(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path, size=1) as (client, app):
        with pytest.raises(MachineError) as caught:
            async with client.lease() as lease:
                done = await lease.computer.run("pkill -KILL -u $(id -u) Xvfb || true")
                assert done.exit_code == 0 or done
                for _ in range(100):
                    await lease.computer.screenshot()
                    await asyncio.sleep(0.05)
        assert caught.value.kind in ("display", "down"), caught.value
        async with client.lease() as lease:
            assert (await lease.computer.screenshot()).data
        host = app.desk.hosts[0]
        assert isinstance(host, PoolHost)
        assert [q.during for q in host.pool.quarantine] == ["use"]


async def test_a_desktops_own_port_is_reached_through_the_gateway(tmp_path: Path) -> None:
    require_desktop("python3")
    local = {"ports": {"vlc": 18099}}
    async with gateway(tmp_path, size=1, local=local) as (client, _), client.lease() as lease:
        await lease.computer.write_file("~/page.html", b"from inside")
        home = lease.computer.home
        await lease.computer.launch(
            f"/usr/bin/python3 -m http.server 18099 --bind 127.0.0.1 -d {home}"
        )
        door = lease.doors["vlc"]
        async with door.connect() as session:
            headers = {"Authorization": str(door.authorization)}
            async with asyncio.timeout(30):
                while True:
                    async with session.get(f"{door.url}/page.html", headers=headers) as answer:
                        if answer.status == 200:
                            break
                        assert answer.headers["X-Practicum-Fault"] == "port-silent"
                    await asyncio.sleep(0.1)
                assert answer.status == 200


def require_rooms() -> None:
    """Ports inside namespaces are for root, where the kernel gives any."""
    if os.geteuid() != 0 or why_no_room() is not None:
        pytest.skip(f"no ports in namespaces here: {why_no_room() or 'not root'}")


async def test_desktops_in_namespaces_each_have_their_own_port(tmp_path: Path) -> None:
    require_rooms()
    local = {"body": "namespace", "ports": {"vlc": 8080}}

    async def episode(client: GatewayClient, number: int) -> None:
        async with client.lease() as lease:
            computer = lease.computer
            await computer.write_file("~/page.html", f"desktop {number}".encode())
            serve = f"/usr/bin/python3 -m http.server 8080 --bind 127.0.0.1 -d {computer.home}"
            await computer.launch(serve)
            door = lease.doors["vlc"]
            headers = {"Authorization": str(door.authorization)}
            async with door.connect() as session, asyncio.timeout(60):
                while True:
                    async with session.get(f"{door.url}/page.html", headers=headers) as answer:
                        text = await answer.text()
                        if answer.status == 200:
                            break
                        assert answer.headers["X-Practicum-Fault"] == "port-silent"
                    await asyncio.sleep(0.1)
            assert text == f"desktop {number}"

    async with gateway(tmp_path, size=2, spares=2, local=local) as (client, _):
        await asyncio.gather(*(episode(client, number) for number in range(4)))


async def test_the_command_serves_and_leaves_nothing_behind(tmp_path: Path) -> None:
    token = "a-token-in-the-environment"
    overrides = ["port=0", f"audit_log={tmp_path / 'audit.jsonl'}", "ttl_s=5"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "practicum", "gateway", "--json"),
        *(str(ROOT / "configs/gateway_local.yaml"), *overrides),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PRACTICUM_GATEWAY_TOKEN": token},
    )
    try:
        assert process.stdout
        async with asyncio.timeout(60):
            ready = json.loads(await process.stdout.readline())
        assert ready["pid"] == process.pid
        async with GatewayClient(ready["url"], token) as client, client.lease() as lease:
            done = await lease.computer.run("echo $DISPLAY")
            display = done.output.strip().removeprefix(":")
            x_socket = Path(f"/tmp/.X11-unix/X{display}")
            made = x_socket.stat().st_ctime_ns
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
        _, said = await process.communicate()
    assert token not in said.decode() + (tmp_path / "audit.jsonl").read_text()

    def is_gone() -> bool:
        try:  # somebody else may have the same display by now
            return x_socket.stat().st_ctime_ns != made
        except FileNotFoundError:
            return True

    await until(is_gone)


async def test_the_bridge_is_the_same_server_run_there(tmp_path: Path) -> None:
    async with running(config(tmp_path, size=1)) as (far, _):
        bridge = {
            "name": "far",
            "kind": "bridge",
            "url": far,
            "token": {"file": str(tmp_path / "token")},
            "size": 1,
        }
        async with (
            running(config(tmp_path, hosts=[bridge])) as (near, _),
            GatewayClient(near, TOKEN) as client,
            leased(await client.acquire()) as lease,
        ):
            assert lease.host == "far"
            assert (await lease.computer.run("echo through both")).output == "through both\n"
            async with aiohttp.ClientSession() as http, http.get(f"{near}/health") as answer:
                assert answer.status == 200
