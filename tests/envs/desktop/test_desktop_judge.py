"""The judge of screenshots: asked once per content, and never guessed for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from practicum.core.errors import ConfigError, RewardError
from practicum.core.message import Image
from practicum.core.retry import Backoff
from practicum.envs.desktop.judge import ScreenJudge
from practicum.envs.desktop.verdict import Verdict, verdict_of

PICTURE = Image(b"not really a picture")
FAST = Backoff(attempts=3, first_wait_s=0.01)


class Endpoint:
    """Stands in for a vision-language model's server: says what a test wants, in order."""

    def __init__(self, *says: str | int) -> None:
        self.says = list(says)
        self.requests: list[dict[str, object]] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(await request.json())
        said = self.says.pop(0)
        if isinstance(said, int):
            return web.Response(status=said)
        choice = {"index": 0, "finish_reason": "stop"}
        message = {"role": "assistant", "content": said}
        return web.json_response(
            {"id": "1", "object": "chat.completion", "created": 0, "model": "vl"}
            | {"choices": [choice | {"message": message}]}
        )


@asynccontextmanager
async def asked(endpoint: Endpoint, cache: Path) -> AsyncIterator[ScreenJudge]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", endpoint.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    judge = ScreenJudge(f"vl@http://127.0.0.1:{port}/v1", cache, backoff=FAST)
    try:
        yield judge
    finally:
        await judge.aclose()
        await runner.cleanup()


def verdict(word: str) -> str:
    return json.dumps({"reason": "it is so", "verdict": word})


async def test_the_same_question_is_asked_once(tmp_path: Path) -> None:
    endpoint = Endpoint(verdict("yes"), f"```json\n{verdict('no')}\n```")
    async with asked(endpoint, tmp_path) as judge:
        assert await judge(PICTURE, "Is it red?")
        assert await judge(PICTURE, "Is it red?")
        assert not await judge(PICTURE, "Is it blue?")
    assert len(endpoint.requests) == 2


async def test_a_server_that_stumbles_is_asked_again(tmp_path: Path) -> None:
    async with asked(Endpoint(503, 429, verdict("yes")), tmp_path) as judge:
        assert await judge(PICTURE, "Is it red?")


@pytest.mark.parametrize("said", ["maybe", "{}", '{"verdict": "unsure"}', "", 400])
async def test_what_is_no_verdict_is_an_error_and_is_not_kept(
    tmp_path: Path, said: str | int
) -> None:
    async with asked(Endpoint(said, verdict("yes")), tmp_path) as judge:
        with pytest.raises(RewardError) as caught:
            await judge(PICTURE, "Is it red?")
        assert verdict_of(caught.value) is Verdict.INFRASTRUCTURE_ERROR
        assert await judge(PICTURE, "Is it red?")


def test_a_judge_needs_a_model_and_a_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="MODEL@BASE_URL"):
        ScreenJudge("gpt", tmp_path)
