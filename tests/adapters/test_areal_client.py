"""AReaL's own agent workflow and client against our proxy instead of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from importlib.util import find_spec
from typing import Any

import openai
import pytest

if find_spec("areal") is None:
    pytest.skip(
        "AReaL lives in a virtual environment of its own: make test-areal", allow_module_level=True
    )

import aiohttp
from areal.experimental.openai.proxy.workflow import OpenAIProxyWorkflow
from areal.infra import workflow_context
from policies.proxy.proxies import ADMIN, Bench, broken, scripted_proxy

# AReaL's own imports and libraries warn.
pytestmark = pytest.mark.filterwarnings("ignore")


class Talker:
    """An agent as AReaL's users write them: it knows a URL, a key and OpenAI's SDK."""

    def __init__(self, rewards: Sequence[Any]) -> None:
        self._rewards = rewards

    async def run(self, data: dict[str, Any], **kwargs: Any) -> Any:
        client = openai.AsyncOpenAI(
            base_url=kwargs["base_url"],
            api_key=kwargs["api_key"],
            http_client=kwargs["http_client"],
            max_retries=0,
        )
        messages: list[Any] = [{"role": "user", "content": data["prompt"]}]
        ids = []
        for _ in self._rewards:
            reply = await client.chat.completions.create(model="any", messages=messages)
            messages += [reply.choices[0].message.model_dump(exclude_none=True)]
            messages += [{"role": "user", "content": "Go on."}]
            ids.append(reply.id)
        if len(self._rewards) == 1:
            return self._rewards[0]
        return dict(zip(ids, self._rewards, strict=True))


@pytest.fixture(autouse=True)
async def connections() -> AsyncIterator[None]:
    workflow_context.set(workflow_context.WorkflowContext(task_id=5))
    yield
    await (await workflow_context.get_aiohttp_session()).close()
    await (await workflow_context.get_httpx_client()).aclose()


async def run(bench: Bench, rewards: Sequence[Any], style: str, discount: float = 1.0) -> Any:
    workflow = OpenAIProxyWorkflow(
        "inline", Talker(rewards), bench.url, ADMIN, discount=discount, export_style=style
    )
    return await workflow.arun_episode(None, {"prompt": "Hello."})


async def test_turns_become_one_row_of_tensors() -> None:
    async with scripted_proxy("one", "two", "three", capacity=1) as bench:
        rows = await run(bench, [0.0, 0.5, 1.0], "concat")
        [row] = rows.values()
        tensors = row.to_tensor_dict()
        assert tensors["rewards"].tolist() == [1.5]
        assert row.reward == 1.5
        is_trained = tensors["loss_mask"][0].bool()
        assert bench.witness is not None
        said = bench.witness.completions
        sampled = [i for completion in said for i in completion.token_ids or ()]
        assert tensors["input_ids"][0][is_trained].tolist() == sampled
        assert tensors["attention_mask"].all()
        assert set(tensors["versions"][0][is_trained].tolist()) == {3}
        assert len(bench.app.sessions) == 1  # the bench's own; the workflow's was handed over


async def test_single_calls_have_returns() -> None:
    async with scripted_proxy("one", "two") as bench:
        rows = await run(bench, [0.0, 1.0], "individual", discount=0.5)
        assert [row.reward for row in rows.values()] == [0.5, 1.0]
        assert [tuple(row.to_tensor_dict()["rewards"].tolist()) for row in rows.values()] == [
            (0.5,),
            (1.0,),
        ]


async def test_a_broken_session_is_withdrawn() -> None:
    async with scripted_proxy("one", broken("timeout")) as bench:
        with pytest.raises(openai.InternalServerError):
            await run(bench, [0.0, 1.0], "concat")


async def test_a_reward_that_is_none_is_not_taken_for_zero() -> None:
    for rewards in ([float("nan")], []):
        async with scripted_proxy("one") as bench:
            with pytest.raises(aiohttp.ClientResponseError) as caught:
                await run(bench, rewards, "concat")
            assert caught.value.status in (409, 422)
