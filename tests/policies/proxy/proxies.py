"""Proxies to test with: a tiny model that samples, a script in tokens, an upstream stand-in."""

from __future__ import annotations

import struct
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import aiohttp
import openai
from aiohttp import web
from tiny_models import byte_tokenizer, tiny_model

from practicum.core.agent import Policy, Prompt, Sampling
from practicum.core.episode import Completion
from practicum.core.errors import PolicyError
from practicum.core.retry import Backoff
from practicum.policies.local.engine import EngineOptions
from practicum.policies.local.policy import HfPolicy
from practicum.policies.openai_endpoint import Endpoint
from practicum.policies.proxy.app import ProxyApp, Terms
from practicum.policies.proxy.endpoint import EndpointUpstream
from practicum.policies.proxy.server import running
from practicum.policies.proxy.upstream import PolicyUpstream, Upstream
from practicum.policies.rendering import Renderer

ADMIN = "an-admin-key-of-the-tests"


class Witness:
    """A policy that writes down what passes through it."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.prompts: list[Prompt] = []
        self.completions: list[Completion] = []

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        self.prompts.append(prompt)
        completion = await self._policy.complete(prompt, sampling)
        self.completions.append(completion)
        return completion

    async def aclose(self) -> None:
        await self._policy.aclose()


class Script:
    """Says what it is told to, in tokens; an error in the script is raised."""

    def __init__(self, renderer: Renderer, answers: Iterable[str | Exception]) -> None:
        self._renderer = renderer
        self._answers = iter(answers)

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        ids = self._renderer.answer_ids(answer)
        is_cut = len(ids) > sampling.max_tokens
        ids = ids[: sampling.max_tokens]
        return Completion(
            self._renderer.decode(ids),
            "length" if is_cut else "stop",
            self._renderer.prompt_ids(prompt),
            ids,
            tuple(-0.5 - n / 8 for n in range(len(ids))),
            policy_version=3,
        )

    async def aclose(self) -> None: ...


@cache
def renderer() -> Renderer:
    return Renderer(byte_tokenizer())


@dataclass
class Bench:
    """A proxy, a session in it, and who saw what."""

    url: str
    app: ProxyApp
    witness: Witness | None
    http: aiohttp.ClientSession
    key: str = ""
    session_id: str = ""
    clients: list[Any] = field(default_factory=list)
    """Closed in the end."""

    async def post(self, path: str, body: Any = None, key: str = ADMIN) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {key}"}
        async with self.http.post(f"{self.url}/{path}", json=body, headers=headers) as reply:
            return reply.status, await reply.json()

    async def get(self, path: str, key: str = ADMIN) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {key}"}
        async with self.http.get(f"{self.url}/{path}", headers=headers) as reply:
            return reply.status, await reply.json()

    async def start(self, task_id: str = "task") -> str:
        status, body = await self.post("rl/start_session", {"task_id": task_id})
        assert status == 200, body
        self.session_id, self.key = body["session_id"], body["api_key"]
        return self.key

    async def reward(self, reward: Any, call: str | None = None) -> tuple[int, Any]:
        body = {"interaction_id": call, "reward": reward}
        return await self.post("rl/set_reward", body, self.key)

    async def end(self) -> tuple[int, Any]:
        return await self.post("rl/end_session", {}, self.key)

    async def export(self, style: str = "concat", discount: float = 1.0) -> tuple[int, Any]:
        body = {"session_id": self.session_id, "style": style, "discount": discount}
        return await self.post("export_trajectories", body)

    async def record(self) -> dict[str, Any]:
        status, body = await self.get(f"sessions/{self.session_id}")
        assert status == 200, body
        return dict(body)

    def openai(self, retries: int = 0) -> openai.AsyncOpenAI:
        client = openai.AsyncOpenAI(
            api_key=self.key, base_url=f"{self.url}/v1", max_retries=retries
        )
        self.clients.append(client)
        return client


@asynccontextmanager
async def proxy(
    upstream: Upstream, witness: Witness | None = None, **terms: Any
) -> AsyncIterator[Bench]:
    """A proxy with a session started."""
    async with (
        running(upstream, Terms(ADMIN, **terms)) as (url, app),
        aiohttp.ClientSession() as http,
    ):
        bench = Bench(url, app, witness, http)
        await bench.start()
        try:
            yield bench
        finally:
            for client in bench.clients:
                await client.close()


@asynccontextmanager
async def sampling_proxy(max_context: int = 512, **terms: Any) -> AsyncIterator[Bench]:
    """A proxy in front of a random model that really samples."""
    policy = HfPolicy(tiny_model(), EngineOptions(4, max_context))
    policy.version = 7
    witness = Witness(policy)
    async with proxy(PolicyUpstream(witness, policy.renderer, "tiny"), witness, **terms) as bench:
        yield bench


@asynccontextmanager
async def scripted_proxy(*answers: str | Exception, **terms: Any) -> AsyncIterator[Bench]:
    """A proxy in front of a script."""
    witness = Witness(Script(renderer(), answers))
    async with proxy(PolicyUpstream(witness, renderer(), "script"), witness, **terms) as bench:
        yield bench


@dataclass
class StandIn:
    """An OpenAI server that keeps what it got. Stands in for vLLM with a vision model."""

    reply: Callable[[Mapping[str, Any]], Mapping[str, Any] | int]
    asked: list[dict[str, Any]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body)
        reply = self.reply(body)
        if isinstance(reply, int):
            return web.json_response({"error": {"message": "no"}}, status=reply)
        return web.json_response(reply)


@asynccontextmanager
async def stand_in_proxy(
    reply: Callable[[Mapping[str, Any]], Mapping[str, Any] | int], **options: Any
) -> AsyncIterator[tuple[Bench, StandIn]]:
    """A proxy in front of an upstream server of our own making."""
    stand_in = StandIn(reply)
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", stand_in.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = Endpoint(
        "vision-model",
        f"http://127.0.0.1:{runner.addresses[0][1]}/v1",
        request_timeout_s=5,
        backoff=Backoff(attempts=2, first_wait_s=0.01, longest_wait_s=0.1),
        **{"wants_logprobs": True, "wants_token_ids": True, **options},
    )
    try:
        async with proxy(EndpointUpstream(endpoint)) as bench:
            yield bench, stand_in
    finally:
        await runner.cleanup()


def png(level: int = 0) -> bytes:
    """A picture of one grey pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes([0, level]))
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def broken(kind: str = "timeout") -> PolicyError:
    return PolicyError("the engine gave up", kind=kind)


def of_version(completion: Completion, version: int) -> Completion:
    return replace(completion, policy_version=version)
