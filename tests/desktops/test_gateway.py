"""The front: who may use it, how much, and that nobody gets what is another's."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import aiohttp
import pytest
from desktops.gateways import INNER, OTHER, TOKEN, PortFactory, calling, gateway
from desktops.test_pool import until

from practicum.desktops.gateway.accounts import Account
from practicum.desktops.gateway.client import GatewayClient
from practicum.desktops.provider import leased


async def take(http: aiohttp.ClientSession, url: str, **wish: object) -> dict[str, object]:
    async with http.post(f"{url}/leases", json=wish) as answer:
        assert answer.status == 201, await answer.text()
        lease: dict[str, object] = await answer.json()
        return lease


async def test_a_desktop_is_leased_used_and_given_back() -> None:
    factory = PortFactory()
    async with gateway(factory) as running, calling() as http:
        lease = await take(http, running.url)
        assert lease["ports"] == ["chromium", "server", "vlc"]
        assert (lease["host"], lease["ttl_s"]) == ("here", 30)
        base = f"{running.url}/leases/{lease['lease']}"
        async with http.post(f"{base}/server/execute?a=b%20c", json={"command": "ls"}) as answer:
            seen = await answer.json()
            assert (answer.status, answer.headers["X-Own"]) == (201, "yes")
        assert (seen["method"], seen["path"]) == ("POST", "/execute?a=b%20c")
        assert seen["num_bytes"] == len('{"command": "ls"}')
        async with http.post(f"{base}/heartbeat") as answer:
            assert (answer.status, await answer.json()) == (200, {"ttl_s": 30})
        async with http.get(f"{running.url}/leases") as answer:
            assert (await answer.json())["leases"] == [lease]
        for is_first in (True, False):
            async with http.delete(base) as answer:
                assert (answer.status, await answer.json()) == (200, {"released": is_first})
        async with http.get(f"{base}/server/screenshot") as answer:
            assert answer.status == 410
            assert answer.headers["X-Practicum-Fault"] == "lost-lease"
        await until(lambda: "reset" in factory.machines[0].log)


async def test_without_the_right_token_every_route_is_closed() -> None:
    factory = PortFactory()
    async with gateway(factory) as running, calling() as http:
        lease = await take(http, running.url)
        base = f"/leases/{lease['lease']}"
        async with http.get(f"{running.url}/health") as answer:
            assert await answer.json() == {"status": "ok"}
        num_asked = len(factory.machines[0].asked)
        for token in (None, "wrong" * 5, TOKEN[:-1], TOKEN + "x"):
            async with calling(token) as stranger:
                for method, path in (
                    ("GET", "/describe"),
                    ("GET", "/metrics"),
                    ("POST", "/leases"),
                    ("GET", "/leases"),
                    ("POST", f"{base}/heartbeat"),
                    ("DELETE", base),
                    ("GET", f"{base}/server/screenshot"),
                    ("POST", f"{base}/server/execute"),
                    ("GET", f"{base}/chromium/json/version"),
                    ("GET", f"{base}/vlc/requests/status.xml"),
                    ("GET", "/nowhere"),
                ):
                    async with stranger.request(method, running.url + path) as answer:
                        assert answer.status == 401, (method, path)
                with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                    await stranger.ws_connect(f"{running.url}{base}/chromium/devtools/browser/1")
                assert caught.value.status == 401
        async with calling(OTHER) as neighbour:  # a token of the gateway, but not this lease's
            for method, path, status in (
                ("GET", f"{base}/server/screenshot", 410),
                ("POST", f"{base}/heartbeat", 410),
                ("DELETE", base, 200),
            ):
                async with neighbour.request(method, running.url + path) as answer:
                    assert answer.status == status
            async with neighbour.get(f"{running.url}/leases") as answer:
                assert (await answer.json())["leases"] == []
        assert len(factory.machines[0].asked) == num_asked
        async with http.post(f"{running.url}{base}/heartbeat") as answer:
            assert answer.status == 200


async def test_tokens_are_in_no_log_no_metric_and_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    audit = tmp_path / "audit.jsonl"
    said: list[str] = []
    async with gateway(audit_path=audit, ttl_s=1) as running, calling() as http:
        lease = await take(http, running.url)
        base = f"{running.url}/leases/{lease['lease']}"
        for path in ("/server/x?secret=hidden", "/server/fails", "/none/x", "/server/%2e%2e/x"):
            async with http.get(base + path) as answer:
                said.append(await answer.text() if path != "/server/x?secret=hidden" else "")
        async with calling("wrong" * 5) as stranger, stranger.get(f"{base}/server/x") as answer:
            said.append(await answer.text())
        async with http.get(f"{running.url}/metrics") as answer:
            said.append(await answer.text())
        await until(lambda: not len(running.app.desk.leases))
        client = GatewayClient(running.url, TOKEN)
        held = await client.take()
        said += [repr(client), repr(held), repr(held.doors), repr(Account("a", TOKEN, 1))]
        await client.aclose()
        said += [str(vars(running.app.desk)["_audit"]), caplog.text, audit.read_text()]
        events = [line["event"] for line in running.audit()]
    assert {"lease", "request", "unauthorized", "end"} <= set(events)
    for secret in (TOKEN, OTHER, INNER, "wrongwrong", "hidden"):
        assert not [text for text in said if secret in text], secret
    assert audit.stat().st_mode & 0o777 == 0o600


async def test_a_wish_that_makes_no_sense_is_refused() -> None:
    async with gateway() as running, calling() as http:
        for body in (b"no json", b"[1]", b'{"wait": 3}', b'{"wait_s": -1}', b'{"key": "short"}'):
            async with http.post(f"{running.url}/leases", data=body) as answer:
                assert answer.status == 400, body
        async with http.post(f"{running.url}/leases", data=b"x" * 100_000) as answer:
            assert answer.status == 413
        assert len(running.app.desk.leases) == 0


async def test_asking_again_with_the_same_key_gives_the_same_lease() -> None:
    async with gateway() as running, calling() as http, calling(OTHER) as neighbour:
        first = await take(http, running.url, key="my-own-key")
        assert await take(http, running.url, key="my-own-key") == first
        assert (await take(neighbour, running.url, key="my-own-key"))["lease"] != first["lease"]
        assert len(running.app.desk.leases) == 2
    async with gateway() as running, calling() as http:
        both = await asyncio.gather(*(take(http, running.url, key="my-own-key") for _ in range(2)))
        assert both[0] == both[1]
        assert [x.account.num_leases for x in running.app.desk.leases.values()] == [1]


async def test_beyond_the_quota_the_answer_is_429_and_when_to_come_back() -> None:
    async with gateway(size=4, max_leases=1) as running, calling() as http, calling(OTHER) as other:
        lease = await take(http, running.url)
        async with http.post(f"{running.url}/leases") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
            assert (await answer.json())["kind"] == "quota"
        await take(other, running.url)
        await http.delete(f"{running.url}/leases/{lease['lease']}")
        await take(http, running.url)


async def test_beyond_the_rate_the_answer_is_429_before_anything_is_done() -> None:
    factory = PortFactory()
    async with gateway(factory, requests_per_s=2) as running, calling() as http:
        lease = await take(http, running.url)
        base = f"{running.url}/leases/{lease['lease']}"
        statuses = []
        for _ in range(6):
            async with http.post(f"{base}/server/execute") as answer:
                statuses.append(answer.status)
                assert answer.status == 201 or answer.headers["Retry-After"] == "1"
            async with http.post(f"{base}/heartbeat") as answer:
                assert answer.status == 200  # a busy client keeps its desktop
        assert 429 in statuses
        assert len(factory.machines[0].asked) == statuses.count(201)


async def test_when_all_desktops_are_taken_callers_wait_in_line_then_are_told() -> None:
    async with gateway(size=1, max_waiting=1) as running, calling() as http:
        lease = await take(http, running.url)
        async with http.post(f"{running.url}/leases", json={"wait_s": 0.05}) as answer:
            assert (answer.status, (await answer.json())["kind"]) == (429, "busy")
        waiting = asyncio.create_task(take(http, running.url, wait_s=5))
        await until(lambda: running.app.desk.num_waiting == 1)
        async with http.post(f"{running.url}/leases", json={"wait_s": 5}) as answer:
            assert answer.status == 429
        await http.delete(f"{running.url}/leases/{lease['lease']}")
        assert (await waiting)["lease"] != lease["lease"]


async def test_a_caller_that_hangs_up_while_waiting_takes_no_desktop() -> None:
    async with gateway(size=1) as running, calling() as http:
        lease = await take(http, running.url)
        waiting = asyncio.create_task(take(http, running.url, wait_s=5))
        await until(lambda: running.app.desk.num_waiting == 1)
        waiting.cancel()
        await until(lambda: running.app.desk.num_waiting == 0)
        await http.delete(f"{running.url}/leases/{lease['lease']}")
        await take(http, running.url, wait_s=5)
        assert len(running.app.desk.leases) == 1


async def test_a_lease_that_is_used_lasts_and_one_that_is_not_runs_out(tmp_path: Path) -> None:
    factory = PortFactory()
    audit = tmp_path / "audit.jsonl"
    async with gateway(factory, size=2, ttl_s=1, audit_path=audit) as running, calling() as http:
        used = await take(http, running.url)
        idle = await take(http, running.url)
        async with http.get(f"{running.url}/leases/{idle['lease']}/server/x?dirt=mine") as answer:
            assert answer.status == 201
        while len(running.app.desk.leases) == 2:
            async with http.get(f"{running.url}/leases/{used['lease']}/server/slow") as answer:
                assert answer.status == 201
        ends = [line for line in running.audit() if line["event"] == "end"]
        assert [(e["lease"], e["reason"]) for e in ends] == [(idle["lease"], "expired")]
        async with http.get(f"{running.url}/leases/{idle['lease']}/server/x") as answer:
            assert answer.status == 410
        again = await take(http, running.url, wait_s=5)
        async with http.get(f"{running.url}/leases/{again['lease']}/server/x") as answer:
            assert (await answer.json())["dirt"] == ""  # reset in between


async def test_a_desktop_that_breaks_is_a_named_fault_and_its_host_heals() -> None:
    factory = PortFactory()
    async with gateway(factory, size=1) as running, calling() as http:
        lease = await take(http, running.url)
        base = f"{running.url}/leases/{lease['lease']}"
        async with http.get(f"{base}/server/fails") as answer:
            assert answer.status == 500  # the desktop is well: its own answer
            assert "X-Practicum-Fault" not in answer.headers
        factory.machines[0].is_up = False
        async with http.get(f"{base}/server/fails") as answer:
            assert (answer.status, answer.headers["X-Practicum-Fault"]) == (410, "x-server")
            assert "m0 broke while in use" in (await answer.json())["error"]
        async with http.post(f"{base}/heartbeat") as answer:
            assert answer.status == 410
        fresh = await take(http, running.url, wait_s=5)  # before the broken one is given back
        async with http.get(f"{running.url}/leases/{fresh['lease']}/server/x") as answer:
            assert (await answer.json())["machine"] == "m1"
        async with http.get(f"{running.url}/metrics") as answer:
            text = await answer.text()
        assert 'practicum_gateway_desktops_lost_total{host="here",kind="x-server"} 1.0' in text
        assert 'during="use",host="here",kind="x-server"} 1.0' in text
        assert 'practicum_desktops{host="here",state="leased"} 1.0' in text


async def test_a_port_that_does_not_answer_is_told_apart_from_a_broken_desktop() -> None:
    factory = PortFactory()
    async with gateway(factory) as running, calling() as http:
        lease = await take(http, running.url)
        base = f"{running.url}/leases/{lease['lease']}"
        runner = factory.machines[0]._runner
        assert runner is not None
        await runner.cleanup()
        async with http.get(f"{base}/chromium/json/version") as answer:
            assert (answer.status, answer.headers["X-Practicum-Fault"]) == (502, "port-silent")
        async with http.post(f"{base}/heartbeat") as answer:
            assert answer.status == 200
        async with http.get(f"{base}/vnc/") as answer:
            assert (answer.status, (await answer.json())["kind"]) == (404, "no-port")


STORM = 24


async def test_a_storm_of_clients_on_few_desktops_ends_with_all_served() -> None:
    factory = PortFactory()
    waits: list[float] = []
    users: list[str] = []

    async def episode(client: GatewayClient, number: int) -> None:
        async with leased(await client.take()) as lease:
            door = lease.doors["server"]
            async with door.connect() as session:
                headers = {"Authorization": str(door.authorization)}
                for turn in range(3):
                    url = f"{door.url}/turn?dirt={number}"
                    async with session.get(url, headers=headers) as answer:
                        seen = await answer.json()
                        assert seen["dirt"] == (str(number) if turn else "")
            users.append(seen["machine"])

    # Eight more than may wait in line, and quotas below the number of desktops.
    async with gateway(factory, size=3, max_leases=2, max_waiting=4) as running:
        clients = [
            GatewayClient(running.url, token, on_wait=lambda _, pause_s: waits.append(pause_s))
            for token in (TOKEN, OTHER)
        ]
        await asyncio.gather(*(episode(clients[n % 2], n) for n in range(STORM)))
        for client in clients:
            await client.aclose()
        assert len(running.app.desk.leases) == 0
        refused = running.app.metrics.value("gateway_refused_total", kind="quota")
    assert len(users) == STORM
    assert len(factory.machines) <= 3
    assert waits and refused


VICTIM = """
import asyncio, sys
from practicum.desktops.gateway.client import GatewayClient
from practicum.desktops.provider import leased

async def main():
    client = GatewayClient(sys.argv[1], sys.stdin.readline().strip())
    async with leased(await client.take()) as lease:
        print(lease.id, flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


async def test_the_desktop_of_a_client_that_is_killed_is_back_within_one_ttl(
    tmp_path: Path,
) -> None:
    factory = PortFactory()
    audit = tmp_path / "audit.jsonl"
    async with gateway(factory, size=1, ttl_s=3, audit_path=audit) as running:
        victim = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", VICTIM, running.url),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert victim.stdin and victim.stdout
        try:
            victim.stdin.write(f"{TOKEN}\n".encode())
            lease_id = (await victim.stdout.readline()).decode().strip()
            await asyncio.sleep(4)  # longer than its time: kept by the heartbeat
            assert running.app.desk.leases.ids() == [lease_id]
        finally:
            victim.kill()
            await victim.wait()
        lease = running.app.desk.leases.get(lease_id)
        assert lease is not None
        left_s = lease.expires_s - asyncio.get_running_loop().time()
        assert left_s <= 3
        client = GatewayClient(running.url, OTHER)
        async with leased(await client.take()):
            assert factory.machines[0].log.count("reset") == 1
        await client.aclose()
        ends = [(e["lease"], e["reason"]) for e in running.audit() if e["event"] == "end"]
        assert ends[0] == (lease_id, "expired")


async def test_closing_the_gateway_takes_its_desktops_down() -> None:
    factory = PortFactory()
    async with calling() as http:
        async with gateway(factory) as running:
            lease = await take(http, running.url)
            url = f"{running.url}/leases/{lease['lease']}/server/slow"
            slow = asyncio.create_task(http.get(url).__aenter__())
            await until(lambda: factory.machines[0].asked)
        answer = (await asyncio.gather(slow, return_exceptions=True))[0]
        assert isinstance(answer, Exception) or answer.status == 410
    assert [m.is_up for m in factory.machines] == [False]
