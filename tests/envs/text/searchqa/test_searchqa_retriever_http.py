"""The client of retrieval services, against real servers on this machine."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support import require

from practicum.core.errors import ConfigError, EnvError
from practicum.core.message import Action
from practicum.core.retry import Backoff
from practicum.envs.contract import transcript
from practicum.envs.text.searchqa.env import create
from practicum.envs.text.searchqa.lands.passages import load_passages
from practicum.envs.text.searchqa.retriever import Document, PassageIndex
from practicum.envs.text.searchqa.retriever_http import HttpRetriever
from practicum.envs.text.searchqa.tasks import PANELS

if find_spec("aiohttp") is not None:
    from aiohttp import web

Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]

QUICK = Backoff(attempts=3, first_wait_s=0.01, longest_wait_s=0.1)
ONE_HIT = {"document": {"id": "7", "contents": '"Oslo"\nA city.'}, "score": 1.5}


@pytest.fixture(autouse=True)
def _needs_aiohttp() -> None:
    require("aiohttp", "pip install 'practicum[searchqa]'")


@asynccontextmanager
async def service(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/retrieve", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}/retrieve"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client(url: str, timeout_s: float = 5.0) -> AsyncIterator[HttpRetriever]:
    retriever = HttpRetriever(url, timeout_s=timeout_s, backoff=QUICK)
    try:
        yield retriever
    finally:
        await retriever.aclose()


def answering(body: Any) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response(body)

    return handle


async def fault_of(handler: Handler, timeout_s: float = 5.0) -> EnvError:
    async with service(handler) as url, client(url, timeout_s) as retriever:
        with pytest.raises(EnvError) as caught:
            await retriever.retrieve("a city", 3)
    assert url in str(caught.value)
    return caught.value


async def test_a_search_is_sent_and_read_as_search_r1_does() -> None:
    seen: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(await request.json())
        return web.json_response({"result": [[ONE_HIT]]})

    async with service(handle) as url, client(url) as retriever:
        assert await retriever.retrieve("a city", 3) == [Document("7", "Oslo", "A city.")]
    assert seen == [{"queries": ["a city"], "topk": 3, "return_scores": True}]


async def test_no_more_than_the_wanted_passages_are_taken() -> None:
    async with service(answering({"result": [[ONE_HIT] * 9]})) as url, client(url) as retriever:
        assert len(await retriever.retrieve("a city", 3)) == 3


async def test_hits_without_scores_are_read() -> None:
    body = {"result": [[{"id": 7, "contents": "Oslo\nA city."}]]}
    async with service(answering(body)) as url, client(url) as retriever:
        assert await retriever.retrieve("a city", 3) == [Document("7", "Oslo", "A city.")]


async def test_a_service_that_is_down_is_unreachable() -> None:
    async with service(answering({})) as url:
        pass
    async with client(url) as retriever:
        with pytest.raises(EnvError, match="is it running") as caught:
            await retriever.retrieve("a city", 3)
    assert caught.value.kind == "unreachable"


@pytest.mark.parametrize(
    ("status", "kind", "num_calls"),
    [
        (500, "server-error", 3),
        (503, "server-error", 3),
        (429, "server-error", 3),
        (404, "bad-request", 1),
        (422, "bad-request", 1),
    ],
)
async def test_an_error_status_is_a_named_fault(status: int, kind: str, num_calls: int) -> None:
    calls = 0

    async def handle(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.Response(status=status, text="Internal Server Error")

    assert (await fault_of(handle)).kind == kind
    assert calls == num_calls


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>Bad gateway</body></html>",
        b'{"result": [[{"document"',
        b"",
        b"null",
        b"[]",
        b'{"error": "no index"}',
        b'{"result": []}',
        b'{"result": [[], []]}',
        b'{"result": [[{"document": {"id": 1}}]]}',
        b'{"result": [[{"document": {"contents": null}}]]}',
        b'{"result": [["text"]]}',
        b'{"result": [[null]]}',
        b'{"result": [7]}',
        b"\xff\xfe\x00",
        b"[" * 200_000,
    ],
)
async def test_a_wrong_body_is_a_bad_response(body: bytes) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    assert (await fault_of(handle)).kind == "bad-response"


async def test_an_endless_body_is_a_bad_response() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 2**20)

    assert (await fault_of(handle)).kind == "bad-response"


async def test_a_silent_service_is_a_timeout_within_the_deadline() -> None:
    async def handle(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        raise AssertionError

    start = time.monotonic()
    assert (await fault_of(handle, timeout_s=0.3)).kind == "timeout"
    assert time.monotonic() - start < 3


async def test_a_connection_dropped_in_the_answer_is_tried_again() -> None:
    calls = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal calls
        calls += 1
        if calls == 1:
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b'{"result"')
            assert request.transport is not None
            request.transport.close()
            return response
        return web.json_response({"result": [[ONE_HIT]]})

    async with service(handle) as url, client(url) as retriever:
        assert len(await retriever.retrieve("a city", 3)) == 1
    assert calls == 2


async def test_a_busy_service_is_asked_again_when_it_says() -> None:
    times: list[float] = []

    async def handle(request: web.Request) -> web.Response:
        times.append(time.monotonic())
        if len(times) == 1:
            return web.Response(status=503, headers={"Retry-After": "0.05"})
        return web.json_response({"result": [[ONE_HIT]]})

    async with service(handle) as url, client(url) as retriever:
        assert len(await retriever.retrieve("a city", 3)) == 1
    assert times[1] - times[0] >= 0.05


async def test_cancelling_a_search_leaves_the_client_usable() -> None:
    calls = 0

    async def handle(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(30)
        return web.json_response({"result": [[ONE_HIT]]})

    async with service(handle) as url, client(url) as retriever:
        search = asyncio.create_task(retriever.retrieve("a city", 3))
        while calls == 0:
            await asyncio.sleep(0.01)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        assert len(await retriever.retrieve("a city", 3)) == 1


async def test_closing_twice_is_harmless() -> None:
    async with service(answering({"result": [[ONE_HIT]]})) as url, client(url) as retriever:
        await retriever.retrieve("a city", 3)
        await retriever.aclose()
        assert len(await retriever.retrieve("a city", 3)) == 1


def test_an_address_without_a_scheme_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="must start with http"):
        HttpRetriever("localhost:8000")


async def test_the_expert_wins_through_a_service(tmp_path: Path) -> None:
    require("bm25s", "pip install 'practicum[searchqa]'")
    index = PassageIndex(load_passages())

    async def handle(request: web.Request) -> web.Response:
        wanted = await request.json()
        hits = index.search(wanted["queries"][0], wanted["topk"])
        listed = [
            {"document": {"id": d.id, "contents": f'"{d.title}"\n{d.text}'}, "score": 1.0}
            for d in hits
        ]
        return web.json_response({"result": [listed]})

    tasks = PANELS.load("dev").tasks[::20]
    rows = [{"question": t.prompt, "golden_answers": t.data["golden_answers"]} for t in tasks]
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    async with service(handle) as url:
        remote, local = create(questions=questions, retriever_url=url), create()
        expert = remote.scripts["expert"]
        played = [transcript(remote, task, expert) for task in remote.panel("test")]
        for task, (turns, last) in zip(tasks, await asyncio.gather(*played), strict=True):
            assert last is not None and last.is_success
            assert turns == (await transcript(local, task, expert))[0]
        await remote.aclose()


async def test_a_fault_in_a_search_breaks_the_episode_and_is_not_an_answer(tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "Which city?", "golden_answers": ["Oslo"]}\n')
    async with service(answering({"error": "no index"})) as url:
        environment = create(questions=questions, retriever_url=url)
        async with environment.open(environment.panel("test").tasks[0]) as env:
            with pytest.raises(EnvError):
                await env.step(Action("<search>city</search>"))
        await environment.aclose()
