"""OpenAI's responses, the Agents SDK and Anthropic's messages, each with its own SDK."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from policies.proxy.proxies import Bench, broken, png, sampling_proxy, scripted_proxy

from practicum.core.message import Message

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.fixture(autouse=True)
def _no_traces() -> Iterator[None]:
    # The Agents SDK would send traces of every run to OpenAI.
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


def trained(bench: Bench, record: dict[str, Any]) -> None:
    """One sequence, and what is trained in it is what was sampled."""
    [sample] = record["samples"]
    assert bench.witness is not None
    pairs = zip(sample["token_ids"], sample["is_trained"], strict=True)
    sampled = [i for c in bench.witness.completions for i in c.token_ids or ()]
    assert [i for i, is_trained in pairs if is_trained] == sampled


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_agent_of_the_agents_sdk_uses_its_tool(api: str, is_streamed: bool) -> None:
    asked: list[str] = []

    @function_tool
    def weather(city: str) -> str:
        """Says how the weather is."""
        asked.append(city)
        return "rain"

    async with scripted_proxy(f"Let me look.\n{CALL}", CALL, "It rains in Köln.") as bench:
        client = bench.openai()
        model: Any = (
            OpenAIChatCompletionsModel("any", client)
            if api == "chat"
            else OpenAIResponsesModel("any", client)
        )
        agent = Agent(
            name="reporter",
            instructions="Report.",
            tools=[weather],
            model=model,
            model_settings=ModelSettings(temperature=0.5, max_tokens=200),
        )
        quiet = RunConfig(tracing_disabled=True)
        if is_streamed:
            run = Runner.run_streamed(agent, "How is Köln?", run_config=quiet)
            kinds = [event.type async for event in run.stream_events()]
            assert "raw_response_event" in kinds
            output = run.final_output
        else:
            output = (await Runner.run(agent, "How is Köln?", run_config=quiet)).final_output
        assert output == "It rains in Köln."
        assert asked == ["Köln", "Köln"]
        record = await bench.record()
        assert [call["parent"] for call in record["calls"]] == [
            None,
            *[call["id"] for call in record["calls"][:2]],
        ]
        trained(bench, record)


async def test_a_talk_with_an_agents_sdk_agent_is_what_a_model_sampled() -> None:
    async with sampling_proxy() as bench:
        agent = Agent(
            name="talker",
            instructions="Talk.",
            model=OpenAIChatCompletionsModel("any", bench.openai()),
            model_settings=ModelSettings(max_tokens=20),
        )
        items: list[Any] = []
        for number in range(3):
            items.append({"role": "user", "content": f"Observation {number}."})
            done = await Runner.run(agent, items, run_config=RunConfig(tracing_disabled=True))
            items = done.to_input_list()
        record = await bench.record()
        assert len(record["calls"]) == 3
        trained(bench, record)


async def test_responses_extend_what_was_sampled() -> None:
    async with sampling_proxy() as bench:
        client = bench.openai()
        items: list[Any] = [{"role": "user", "content": "Go on."}]
        for number in range(3):
            reply = await client.responses.create(
                model="any", instructions="You play.", input=items, max_output_tokens=8
            )
            assert reply.status in ("completed", "incomplete")
            items += reply.output
            items.append({"role": "user", "content": f"Observation {number}."})
        trained(bench, await bench.record())


async def test_a_stream_of_responses_ends_with_the_whole() -> None:
    async with scripted_proxy(f"Look.\n{CALL}") as bench:
        tool: Any = {
            "type": "function",
            "name": "weather",
            "parameters": PARAMETERS,
            "strict": None,
        }
        async with bench.openai().responses.stream(
            model="any", input="How is Köln?", tools=[tool]
        ) as stream:
            events = [event async for event in stream]
            final = await stream.get_final_response()
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert final.output_text == "Look."
        call: Any = final.output[1]
        assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Köln"})
        assert final.id == (await bench.record())["calls"][0]["id"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("previous_response_id", "resp_1"),
        ("reasoning", {"effort": "high"}),
        ("text", {"format": {"type": "json_object"}}),
        ("truncation", "auto"),
        ("include", ["message.output_text.logprobs"]),
        ("tools", [{"type": "web_search"}]),
        ("input", [{"type": "item_reference", "id": "x"}]),
    ],
)
async def test_responses_refuse_by_name(option: str, value: Any) -> None:
    async with scripted_proxy("unasked") as bench:
        body: Any = {"model": "any", "input": "Hello.", option: value}
        with pytest.raises(openai.BadRequestError) as caught:
            await bench.openai().responses.create(**body)
        assert (caught.value.param or "").startswith(option)
        assert (await bench.record())["calls"] == []


def claude(bench: Bench) -> anthropic.AsyncAnthropic:
    client = anthropic.AsyncAnthropic(api_key=bench.key, base_url=bench.url, max_retries=0)
    bench.clients.append(client)
    return client


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_anthropic_messages_use_a_tool(is_streamed: bool) -> None:
    async with scripted_proxy(f"Let me look.\n{CALL}", "It rains.") as bench:
        client = claude(bench)
        tools: Any = [{"name": "weather", "description": "Weather.", "input_schema": PARAMETERS}]
        messages: list[Any] = [{"role": "user", "content": "How is Köln?"}]
        asking: Any = {"model": "any", "max_tokens": 200, "system": "Report.", "tools": tools}
        if is_streamed:
            async with client.messages.stream(messages=messages, **asking) as stream:
                reply: Any = await stream.get_final_message()
        else:
            reply = await client.messages.create(messages=messages, **asking)
        assert reply.stop_reason == "tool_use"
        text, call = reply.content
        assert (text.text, call.name, call.input) == ("Let me look.", "weather", {"city": "Köln"})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}
        messages += [
            {"role": "assistant", "content": reply.content},
            {"role": "user", "content": [result, {"type": "text", "text": "Well?"}]},
        ]
        second = await client.messages.create(messages=messages, **asking)
        assert (second.content[0].text, second.stop_reason) == ("It rains.", "end_turn")
        assert bench.witness is not None
        assert bench.witness.prompts[1].messages[-1] == Message(
            "user", "<tool_response>\nrain\n</tool_response>\n\nWell?"
        )
        assert second.usage.output_tokens == len("It rains.") + 1
        trained(bench, await bench.record())


async def test_anthropic_stop_sequences_and_limits() -> None:
    async with scripted_proxy("go north END more", "a long answer") as bench:
        client = claude(bench)
        hello: Any = [{"role": "user", "content": "Hello."}]
        reply = await client.messages.create(
            model="any", max_tokens=50, messages=hello, stop_sequences=["END"]
        )
        assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", "END")
        assert reply.content[0].text == "go north "  # type: ignore[union-attr]
        cut = await client.messages.create(model="any", max_tokens=6, messages=hello)
        assert cut.stop_reason == "max_tokens"


async def test_anthropic_errors_are_of_its_kind() -> None:
    async with scripted_proxy(broken("timeout")) as bench:
        client = claude(bench)
        asking: Any = {"model": "any", "max_tokens": 5}
        hello: Any = [{"role": "user", "content": "Hello."}]
        picture = {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": "image/png",
                "data": base64.b64encode(png()).decode(),
            },
        }
        with pytest.raises(anthropic.BadRequestError, match="image"):
            await client.messages.create(
                messages=[{"role": "user", "content": [picture]}], **asking
            )
        for name, value in {
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "top_k": 5,
            "tool_choice": {"type": "any"},
            "tools": [{"type": "web_search_20250305", "name": "web_search"}],
        }.items():
            with pytest.raises(anthropic.BadRequestError, match=name):
                await client.messages.create(messages=hello, extra_body={name: value}, **asking)
        with pytest.raises(anthropic.InternalServerError) as caught:
            await client.messages.create(messages=hello, **asking)
        assert caught.value.status_code == 502
        assert caught.value.body["error"]["code"] == "policy/timeout"  # type: ignore[index]
        stranger = anthropic.AsyncAnthropic(api_key="wrong", base_url=bench.url, max_retries=0)
        bench.clients.append(stranger)
        with pytest.raises(anthropic.AuthenticationError):
            await stranger.messages.create(messages=hello, **asking)


async def test_one_conversation_may_change_its_form() -> None:
    async with scripted_proxy("one", "two") as bench:
        reply = await bench.openai().chat.completions.create(
            model="any", messages=[{"role": "user", "content": "Hello."}]
        )
        await claude(bench).messages.create(
            model="any",
            max_tokens=50,
            messages=[
                {"role": "user", "content": "Hello."},
                {"role": "assistant", "content": reply.choices[0].message.content or ""},
                {"role": "user", "content": "Go on."},
            ],
        )
        trained(bench, await bench.record())


async def test_an_empty_answer_keeps_its_place() -> None:
    async with scripted_proxy("", "two") as bench:
        client = claude(bench)
        hello: list[Any] = [{"role": "user", "content": "Hello."}]
        reply = await client.messages.create(model="any", max_tokens=50, messages=hello)
        assert reply.content == []
        hello += [
            {"role": "assistant", "content": reply.content},
            {"role": "user", "content": "Go on."},
        ]
        await client.messages.create(model="any", max_tokens=50, messages=hello)
        trained(bench, await bench.record())
