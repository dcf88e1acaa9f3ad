"""OSWorld's getters that dial ports find them: desktop-env, a gateway, a real browser."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from desktops.machines import require_desktop
from desktops.osworld_python import require_osworld, run_osworld
from desktops.test_gateway_on_xvfb import gateway, require_rooms

from practicum.desktops.gateway.client import GatewayLease
from practicum.desktops.gateway.forward import forwarded

LIMIT_S = 200
INSIDE = {"chromium": 9222, "vlc": 8080}


async def ask(lease: GatewayLease, ports: Any, folder: Path, title: str) -> dict[str, Any]:
    given = {
        "host": "127.0.0.1",
        **ports,
        "inside": INSIDE,
        "home": str(lease.computer.home),
        "page": f"<title>{title}</title>",
    }
    return await run_osworld("osworld_getters.py", given, folder, LIMIT_S)


async def test_getters_that_dial_find_each_desktops_own_ports(tmp_path: Path) -> None:
    require_desktop("chromium")
    require_osworld()
    require_rooms()

    async def episode(client: Any, number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        async with client.lease() as lease, forwarded(lease.doors) as ports:
            found = await ask(lease, ports, folder, f"desktop {number}")
            home = lease.computer.home
        assert found["command"].strip() == str(home)
        assert found["error"].strip() == "no"
        assert f"file://{home}/page.html" in found["tabs"]
        assert found["page"] == f"desktop {number}"
        assert "<state>playing</state>" in found["vlc"]

    # Both have a browser at 9222, each in a network of its own.
    local = {"body": "namespace", "ports": INSIDE}
    async with gateway(tmp_path, size=2, local=local) as (client, _):
        await asyncio.gather(episode(client, 0), episode(client, 1))
