"""The proxy in front of an upstream chat server, with pictures.

The server is a stand-in that keeps what it got: no vision model runs here.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import anthropic
import openai
import pytest
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner
from policies.proxy.proxies import png, stand_in_proxy
from support import require_program

PNG = base64.b64encode(png(1)).decode()
OTHER = base64.b64encode(png(2)).decode()
URL = f"data:image/png;base64,{PNG}"


def reply(
    text: str | None = "I see it.",
    prompt_ids: list[int] | None = None,
    ids: list[int] | None = None,
    logprobs: list[float] | None = None,
    **message: Any,
) -> dict[str, Any]:
    ids = [7, 8, 9] if ids is None else ids
    logprobs = [-0.1 * i for i in ids] if logprobs is None else logprobs
    content = [
        {"token": f"t{i}", "logprob": p, "bytes": None, "top_logprobs": []}
        for i, p in enumerate(logprobs)
    ]
    return {
        "id": "upstream",
        "object": "chat.completion",
        "created": 0,
        "model": "vision-model",
        "prompt_token_ids": prompt_ids or [1, 2, 3],
        "choices": [
            {
                "index": 0,
                "finish_reason": message.pop("finish_reason", "stop"),
                "message": {"role": "assistant", "content": text, **message},
                "logprobs": {"content": content},
                "token_ids": ids,
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": len(ids), "total_tokens": 3 + len(ids)},
    }


def growing(body: Mapping[str, Any]) -> dict[str, Any]:
    """A server whose template writes what it sampled as it was: prompts extend each other."""
    prompt = [1, 2, 3]
    for message in body["messages"][1:]:
        prompt += [7, 8, 9] if message["role"] == "assistant" else [4, 5]
    return reply(prompt_ids=prompt)


async def test_pictures_go_upstream_and_on_record() -> None:
    async with stand_in_proxy(growing) as (bench, server):
        client = bench.openai()
        messages: list[Any] = [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": URL, "detail": "high"}},
                ],
            }
        ]
        first = await client.chat.completions.create(model="any", messages=messages)
        messages += [
            first.choices[0].message,
            {
                "role": "user",
                "content": [
                    {
                        "type": "image_url",
                        "image_url": {"url": f"data:image/png;base64,{OTHER}"},
                    }
                ],
            },
        ]
        await client.chat.completions.create(model="any", messages=messages)
        assert server.asked[0]["model"] == "vision-model"
        assert server.asked[0]["messages"] == messages[:1]
        assert server.asked[1]["messages"][2] == messages[2]
        assert server.asked[0]["return_token_ids"] and server.asked[0]["logprobs"]

        assert (await bench.post("set_version", {"version": 4}))[0] == 200
        messages += [first.choices[0].message, {"role": "user", "content": "And now?"}]
        await client.chat.completions.create(model="any", messages=messages)
        await bench.reward(1.0)
        await bench.end()
        record = await bench.record()
        hashes = [hashlib.sha256(data).hexdigest() for data in (png(1), png(2))]
        assert [image["sha256"] for image in record["images"]] == hashes
        assert base64.b64decode(record["images"][0]["data"]) == png(1)
        [sample] = record["samples"]
        assert sample["images"] == hashes
        assert sum(sample["is_trained"]) == 9
        versions = [v for v, t in zip(sample["versions"], sample["is_trained"], strict=True) if t]
        assert versions == [0] * 6 + [4] * 3
        _, body = await bench.export()
        [row] = body["interactions"].values()
        assert [image["sha256"] for image in row["images"]] == hashes


async def test_pictures_of_every_form_reach_the_server() -> None:
    async with stand_in_proxy(growing) as (bench, server):
        client = bench.openai()
        item: Any = {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What?"},
                {"type": "input_image", "image_url": URL, "detail": "auto"},
            ],
        }
        await client.responses.create(model="any", input=[item])
        claude = anthropic.AsyncAnthropic(api_key=bench.key, base_url=bench.url)
        bench.clients.append(claude)
        source: Any = {"type": "base64", "media_type": "image/png", "data": PNG}
        result: Any = {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": [{"type": "image", "source": source}],
        }
        await claude.messages.create(
            model="any",
            max_tokens=50,
            messages=[
                {"role": "user", "content": [{"type": "image", "source": source}]},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}],
                },
                {"role": "user", "content": [result]},
            ],
        )
        agent = Agent(name="seer", model=OpenAIChatCompletionsModel("any", client))
        done = await Runner.run(agent, [item], run_config=RunConfig(tracing_disabled=True))
        assert done.final_output == "I see it."
        for asked, places in zip(server.asked, ((0,), (0, 2), (0,)), strict=True):
            for place in places:
                parts = asked["messages"][place]["content"]
                assert [p["image_url"]["url"] for p in parts if p["type"] == "image_url"] == [URL]
        assert all(
            len(call["asked"]["messages"]) and sample["images"]
            for call, sample in zip(
                (await bench.record())["calls"], (await bench.record())["samples"], strict=True
            )
        )


@pytest.mark.parametrize(
    "url", ["https://example.com/a.png", "", "data:image/png;base64,", "data:image/png;base64,%%"]
)
async def test_a_picture_that_cannot_be_kept_is_refused(url: str) -> None:
    async with stand_in_proxy(growing) as (bench, server):
        part: Any = {"type": "image_url", "image_url": {"url": url}}
        with pytest.raises(openai.BadRequestError, match="picture"):
            await bench.openai().chat.completions.create(
                model="any", messages=[{"role": "user", "content": [part]}]
            )
        assert server.asked == []
        record = await bench.record()
        assert (record["calls"], record["error"]) == ([], None)


async def test_options_tools_and_further_fields_pass_in_both_directions() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}

    def answer(body: Mapping[str, Any]) -> dict[str, Any]:
        return reply(None, tool_calls=[call], reasoning_content="hm", finish_reason="tool_calls")

    async with stand_in_proxy(answer) as (bench, server):
        client = bench.openai()
        tool: Any = {"type": "function", "function": {"name": "look", "strict": True}}
        hello: list[Any] = [{"role": "user", "content": "Hello.", "name": "Bob"}]
        first = await client.chat.completions.create(
            model="any",
            messages=hello,
            tools=[tool],
            tool_choice="required",
            response_format={"type": "json_object"},
            seed=3,
            stop=["x"],
            max_completion_tokens=9,
            extra_body={"top_k": 5},
        )
        asked = server.asked[0]
        for name, value in {
            "tools": [tool],
            "tool_choice": "required",
            "response_format": {"type": "json_object"},
            "seed": 3,
            "stop": ["x"],
            "max_tokens": 9,
            "top_k": 5,
            "messages": hello,
        }.items():
            assert asked[name] == value
        message = first.choices[0].message
        assert message.tool_calls is not None and message.tool_calls[0].id == "c1"
        assert message.model_extra == {"reasoning_content": "hm"}
        messages = [*hello, message, {"role": "tool", "tool_call_id": "c1", "content": "ok"}]
        await client.chat.completions.create(model="any", messages=messages, tools=[tool])
        assert server.asked[1]["messages"][1]["reasoning_content"] == "hm"
        parents = [call["parent"] for call in (await bench.record())["calls"]]
        assert parents == [None, first.id]


async def test_prompts_that_the_server_wrote_differently_are_not_merged() -> None:
    """It tokenised its own answer anew: the second prompt does not begin with the first."""

    def answer(body: Mapping[str, Any]) -> dict[str, Any]:
        return reply(prompt_ids=[1, 2, 3, 78, 9, 4] if len(body["messages"]) > 1 else [1, 2, 3])

    async with stand_in_proxy(answer) as (bench, _):
        client = bench.openai()
        hello: list[Any] = [{"role": "user", "content": "Hello."}]
        first = await client.chat.completions.create(model="any", messages=hello)
        messages = [*hello, first.choices[0].message, {"role": "user", "content": "more"}]
        await client.chat.completions.create(model="any", messages=messages)
        record = await bench.record()
        assert record["calls"][1]["parent"] == first.id
        assert [sum(sample["is_trained"]) for sample in record["samples"]] == [3, 3]


async def test_a_server_without_ids_can_be_used_but_not_trained_on() -> None:
    def answer(body: Mapping[str, Any]) -> dict[str, Any]:
        body_ = reply()
        del body_["choices"][0]["token_ids"], body_["prompt_token_ids"]
        return body_

    async with stand_in_proxy(answer) as (bench, _):
        await bench.openai().chat.completions.create(
            model="any", messages=[{"role": "user", "content": "Hello."}]
        )
        await bench.reward(1.0)
        await bench.end()
        status, body = await bench.export()
        assert (status, body["error"]["code"]) == (409, "no-token-ids")
        assert "endpoint.token_ids=true" in body["error"]["message"]
        assert (await bench.record())["samples"] is None


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (500, 502, "policy/server-error"),
        (401, 502, "policy/refused"),
        (400, 400, "upstream-refused"),
        ({"choices": []}, 502, "policy/bad-reply"),
        (reply(logprobs=[-1.0]), 502, "policy/bad-reply"),
        (reply(finish_reason="content_filter"), 502, "policy/bad-reply"),
    ],
)
async def test_faults_of_the_server_have_names(answer: Any, status: int, code: str) -> None:
    async with stand_in_proxy(lambda _: answer) as (bench, _):
        with pytest.raises(openai.APIStatusError) as caught:
            await bench.openai().chat.completions.create(
                model="any", messages=[{"role": "user", "content": "Hello."}]
            )
        assert (caught.value.status_code, caught.value.code) == (status, code)
        record = await bench.record()
        assert [fault["kind"] for fault in record["faults"]] == ([code] if status == 502 else [])


async def test_a_conversation_with_pictures_is_kept_once() -> None:
    async with stand_in_proxy(growing) as (bench, _):
        client = bench.openai()
        part = {"type": "image_url", "image_url": {"url": URL}}
        messages: list[Any] = [{"role": "user", "content": [part]}]
        for _ in range(3):
            reply_ = await client.chat.completions.create(model="any", messages=messages)
            messages += [reply_.choices[0].message, {"role": "user", "content": [part]}]
        session = bench.app.sessions.get(bench.session_id)
        first, _, last = session.calls.values()
        assert last.ask.messages[0].images[0] is first.ask.messages[0].images[0]
        assert len(last.ask.messages) == 5


async def test_a_call_that_the_form_cannot_write_is_a_fault() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{"}}

    def answer(body: Mapping[str, Any]) -> dict[str, Any]:
        return reply(None, tool_calls=[call], finish_reason="tool_calls")

    async with stand_in_proxy(answer) as (bench, _):
        body = {"max_tokens": 5, "messages": [{"role": "user", "content": "Hello."}]}
        status, told = await bench.post("v1/messages", body, bench.key)
        assert (status, told["error"]["code"]) == (502, "policy/bad-reply")
        record = await bench.record()
        assert (record["calls"], record["error"]["kind"]) == ([], "policy/bad-reply")


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_curl_sends_a_picture_and_gets_a_call(is_streamed: bool) -> None:
    require_program("curl", "apt-get install curl")
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}

    def answer(body: Mapping[str, Any]) -> dict[str, Any]:
        return reply(None, tool_calls=[call], finish_reason="tool_calls")

    async with stand_in_proxy(answer) as (bench, server):
        part = {"type": "image_url", "image_url": {"url": URL}}
        body = {
            "messages": [{"role": "user", "content": [part]}],
            "tools": [{"type": "function", "function": {"name": "look"}}],
            "stream": is_streamed,
        }
        process = await asyncio.create_subprocess_exec(
            "curl", "-sS", f"{bench.url}/v1/chat/completions",
            "-H", f"Authorization: Bearer {bench.key}", "-d", json.dumps(body),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await process.communicate()
        if is_streamed:
            lines = [line.removeprefix("data: ") for line in out.decode().splitlines() if line]
            assert lines[-1] == "[DONE]"
            deltas = [json.loads(line)["choices"][0]["delta"] for line in lines[:-1]]
            [calls] = [delta["tool_calls"] for delta in deltas if "tool_calls" in delta]
            assert calls == [{**call, "index": 0}]
        else:
            assert json.loads(out)["choices"][0]["message"]["tool_calls"] == [call]
        assert server.asked[0]["messages"] == body["messages"]
        [recorded] = (await bench.record())["calls"]
        assert (recorded["token_ids"], recorded["prompt_token_ids"]) == ([7, 8, 9], [1, 2, 3])
