"""What a gateway is told and tells: configs, certificates, hosts and gateways that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from desktops.gateways import TOKEN, PortFactory, calling, gateway
from desktops.test_gateway import take
from typer.testing import CliRunner

from practicum.cli.main import app, main
from practicum.config.base import read_config
from practicum.config.gateway import GatewayConfig
from practicum.config.pool import PoolConfig
from practicum.core.breaker import Breaker
from practicum.core.errors import ConfigError, MachineError
from practicum.desktops.gateway.client import GatewayClient
from practicum.desktops.gateway.hosts import BridgeHost, PoolHost
from practicum.desktops.gateway.server import running
from practicum.desktops.pool import BusyError, Pool
from practicum.desktops.provider import leased

HOST: dict[str, Any] = {"name": "here", "kind": "local"}
MINIMAL: dict[str, Any] = {
    "tokens": [{"name": "ours", "env": "GATEWAY_TOKEN", "max_leases": 1}],
    "hosts": [HOST],
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": "0.0.0.0"}, "0.0.0.0 can be reached from other machines: give tls.cert"),
        ({"tokens": []}, "tokens: list should have at least 1 item"),
        ({"tokens": [{"name": "a", "max_leases": 1}]}, "a token comes from a variable (env) or"),
        ({"tokens": [{"name": "a", "token": "x", "max_leases": 1}]}, "unknown key"),
        ({"tokens": MINIMAL["tokens"] * 2}, "tokens: two have the same name"),
        ({"hosts": [HOST, HOST]}, "hosts: two have the same name"),
        ({"hosts": [{**HOST, "kind": "docker"}]}, "known names are 'local', 'bridge', 'servers'"),
        ({"hosts": [{**HOST, "spares": 3}]}, "unknown key"),
        ({"hosts": [{**HOST, "pool": {"size": 2, "spares": 3}}]}, "cannot exceed size (2)"),
        (
            {"hosts": [{**HOST, "ports": {"chromium": 9222}, "pool": {"size": 2}}]},
            "xvfb desktops share this machine's network",
        ),
        (
            {"hosts": [{"name": "a", "kind": "servers", "addresses": [{"host": "vm"}]}]},
            "keeps_state",
        ),
        ({"ttl": 3}, "unknown key 'ttl': did you mean 'ttl_s'?"),
    ],
)
def test_what_is_unsafe_or_unknown_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(GatewayConfig, values={**MINIMAL, **changes})
    assert words in str(caught.value)


def test_a_missing_token_is_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PRACTICUM_GATEWAY_TOKEN", raising=False)
    config = Path(__file__).parents[2] / "configs/gateway_local.yaml"
    assert main(["gateway", str(config), "port=0"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "PRACTICUM_GATEWAY_TOKEN" in said
    assert "Lend desktops" in CliRunner().invoke(app, ["gateway", "--help"]).output


async def test_two_names_cannot_share_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN", TOKEN)
    tokens = [*MINIMAL["tokens"], {**MINIMAL["tokens"][0], "name": "other"}]
    with pytest.raises(ConfigError, match="two tokens are the same"):
        async with running(GatewayConfig.model_validate({**MINIMAL, "tokens": tokens})):
            pass


async def test_over_tls_the_client_trusts_whom_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    stranger.cert_pem.write_to_path(tmp_path / "stranger.pem")
    monkeypatch.setenv("GATEWAY_TOKEN", TOKEN)
    factory = PortFactory()
    machine = factory()
    await machine.start()
    server = {
        "name": "vm",
        "kind": "servers",
        "keeps_state": True,
        "addresses": [
            {
                "host": "127.0.0.1",
                "ports": {"server": int(machine.url.rpartition(":")[2])},
                "token": {"env": "GATEWAY_TOKEN"},
            }
        ],
    }
    tls = {"cert": str(tmp_path / "cert.pem"), "key": str(tmp_path / "key.pem")}
    values = {**MINIMAL, "port": 0, "host": "0.0.0.0", "tls": tls, "hosts": [server]}
    try:
        async with running(GatewayConfig.model_validate(values)) as (anywhere, _):
            url = anywhere.replace("0.0.0.0", "127.0.0.1")
            assert url.startswith("https://")
            async with GatewayClient(url, TOKEN, ca_file=tmp_path / "ca.pem") as client:
                assert (await client.describe())["hosts"][0]["name"] == "vm"
                async with leased(await client.take()) as lease:
                    assert (lease.host, set(lease.doors)) == ("vm", {"server", "chromium", "vlc"})
                    door = lease.doors["server"]
                    headers = {"Authorization": str(door.authorization)}
                    async with (
                        door.connect() as session,
                        session.get(f"{door.url}/x", headers=headers) as answer,
                    ):
                        seen = (await answer.json())["headers"]
                    assert seen["Authorization"] == f"Bearer {TOKEN}"
                async with leased(await client.take()):
                    assert machine.log.count("reset") == 0  # it keeps its state, as was said
            async with GatewayClient(url, TOKEN, ca_file=tmp_path / "stranger.pem") as client:
                with pytest.raises(MachineError, match="certificate verify failed"):
                    await client.describe()
            with pytest.raises(aiohttp.ClientError):
                async with calling() as http:
                    await http.get(url.replace("https", "http") + "/health")
    finally:
        await machine.stop()
    monkeypatch.setitem(values, "tls", {**tls, "key": str(tmp_path / "ca.pem")})
    with pytest.raises(ConfigError, match="cannot use"):
        async with running(GatewayConfig.model_validate(values)):
            pass


def test_a_token_is_not_sent_in_the_clear() -> None:
    for url, words in (
        ("http://desktops.example:8700", "over the network in the clear"),
        ("http://10.0.0.7:8700", "over the network in the clear"),
        ("https://user:password@desktops.example", "without user or password"),
        ("desktops.example:8700", "reads https://host:port"),
    ):
        with pytest.raises(ConfigError, match=words) as caught:
            GatewayClient(url, TOKEN)
        assert "password@" not in str(caught.value)
    with pytest.raises(ConfigError, match="no token of at least"):
        GatewayClient("http://127.0.0.1:1", "short")


async def test_a_host_that_fails_is_left_alone_and_the_others_serve() -> None:
    class Broken(BridgeHost):
        num_asked = 0

        async def acquire(self, wait_s: float) -> Any:
            Broken.num_asked += 1
            raise MachineError("no route to host", kind="connection")

    factory = PortFactory()
    pool = PoolHost(Pool(factory, PoolConfig(size=8), ttl_s=1e6, name="here"))  # type: ignore[arg-type]
    broken = Broken("broken", GatewayClient("http://127.0.0.1:9", TOKEN), size=100)
    async with gateway(hosts=[broken, pool]) as running, calling() as http:
        for _ in range(6):
            assert (await take(http, running.url))["host"] == "here"
        assert Broken.num_asked == 3
        async with http.get(f"{running.url}/describe") as answer:
            hosts = {host["name"]: host["resting"] for host in (await answer.json())["hosts"]}
        assert hosts == {"broken": True, "here": False}
    async with (
        gateway(hosts=[broken]) as running,
        calling() as http,
        http.post(f"{running.url}/leases") as answer,
    ):
        assert (answer.status, (await answer.json())["kind"]) == (503, "no-desktops")
        assert int(answer.headers["Retry-After"]) >= 1


async def test_a_gateway_that_is_down_is_not_asked_for_ever() -> None:
    breaker = Breaker(max_failures=3, rest_s=60)
    async with GatewayClient("http://127.0.0.1:9", TOKEN, breaker=breaker) as client:
        with pytest.raises(MachineError) as caught:
            await client.take()
        assert caught.value.kind == "circuit-open"
        with pytest.raises(MachineError, match="left alone for") as caught:
            await client.describe()
        assert caught.value.kind == "circuit-open"


async def test_waiting_for_a_full_gateway_is_seen_and_bounded() -> None:
    waits: list[str] = []
    async with gateway(size=1) as running:
        client = GatewayClient(
            running.url, TOKEN, wait_s=1.5, on_wait=lambda error, _: waits.append(str(error))
        )
        async with client:
            held = await client.take()
            with pytest.raises(BusyError, match=r"no desktop within 1.5 s") as caught:
                await client.take()
            assert caught.value.kind == "busy"
            await held.release()
            async with leased(await client.take()):
                pass
        # Most of the time it waits in line; then it is told to come back.
        assert all("HTTP 429" in text for text in waits)


async def test_a_lost_lease_is_a_named_fault() -> None:
    async with gateway(size=1) as running, GatewayClient(running.url, TOKEN) as client:
        lease = await client.take()
        await running.app.desk.end(running.app.desk.leases.values()[0], "expired")
        with pytest.raises(MachineError, match="unknown lease") as caught:
            await lease.renew()
        assert caught.value.kind == "lost-lease"
        with pytest.raises(MachineError) as caught:
            await lease.connect()
        assert caught.value.kind == "lost-lease"
