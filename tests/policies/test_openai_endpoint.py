"""The endpoint policy against a real HTTP server that misbehaves in every way we know."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from practicum.core.agent import Prompt, Sampling, Situation
from practicum.core.episode import Completion
from practicum.core.errors import PolicyError
from practicum.core.message import Image, Message, Observation
from practicum.core.retry import Backoff
from practicum.core.task import Task
from practicum.policies.openai_endpoint import Endpoint, OpenAIPolicy

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
TASK = Task.create("e", "p", {})


def make_prompt(*messages: Message) -> Prompt:
    situation = Situation(TASK, 0, (), Observation("o"), seed=5)
    return Prompt(messages or (Message("system", "s"), Message("user", "u")), situation)


def completion(text: str = "Action: go", **extra: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "finish_reason": extra.pop("finish_reason", "stop"),
        "message": {"role": "assistant", "content": text},
        **extra.pop("choice", {}),
    }
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        **extra,
    }


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        await runner.cleanup()


async def ask(handler: Handler, prompt: Prompt | None = None, **options: Any) -> Completion:
    async with serve(handler) as url:
        return await ask_at(url, prompt, **options)


async def ask_at(url: str, prompt: Prompt | None = None, **options: Any) -> Completion:
    backoff = options.pop("backoff", Backoff(attempts=3, first_wait_s=0.01, longest_wait_s=1))
    options.setdefault("request_timeout_s", 5.0)
    policy = OpenAIPolicy(Endpoint("m", url, backoff=backoff, **options))
    try:
        return await policy.complete(prompt or make_prompt(), Sampling(0.5, 0.9, 33))
    finally:
        await policy.aclose()


async def error_of(handler: Handler, **options: Any) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        await ask(handler, **options)
    return caught.value


async def test_an_answer_keeps_token_ids_and_logprobs() -> None:
    seen: dict[str, Any] = {}

    async def handler(request: web.Request) -> web.Response:
        seen.update(await request.json())
        seen["key"] = request.headers["Authorization"]
        logprobs = {
            "content": [
                {"token": "a", "logprob": -0.5, "bytes": None, "top_logprobs": []},
                {"token": "b", "logprob": -1.5, "bytes": None, "top_logprobs": []},
            ]
        }
        return web.json_response(
            completion(
                "ab",
                choice={"logprobs": logprobs, "token_ids": [7, 8]},
                prompt_token_ids=[1, 2, 3],
                finish_reason="length",
            )
        )

    answer = await ask(
        handler, wants_logprobs=True, wants_token_ids=True, sends_seed=True, api_key="secret"
    )
    assert answer == Completion("ab", "length", (1, 2, 3), (7, 8), (-0.5, -1.5))
    assert seen["messages"] == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
    ]
    assert (seen["temperature"], seen["top_p"], seen["max_tokens"]) == (0.5, 0.9, 33)
    assert (seen["logprobs"], seen["return_token_ids"], seen["seed"]) == (True, True, 5)
    assert seen["key"] == "Bearer secret"


async def test_nothing_unusual_is_asked_of_a_plain_server() -> None:
    seen: dict[str, Any] = {}

    async def handler(request: web.Request) -> web.Response:
        seen.update(await request.json())
        return web.json_response(completion())

    assert await ask(handler) == Completion("Action: go")
    assert set(seen) == {"model", "messages", "temperature", "top_p", "max_tokens"}


async def test_pictures_travel_as_data_uris() -> None:
    seen: dict[str, Any] = {}

    async def handler(request: web.Request) -> web.Response:
        seen.update(await request.json())
        return web.json_response(completion())

    await ask(handler, make_prompt(Message("user", "look", (Image(b"png"),))))
    assert seen["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
        {"type": "text", "text": "look"},
    ]


async def test_retry_after_is_honoured_and_the_wait_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times: list[float] = []

    async def handler(request: web.Request) -> web.Response:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            return web.json_response(
                {"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "0.3"}
            )
        return web.json_response(completion())

    assert (await ask(handler)).text == "Action: go"
    assert times[1] - times[0] >= 0.3
    assert "asking again in 0.3" in caplog.text


async def test_a_wait_beyond_the_bound_is_not_waited() -> None:
    calls = []

    async def handler(request: web.Request) -> web.Response:
        calls.append(1)
        return web.json_response({}, status=429, headers={"Retry-After": "9999"})

    assert (await error_of(handler)).kind == "rate-limited"
    assert len(calls) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
async def test_transient_failures_are_retried(status: int) -> None:
    calls: list[int] = []

    async def handler(request: web.Request) -> web.Response:
        calls.append(1)
        if len(calls) < 3:
            return web.Response(status=status, text="busy")
        return web.json_response(completion())

    assert (await ask(handler)).text == "Action: go"
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("status", "kind", "num_calls"),
    [
        (500, "server-error", 3),
        (429, "rate-limited", 3),
        (401, "refused", 1),
        (404, "refused", 1),
        (400, "refused", 1),
    ],
)
async def test_lasting_failures_are_named_after_bounded_tries(
    status: int, kind: str, num_calls: int
) -> None:
    calls: list[int] = []

    async def handler(request: web.Request) -> web.Response:
        calls.append(1)
        return web.json_response({"error": {"message": "no such model"}}, status=status)

    assert (await error_of(handler)).kind == kind
    assert len(calls) == num_calls


@pytest.mark.parametrize(("fails", "num_calls"), [("drop", 1), ("html", 1), ("status", 3)])
async def test_a_server_that_keeps_answers_is_asked_again_only_if_it_gave_none(
    fails: str, num_calls: int
) -> None:
    calls: list[int] = []

    async def handler(request: web.Request) -> web.Response:
        calls.append(1)
        if fails == "drop":
            assert request.transport is not None
            request.transport.abort()
        is_status = fails == "status"
        return web.Response(
            status=500 if is_status else 200, text="{", content_type="application/json"
        )

    await error_of(handler, repeats_unanswered=False)
    assert len(calls) == num_calls


async def test_areals_proxy_says_that_the_context_is_full_with_a_server_error() -> None:
    async def handler(_: web.Request) -> web.Response:
        detail = "len of prompt tokens 5000 exceeds max_total_tokens 4096"
        return web.json_response({"detail": detail}, status=500)

    assert (await ask(handler)).finish == "context"


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "x", "code": "context_length_exceeded"}},
        {"error": {"message": "This model's maximum context length is 4096 tokens."}},
        {"message": "the prompt exceeds the model's context window", "object": "error"},
    ],
)
async def test_a_full_context_is_no_fault(body: dict[str, Any]) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.json_response(body, status=400)

    assert (await ask(handler)).finish == "context"


async def test_html_is_a_bad_reply() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="<html>login</html>", content_type="text/html")

    error = await error_of(handler)
    assert error.kind == "bad-reply"
    assert "base URL" in str(error)


@pytest.mark.parametrize(
    "text", ["{", "", "null", "[]", '"hi"', '{"choices": []}', '{"object": "list"}', "{}"]
)
async def test_broken_json_is_a_bad_reply(text: str) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text=text, content_type="application/json")

    assert (await error_of(handler)).kind == "bad-reply"


async def test_a_body_that_breaks_off_is_named() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        response.content_type = "application/json"
        await response.prepare(request)
        await response.write(json.dumps(completion())[:40].encode())
        assert request.transport is not None
        request.transport.abort()
        return response

    assert (await error_of(handler)).kind == "unreachable"


async def test_a_silent_server_is_a_timeout() -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    error = await error_of(
        handler, request_timeout_s=0.1, backoff=Backoff(attempts=2, first_wait_s=0.01)
    )
    assert error.kind == "timeout"


async def test_a_server_that_is_down_is_unreachable() -> None:
    with pytest.raises(PolicyError, match="cannot reach") as caught:
        await ask_at("http://127.0.0.1:9/v1")
    assert caught.value.kind == "unreachable"


async def test_an_answer_without_text_is_empty() -> None:
    async def handler(request: web.Request) -> web.Response:
        body = completion()
        body["choices"][0]["message"]["content"] = None
        return web.json_response(body)

    assert (await ask(handler)).text == ""
