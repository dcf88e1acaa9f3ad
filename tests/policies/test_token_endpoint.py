"""A server asked in token ids. It is a stand-in that answers as vLLM does: none runs here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from policies.proxy.proxies import Bench, proxy, renderer

from practicum.core.retry import Backoff
from practicum.policies.openai_endpoint import Endpoint
from practicum.policies.proxy.upstream import PolicyUpstream
from practicum.policies.token_endpoint import TokenEndpointPolicy


class TokenServer:
    """Says the same in the same ids, whatever it is asked."""

    def __init__(self, **changes: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self._changes = changes

    async def models(self, _: web.Request) -> web.Response:
        model = {"id": "m", "object": "model", "max_model_len": 300}
        return web.json_response({"object": "list", "data": self._changes.get("models", [model])})

    async def completions(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body)
        ids = renderer().answer_ids("go é")[: body["max_tokens"]]
        choice = {
            "index": 0,
            "text": "ignored",
            "finish_reason": "stop" if ids[-1] in renderer().stop_ids else "length",
            "token_ids": ids,
            "prompt_token_ids": body["prompt"],
            "logprobs": {"token_logprobs": [-0.25] * len(ids)},
            **self._changes.get("choice", {}),
        }
        head = {"id": "c", "object": "text_completion", "created": 0, "model": "m"}
        return web.json_response({**head, "choices": [choice]})


@asynccontextmanager
async def token_proxy(server: TokenServer) -> AsyncIterator[Bench]:
    app = web.Application()
    app.router.add_get("/v1/models", server.models)
    app.router.add_post("/v1/completions", server.completions)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    policy = TokenEndpointPolicy(Endpoint("m", url, backoff=Backoff(attempts=1)), renderer())
    try:
        async with proxy(PolicyUpstream(policy, renderer(), "m")) as bench:
            yield bench
    finally:
        await runner.cleanup()


async def ask(bench: Bench, messages: list[Any], **options: Any) -> Any:
    return await bench.openai().chat.completions.create(model="any", messages=messages, **options)


async def test_a_conversation_goes_back_in_the_ids_it_was_sampled_in() -> None:
    server = TokenServer()
    async with token_proxy(server) as bench:
        messages: list[Any] = [{"role": "user", "content": "Hello."}]
        for version in range(3):
            assert (await bench.post("set_version", {"version": version}))[0] == 200
            reply = await ask(bench, messages, max_tokens=4 if version == 1 else 50)
            messages += [reply.choices[0].message, {"role": "user", "content": "Go on."}]
        prompts = [asked["prompt"] for asked in server.asked]
        whole, cut = list(renderer().answer_ids("go é")), list(renderer().answer_ids("go é"))[:4]
        assert prompts[1][: len(prompts[0]) + 6] == prompts[0] + whole
        assert prompts[2][: len(prompts[1]) + 5] == prompts[1] + cut + whole[-1:]
        assert server.asked[0]["stop_token_ids"] == sorted(renderer().stop_ids)
        assert server.asked[0]["return_token_ids"] is True
        [sample] = (await bench.record())["samples"]
        pairs = list(zip(sample["token_ids"], sample["is_trained"], strict=True))
        assert [i for i, is_trained in pairs if is_trained] == whole + cut + whole
        versions = [v for v, t in zip(sample["versions"], sample["is_trained"], strict=True) if t]
        assert versions == [0] * 6 + [1] * 4 + [2] * 6


async def test_an_answer_may_take_the_room_that_is_left() -> None:
    server = TokenServer()
    async with token_proxy(server) as bench:
        await ask(bench, [{"role": "user", "content": "Hello."}])
        asked = server.asked[0]
        assert asked["max_tokens"] == 300 - len(asked["prompt"])
        status, body = await bench.post(
            "chat/completions", {"messages": [{"role": "user", "content": "x" * 300}]}, bench.key
        )
        assert (status, body["error"]["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"models": []}, "max_model_len"),
        ({"choice": {"token_ids": None}}, "return_token_ids"),
        ({"choice": {"logprobs": None}}, "return_token_ids"),
        ({"choice": {"prompt_token_ids": [1]}}, "another prompt"),
    ],
)
async def test_a_server_that_does_not_speak_in_ids_is_a_fault(
    changes: dict[str, Any], what: str
) -> None:
    async with token_proxy(TokenServer(**changes)) as bench:
        hello = {"messages": [{"role": "user", "content": "Hello."}]}
        status, body = await bench.post("chat/completions", hello, bench.key)
        assert (status, body["error"]["code"]) == (502, "policy/bad-reply")
        assert what in body["error"]["message"]


async def test_a_policy_in_this_process_counts_its_own_versions() -> None:
    from policies.proxy.proxies import scripted_proxy

    async with scripted_proxy() as bench:
        assert (await bench.post("set_version", {"version": 1}))[0] == 409
