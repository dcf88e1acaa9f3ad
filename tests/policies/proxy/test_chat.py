"""OpenAI's chat completions through the proxy, with OpenAI's own SDK and with curl."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from policies.proxy.proxies import png, sampling_proxy, scripted_proxy
from support import require_program

from practicum.core.agent import Prompt, Sampling, Situation
from practicum.core.message import Message, Observation
from practicum.core.task import Task

MESSAGES: list[Any] = [
    {"role": "system", "content": "You play."},
    {"role": "user", "content": "Go on."},
]
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Says how the weather is.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'


async def test_recorded_ids_are_what_was_sampled() -> None:
    async with sampling_proxy() as bench:
        client = bench.openai()
        reply = await client.chat.completions.create(
            model="any", messages=MESSAGES, max_tokens=12, seed=5, logprobs=True, temperature=0.7
        )
        record = await bench.record()
        assert bench.witness is not None
        sampled = bench.witness.completions[0]
        [call] = record["calls"]
        assert call["id"] == reply.id
        assert call["prompt_token_ids"] == list(sampled.prompt_token_ids or ())
        assert call["token_ids"] == list(sampled.token_ids or ())
        assert call["logprobs"] == list(sampled.logprobs or ())
        assert call["policy_version"] == 7
        assert reply.choices[0].message.content == sampled.text
        told = reply.choices[0].logprobs
        assert told is not None and told.content is not None
        assert [token.logprob for token in told.content] == list(sampled.logprobs or ())
        assert reply.usage is not None
        assert reply.usage.completion_tokens == len(sampled.token_ids or ())

        # The same prompt, seed and settings asked of the policy itself.
        messages = (Message("system", "You play."), Message("user", "Go on."))
        situation = Situation(Task.create("e", "", {}), 0, (), Observation("Go on."), seed=5)
        again = await bench.witness.complete(Prompt(messages, situation), Sampling(0.7, 1, 12))
        assert again.token_ids == sampled.token_ids


async def test_a_conversation_that_grows_is_one_sequence_of_what_was_sampled() -> None:
    async with sampling_proxy() as bench:
        client = bench.openai()
        messages = list(MESSAGES)
        for number in range(4):
            reply = await client.chat.completions.create(
                model="any", messages=messages, max_tokens=9
            )
            messages.append(reply.choices[0].message)
            messages.append({"role": "user", "content": f"Observation {number}."})
        assert (await bench.reward(1.0))[0] == 200
        assert await bench.end() == (200, {"message": "success", "interaction_count": 4})
        [sample] = (await bench.record())["samples"]
        assert bench.witness is not None
        said = bench.witness.completions
        sampled = [i for completion in said for i in completion.token_ids or ()]
        pairs = list(zip(sample["token_ids"], sample["is_trained"], strict=True))
        assert [i for i, is_trained in pairs if is_trained] == sampled
        last = said[-1]
        assert sample["token_ids"] == [*(last.prompt_token_ids or ()), *(last.token_ids or ())]
        kept = [p for p, t in zip(sample["logprobs"], sample["is_trained"], strict=True) if t]
        assert kept == [p for completion in said for p in completion.logprobs or ()]
        assert {v for v, (_, t) in zip(sample["versions"], pairs, strict=True) if t} == {7}
        assert sample["reward"] == 1.0


async def test_a_stream_says_what_an_answer_says() -> None:
    async with scripted_proxy("Bonjour, é!", "Bonjour, é!") as bench:
        client = bench.openai()
        stream = await client.chat.completions.create(
            model="any",
            messages=MESSAGES,
            stream=True,
            logprobs=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert text == "Bonjour, é!"
        assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
        whole = await client.chat.completions.create(model="any", messages=MESSAGES)
        assert chunks[-1].usage == whole.usage
        assert whole.choices[0].message.content == text
        [first, second] = (await bench.record())["calls"]
        assert first["id"] == chunks[0].id
        assert first["token_ids"] == second["token_ids"]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_tools_are_shown_called_and_answered(is_streamed: bool) -> None:
    async with scripted_proxy(f"Let me look.\n{CALL}", "It rains.") as bench:
        client = bench.openai()
        messages = list(MESSAGES)
        if is_streamed:
            async with client.chat.completions.stream(
                model="any", messages=messages, tools=[WEATHER]
            ) as stream:
                choice: Any = (await stream.get_final_completion()).choices[0]
        else:
            reply = await client.chat.completions.create(
                model="any", messages=messages, tools=[WEATHER]
            )
            choice = reply.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "Let me look."
        [call] = choice.message.tool_calls
        assert call.function.name == "weather"
        assert json.loads(call.function.arguments) == {"city": "Köln"}
        # As a dictionary with everything that an SDK adds.
        messages.append(choice.message.model_dump())
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "rain"})
        reply = await client.chat.completions.create(
            model="any", messages=messages, tools=[WEATHER]
        )
        assert reply.choices[0].message.content == "It rains."

        assert bench.witness is not None
        shown = bench.witness.prompts[1].messages
        assert '"name": "weather"' in shown[0].text
        assert shown[-1] == Message("user", "<tool_response>\nrain\n</tool_response>")
        [sample] = (await bench.record())["samples"]
        assert sum(sample["is_trained"]) == sum(
            len(c.token_ids or ()) for c in bench.witness.completions
        )


async def test_several_answers_are_several_calls_of_which_one_is_gone_on_from() -> None:
    async with scripted_proxy("one", "two", "three") as bench:
        client = bench.openai()
        reply = await client.chat.completions.create(model="any", messages=MESSAGES, n=2)
        assert [c.message.content for c in reply.choices] == ["one", "two"]
        messages = [*MESSAGES, reply.choices[0].message, {"role": "user", "content": "more"}]
        await client.chat.completions.create(model="any", messages=messages)
        record = await bench.record()
        ids = [call["id"] for call in record["calls"]]
        assert ids[:2] == [f"{reply.id}-0", f"{reply.id}-1"]
        assert [call["parent"] for call in record["calls"]] == [None, None, ids[0]]
        assert [sample["id"] for sample in record["samples"]] == ids[1:]
        assert (await bench.reward(1, reply.id))[0] == 422
        assert (await bench.reward(1, ids[1]))[0] == 200


async def test_stop_ends_an_answer_and_what_is_beyond_is_not_exported() -> None:
    async with scripted_proxy("Action: go north END and more", "next") as bench:
        client = bench.openai()
        reply = await client.chat.completions.create(
            model="any", messages=MESSAGES, stop=["END", "absent"]
        )
        assert reply.choices[0].message.content == "Action: go north "
        assert reply.choices[0].finish_reason == "stop"
        messages = [*MESSAGES, reply.choices[0].message, {"role": "user", "content": "more"}]
        await client.chat.completions.create(model="any", messages=messages)
        record = await bench.record()
        assert record["calls"][0]["text"] == "Action: go north END"
        assert len(record["calls"][0]["token_ids"]) == len("Action: go north END")
        [sample] = record["samples"]
        assert sum(sample["is_trained"]) == len("Action: go north END") + len("next") + 1


async def test_calls_can_be_limited_to_one() -> None:
    async with scripted_proxy(f"{CALL}\n{CALL}", f"{CALL}\n{CALL}") as bench:
        client = bench.openai()
        several = await client.chat.completions.create(
            model="any", messages=MESSAGES, tools=[WEATHER]
        )
        assert len(several.choices[0].message.tool_calls or ()) == 2
        one = await client.chat.completions.create(
            model="any", messages=MESSAGES, tools=[WEATHER], parallel_tool_calls=False
        )
        assert len(one.choices[0].message.tool_calls or ()) == 1
        assert (await bench.record())["calls"][1]["text"] == CALL


@pytest.mark.parametrize(
    "written",
    ["<tool_call>\nnot json\n</tool_call>", f"{CALL}\nand words behind it", '<tool_call>\n{"name"'],
)
async def test_what_is_no_call_is_text(written: str) -> None:
    async with scripted_proxy(written) as bench:
        reply = await bench.openai().chat.completions.create(
            model="any", messages=MESSAGES, tools=[WEATHER]
        )
        assert reply.choices[0].message.content == written
        assert reply.choices[0].message.tool_calls is None
        assert reply.choices[0].finish_reason == "stop"


async def test_an_answer_may_be_cut_or_empty() -> None:
    async with scripted_proxy("a long answer", "") as bench:
        client = bench.openai()
        cut = await client.chat.completions.create(model="any", messages=MESSAGES, max_tokens=6)
        assert (cut.choices[0].message.content, cut.choices[0].finish_reason) == (
            "a long",
            "length",
        )
        empty = await client.chat.completions.create(model="any", messages=MESSAGES)
        assert empty.choices[0].message.content == ""
        assert [len(call["token_ids"]) for call in (await bench.record())["calls"]] == [6, 1]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("response_format", {"type": "json_object"}),
        ("frequency_penalty", 0.5),
        ("logit_bias", {"5": 1}),
        ("top_logprobs", 3),
        ("tool_choice", "required"),
        ("reasoning_effort", "high"),
        ("top_k", 5),
        ("temprature", 0.5),
        ("functions", [{"name": "f"}]),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name(option: str, value: Any) -> None:
    async with scripted_proxy("unasked") as bench:
        with pytest.raises(openai.BadRequestError, match=option) as caught:
            await bench.openai().chat.completions.create(
                model="any", messages=MESSAGES, extra_body={option: value}
            )
        assert caught.value.param == option
        record = await bench.record()
        assert (record["calls"], record["faults"], record["error"]) == ([], [], None)


async def test_what_asks_for_nothing_is_taken() -> None:
    async with scripted_proxy("fine") as bench:
        reply = await bench.openai().chat.completions.create(
            model="gpt-9",
            messages=MESSAGES,
            frequency_penalty=0,
            response_format={"type": "text"},
            tool_choice="auto",
            user="me",
            metadata={"run": "1"},
        )
        assert reply.model == "script"
        [call] = (await bench.record())["calls"]
        assert call["asked"]["labels"] == {"user": "me", "metadata": {"run": "1"}, "model": "gpt-9"}


@pytest.mark.parametrize(
    ("messages", "what"),
    [
        ([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}], "system message"),
        ([{"role": "system", "content": "b"}], "no message to answer"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "last message"),
        ([{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}], "user begins"),
        ([{"role": "tool", "content": "a"}], "tool_call_id"),
        ([{"role": "user", "content": "a", "name": "Bob"}], "name"),
        (
            [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b", "reasoning_content": "hm"},
                {"role": "user", "content": "c"},
            ],
            "reasoning_content",
        ),
        ([{"role": "robot", "content": "a"}], "role"),
        ([], "messages"),
    ],
)
async def test_a_conversation_that_no_template_can_write_is_refused(
    messages: list[Any], what: str
) -> None:
    async with scripted_proxy("unasked") as bench:
        with pytest.raises(openai.BadRequestError, match=what):
            await bench.openai().chat.completions.create(model="any", messages=messages)


async def test_a_text_model_refuses_pictures_and_a_full_context_by_name() -> None:
    import base64

    url = "data:image/png;base64," + base64.b64encode(png()).decode()
    async with sampling_proxy(max_context=64) as bench:
        client = bench.openai()
        part = {"type": "image_url", "image_url": {"url": url}}
        with pytest.raises(openai.BadRequestError, match="image") as caught:
            await client.chat.completions.create(
                model="any", messages=[{"role": "user", "content": [part]}]
            )
        assert caught.value.code == "no-images"
        with pytest.raises(openai.BadRequestError, match="context length") as caught:
            await client.chat.completions.create(
                model="any", messages=[{"role": "user", "content": "long " * 50}]
            )
        assert caught.value.code == "context_length_exceeded"
        record = await bench.record()
        assert (record["calls"], record["error"]) == ([], None)


async def test_an_answer_of_somebody_else_is_context_and_not_trained() -> None:
    async with scripted_proxy("first", "second") as bench:
        client = bench.openai()
        await client.chat.completions.create(model="any", messages=MESSAGES)
        written = [
            *MESSAGES,
            {"role": "assistant", "content": "edited"},
            {"role": "user", "content": "and"},
        ]
        await client.chat.completions.create(model="any", messages=written)
        one, two = (await bench.record())["samples"]
        assert sum(one["is_trained"]) == len("first") + 1
        assert sum(two["is_trained"]) == len("second") + 1
        text = bytes(i for i in two["token_ids"] if i < 256)
        assert two["is_trained"].index(True) > len(text) // 2


async def test_curl_gets_an_answer_and_a_stream() -> None:
    require_program("curl", "apt-get install curl")
    async with scripted_proxy("Hello.", "Hello.") as bench:
        for is_streamed in (False, True):
            body = json.dumps({"messages": MESSAGES, "stream": is_streamed})
            process = await asyncio.create_subprocess_exec(
                "curl", "-sSN", f"{bench.url}/chat/completions",
                "-H", f"Authorization: Bearer {bench.key}",
                "-H", "Content-Type: application/json", "-d", body,
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            out, _ = await process.communicate()
            text = out.decode()
            if is_streamed:
                lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
                assert lines[-1] == "[DONE]"
                deltas = [json.loads(line)["choices"][0]["delta"] for line in lines[:-1]]
                assert "".join(delta.get("content", "") for delta in deltas) == "Hello."
            else:
                assert json.loads(text)["choices"][0]["message"]["content"] == "Hello."
