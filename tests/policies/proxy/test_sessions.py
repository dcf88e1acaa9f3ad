"""The session protocol: keys, rewards, the end of a session, faults, and what is exported."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import numpy as np
import openai
import pytest
from policies.proxy.proxies import ADMIN, Bench, broken, scripted_proxy

from practicum.core.errors import ConfigError
from practicum.policies.proxy.app import Terms

HELLO: list[Any] = [{"role": "user", "content": "Hello."}]


async def talk(bench: Bench, num_turns: int = 3) -> list[str]:
    """An append-only conversation; gives the ids of the completions."""
    client, messages, ids = bench.openai(), list(HELLO), []
    for _ in range(num_turns):
        reply = await client.chat.completions.create(model="any", messages=messages)
        messages += [reply.choices[0].message, {"role": "user", "content": "Go on."}]
        ids.append(reply.id)
    return ids


def read_tensor(value: dict[str, Any]) -> np.ndarray:
    assert value["type"] == "tensor"
    dtype = np.dtype(value["dtype"].removeprefix("torch."))
    return np.frombuffer(base64.b64decode(value["data"]), dtype).reshape(value["shape"])


async def test_everything_but_health_wants_a_key() -> None:
    async with scripted_proxy("unasked") as bench:
        routes = [
            (route.method, route.resource.canonical.replace("{session}", "task-0"))
            for route in bench.app.build().router.routes()
            if route.resource is not None and route.method != "HEAD"
        ]
        assert len(routes) > 15
        for method, path in routes:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"x-api-key": "wrong"}):
                url = bench.url + path
                async with bench.http.request(method, url, json={}, headers=headers) as reply:
                    assert reply.status == (200 if path == "/health" else 401), path
                    assert path == "/health" or "key" in await reply.text()


def test_an_admin_key_that_can_be_guessed_is_refused() -> None:
    for key in ("", "admin"):
        with pytest.raises(ConfigError, match="the admin key holds no token"):
            Terms(key)


async def test_a_key_opens_its_own_kind_of_door_only() -> None:
    async with scripted_proxy("unasked") as bench:
        body = {"messages": HELLO}
        assert (await bench.post("chat/completions", body, ADMIN))[0] == 401
        for path in ("grant_capacity", "rl/start_session", "export_trajectories"):
            assert (await bench.post(path, {"task_id": "x"}, bench.key))[0] == 401
        assert (await bench.get("sessions/task-0", bench.key))[0] == 401


async def test_sessions_are_named_after_tasks_and_keys_can_be_given() -> None:
    async with scripted_proxy() as bench:
        assert bench.session_id == "task-0"
        assert len(bench.key) == 43
        await bench.start()
        assert bench.session_id == "task-1"
        given = {"task_id": "other", "api_key": "a-key-of-my-own-choice"}
        assert (await bench.post("rl/start_session", given))[1]["api_key"] == given["api_key"]
        assert (await bench.post("rl/start_session", given))[0] == 409
        assert (await bench.post("rl/end_session", {}, given["api_key"]))[0] == 200
        status, body = await bench.post("rl/start_session", given)
        assert (status, body["session_id"]) == (200, "other-3")
        for key in ("short", ADMIN):
            assert (await bench.post("rl/start_session", {**given, "api_key": key}))[0] == 400
        status, body = await bench.post("rl/start_session", {"task_id": "a", "group_size": 2})
        assert status == 400
        assert "group_size" in body["error"]["message"]


async def test_sessions_wait_for_capacity_where_it_is_granted() -> None:
    async with scripted_proxy(capacity=1) as bench:
        status, body = await bench.post("rl/start_session", {"task_id": "a"})
        assert (status, body["error"]["code"]) == (429, "no-capacity")
        assert await bench.post("grant_capacity") == (200, {"capacity": 1})
        assert (await bench.post("rl/start_session", {"task_id": "a"}))[0] == 200
        assert (await bench.post("rl/start_session", {"task_id": "a"}))[0] == 429
    async with scripted_proxy(max_sessions=1) as bench:
        status, body = await bench.post("rl/start_session", {"task_id": "a"})
        assert (status, body["error"]["code"]) == (429, "busy")


async def test_nothing_is_taken_after_the_end() -> None:
    async with scripted_proxy("yes", "no") as bench:
        await talk(bench, 1)
        await bench.reward(1.0)
        assert await bench.end() == (200, {"message": "success", "interaction_count": 1})
        with pytest.raises(openai.APIStatusError) as caught:
            await talk(bench, 1)
        assert (caught.value.status_code, caught.value.code) == (410, "session-ended")
        assert (await bench.reward(0.0))[0] == 410
        assert (await bench.end())[0] == 200
        assert len((await bench.record())["calls"]) == 1


async def test_an_answer_that_comes_after_the_end_is_not_given() -> None:
    async with scripted_proxy("late") as bench:
        assert bench.witness is not None
        sampling, going_on = asyncio.Event(), asyncio.Event()
        complete = bench.witness.complete

        async def wait(*arguments: Any) -> Any:
            sampling.set()
            await going_on.wait()
            return await complete(*arguments)

        bench.witness.complete = wait  # type: ignore[method-assign]
        late = asyncio.create_task(talk(bench, 1))
        await sampling.wait()
        await bench.end()
        going_on.set()
        with pytest.raises(openai.APIStatusError) as caught:
            await late
        assert caught.value.status_code == 410
        assert (await bench.record())["calls"] == []


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), True, "1", None, [1.0]])
async def test_what_is_no_reward_is_refused(reward: Any) -> None:
    async with scripted_proxy("yes") as bench:
        assert (await bench.reward(1.0))[0] == 422  # there is nothing yet to reward
        await talk(bench, 1)
        assert (await bench.reward(reward))[0] == 422
        status, body = await bench.reward(1.0, "chatcmpl-unknown")
        assert (status, body["error"]["code"]) == (422, "bad-reward")
        assert (await bench.record())["calls"][0]["reward"] is None


async def test_a_whole_number_is_a_reward() -> None:
    async with scripted_proxy("yes") as bench:
        await talk(bench, 1)
        assert await bench.reward(1) == (200, {"message": "success"})
        assert (await bench.record())["calls"][0]["reward"] == 1.0


async def test_turns_that_only_append_export_as_one_row_of_tensors() -> None:
    async with scripted_proxy("one", "two", "three") as bench:
        ids = await talk(bench)
        await bench.reward(0.5)
        await bench.end()
        status, body = await bench.export()
        assert status == 200
        [(name, row)] = body["interactions"].items()
        assert (name, row["interaction_id"], row["reward"]) == (ids[-1], ids[-1], 0.5)
        tensors = {name: read_tensor(value) for name, value in row["tensor_dict"].items()}
        length = tensors["input_ids"].shape[1]
        assert {name: tensor.shape for name, tensor in tensors.items()} == {
            "rewards": (1,),
            **dict.fromkeys(
                ["input_ids", "attention_mask", "loss_mask", "logprobs", "versions"], (1, length)
            ),
        }
        assert {name: str(tensor.dtype) for name, tensor in tensors.items()} == {
            "input_ids": "int64",
            "attention_mask": "bool",
            "loss_mask": "int64",
            "logprobs": "float32",
            "versions": "int64",
            "rewards": "float32",
        }
        assert bench.witness is not None
        said = bench.witness.completions
        is_trained = tensors["loss_mask"][0] == 1
        sampled = [i for completion in said for i in completion.token_ids or ()]
        assert tensors["input_ids"][0][is_trained].tolist() == sampled
        logprobs = [p for completion in said for p in completion.logprobs or ()]
        np.testing.assert_array_equal(
            tensors["logprobs"][0][is_trained], np.array(logprobs, np.float32)
        )
        assert set(tensors["versions"][0][is_trained]) == {3}
        assert set(tensors["versions"][0][~is_trained]) == {-1}
        assert not tensors["logprobs"][0][~is_trained].any()
        assert (await bench.export())[0] == 404  # it was handed over


async def test_rows_of_single_calls_have_discounted_returns() -> None:
    async with scripted_proxy("one", "two", "three") as bench:
        ids = await talk(bench)
        await bench.reward(1.0)
        await bench.end()
        _, body = await bench.export("individual", discount=0.9)
        rewards = {name: row["reward"] for name, row in body["interactions"].items()}
        assert rewards == pytest.approx(dict(zip(ids, [0.81, 0.9, 1.0], strict=True)))


async def test_rewards_of_single_calls_are_not_lost_in_a_merged_row() -> None:
    async with scripted_proxy("one", "two", "three") as bench:
        ids = await talk(bench)
        for name, reward in zip(ids, [0.25, 0.5, 1.0], strict=True):
            assert (await bench.reward(reward, name))[0] == 200
        await bench.end()
        [sample] = (await bench.record())["samples"]
        assert [call["reward"] for call in sample["calls"]] == [0.25, 0.5, 1.0]
        _, body = await bench.export("concat", discount=0.9)
        assert [row["reward"] for row in body["interactions"].values()] == [1.75]


async def test_a_branch_trains_every_sampled_token_once() -> None:
    async with scripted_proxy("root", "left", "right") as bench:
        client = bench.openai()
        root = await client.chat.completions.create(model="any", messages=HELLO)
        for branch in ("left?", "right?"):
            messages = [*HELLO, root.choices[0].message, {"role": "user", "content": branch}]
            await client.chat.completions.create(model="any", messages=messages)
        await bench.reward(1.0)
        one, two = (await bench.record())["samples"]
        assert sum(one["is_trained"]) == len("root") + len("left") + 2
        assert sum(two["is_trained"]) == len("right") + 1
        assert [call["is_trained"] for call in two["calls"]] == [False, True]
        shared = one["calls"][0]["stop"]
        assert one["token_ids"][:shared] == two["token_ids"][:shared]


async def test_a_fault_of_the_upstream_is_named_and_breaks_the_export() -> None:
    async with scripted_proxy("one", broken("timeout"), RuntimeError("out of memory")) as bench:
        await talk(bench, 1)
        await bench.reward(1.0)
        for kind in ("policy/timeout", "policy/crash"):
            with pytest.raises(openai.InternalServerError) as caught:
                await bench.openai().chat.completions.create(
                    model="any", messages=[{"role": "user", "content": kind}]
                )
            assert (caught.value.status_code, caught.value.code) == (502, kind)
        await bench.end()
        status, body = await bench.export()
        assert (status, body["error"]["code"]) == (409, "policy/timeout")
        record = await bench.record()
        assert record["error"]["kind"] == "policy/timeout"
        assert [fault["kind"] for fault in record["faults"]] == ["policy/timeout", "policy/crash"]
        assert [fault["num_calls"] for fault in record["faults"]] == [1, 1]


async def test_a_fault_that_the_agent_asked_again_after_is_made_good() -> None:
    async with scripted_proxy(broken("rate-limited"), "at last") as bench:
        reply = await bench.openai(retries=1).chat.completions.create(model="any", messages=HELLO)
        assert reply.choices[0].message.content == "at last"
        await bench.reward(1.0)
        await bench.end()
        record = await bench.record()
        assert record["error"] is None
        assert [fault["is_healed"] for fault in record["faults"]] == [True]
        assert (await bench.export())[0] == 200


async def test_a_session_without_calls_or_reward_is_not_exported_as_zero() -> None:
    async with scripted_proxy("yes") as bench:
        await bench.end()
        status, body = await bench.export()
        assert (status, body["error"]["code"]) == (409, "no-calls")
        await bench.start()
        await talk(bench, 1)
        await bench.end()
        status, body = await bench.export()
        assert (status, body["error"]["code"]) == (409, "no-reward")
        assert (await bench.record())["samples"][0]["reward"] is None


async def test_a_session_whose_export_was_refused_makes_room() -> None:
    async with scripted_proxy(max_sessions=2) as bench:
        await bench.end()
        assert (await bench.export())[0] == 409
        refused = bench.session_id
        await bench.start()
        assert (await bench.get(f"sessions/{refused}"))[0] == 200  # to be looked at
        await bench.start()
        assert (await bench.get(f"sessions/{refused}"))[0] == 404
        assert (await bench.post("rl/start_session", {"task_id": "a"}))[0] == 429


async def test_an_export_waits_for_the_end() -> None:
    async with scripted_proxy("yes") as bench:
        export = asyncio.create_task(bench.export())
        await talk(bench, 1)
        await bench.reward(1.0)
        assert not export.done()
        await bench.end()
        assert (await export)[0] == 200


async def test_an_answer_that_nobody_waited_for_is_not_on_record() -> None:
    async with scripted_proxy("unheard", "heard") as bench:
        assert bench.witness is not None
        sampling = asyncio.Event()
        complete = bench.witness.complete

        async def wait(*arguments: Any) -> Any:
            if not sampling.is_set():
                sampling.set()
                await asyncio.sleep(60)
            return await complete(*arguments)

        bench.witness.complete = wait  # type: ignore[method-assign]
        task = asyncio.create_task(talk(bench, 1))
        await sampling.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await talk(bench, 1)
        assert len((await bench.record())["calls"]) == 1


async def test_a_session_that_nobody_uses_is_forgotten() -> None:
    async with scripted_proxy("yes", ttl_s=0.05) as bench:
        while len(bench.app.sessions):
            await asyncio.sleep(0.01)
        status, body = await bench.export()
        assert (status, body["error"]["code"]) == (404, "unknown-session")
        with pytest.raises(openai.AuthenticationError):
            await talk(bench, 1)


async def test_sessions_are_listed_counted_and_deleted() -> None:
    async with scripted_proxy("yes") as bench:
        await talk(bench, 1)
        _, body = await bench.get("sessions")
        [line] = body["sessions"]
        assert (line["session_id"], line["num_calls"], line["is_ended"]) == ("task-0", 1, False)
        headers = {"Authorization": f"Bearer {ADMIN}"}
        async with bench.http.get(f"{bench.url}/metrics", headers=headers) as reply:
            assert "practicum_proxy_calls_total{} 1" in await reply.text()
        async with bench.http.delete(f"{bench.url}/sessions/task-0", headers=headers) as reply:
            assert reply.status == 200
        assert (await bench.get("sessions"))[1] == {"sessions": []}


async def test_a_body_that_is_too_large_or_no_json_is_refused() -> None:
    async with scripted_proxy("unasked", max_body_bytes=1000) as bench:
        large = {"messages": [{"role": "user", "content": "x" * 2000}]}
        status, body = await bench.post("chat/completions", large, bench.key)
        assert (status, body["error"]["code"]) == (413, "too-large")
        headers = {"Authorization": f"Bearer {bench.key}"}
        url = f"{bench.url}/v1/chat/completions"
        async with bench.http.post(url, data=b"{", headers=headers) as reply:
            assert reply.status == 400
            assert "JSON" in await reply.text()
