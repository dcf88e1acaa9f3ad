"""Our agent loop run by verl's own worker, against servers that say what was written."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("verl") is None:
    pytest.skip(
        "verl lives in a virtual environment of its own: make test-verl", allow_module_level=True
    )

from adapters.one_episode import DIGEST, MODEL, TASK_ID, Answer, Recorded, answers, reference
from adapters.one_episode import renderer as make_renderer
from adapters.verl_episodes import WrittenServers, write_export
from transformers import AutoTokenizer
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.protocol import DataProto
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

from practicum.adapters.verl.export import HELD_OUT_FILE, SETTINGS_FILE, TRAIN_FILE
from practicum.adapters.verl.loading import load_settings
from practicum.adapters.verl.loop import GroupDroppedError, _environment
from practicum.core.errors import ConfigError

# verl's own libraries warn.
pytestmark = pytest.mark.filterwarnings("ignore")

FLAKY = "adapters.flaky_textcraft:create"


class RawWorker(AgentLoopWorker):
    """Hands on what the loop returned, as it is."""

    async def _agent_loop_postprocess(self, output: Any, validate: bool, **row: Any) -> Any:
        return output


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_export(tmp_path_factory.mktemp("verl") / "export")


@pytest.fixture(autouse=True)
def fresh_worlds() -> Iterator[None]:
    _environment.cache_clear()
    yield
    _environment.cache_clear()


async def write_flaky(tmp_path: Path, options: dict[str, Any], retries: int = 1) -> Path:
    folder = tmp_path / "flaky"
    groups = {"retries": retries}
    changes = {"env": FLAKY, "options": options, "evaluate": None, "groups": groups}
    return await asyncio.to_thread(write_export, folder, **changes)


def read_rows(folder: Path, file: str = TRAIN_FILE) -> list[dict[str, Any]]:
    """What verl's own dataset makes of a table."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    config = load_settings(folder / SETTINGS_FILE, [f"+data.cache_dir={folder / 'cache'}"]).data
    dataset = RLHFDataset(str(folder / file), tokenizer, config)
    return [dataset[n] for n in range(len(dataset))]


def shared_row(folder: Path) -> dict[str, Any]:
    return next(r for r in read_rows(folder) if r["extra_info"]["task_id"] == TASK_ID)


def make_worker(folder: Path, servers: Any, *overrides: str, raw: bool = False) -> Any:
    config = load_settings(folder / SETTINGS_FILE, overrides)
    return (RawWorker if raw else AgentLoopWorker)(config, servers)


async def play_batch(worker: AgentLoopWorker, rows: Sequence[dict[str, Any]]) -> DataProto:
    """As the older trainer plays a batch."""
    batch = DataProto.from_single_dict(collate_fn(list(rows)))
    batch.meta_info["global_steps"] = 1
    return await worker.generate_sequences(batch)


async def play_group(
    worker: RawWorker, row: dict[str, Any], size: int, uid: str = "u"
) -> list[Any]:
    """As the trainer with a replay buffer plays a group: all members in one process, at once."""
    params = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True}
    trajectory = {"step": 1, "sample_index": 0, "rollout_n": 0, "validate": False}
    jobs = [
        asyncio.create_task(
            worker._run_agent_loop(
                params, trajectory, trace=False, session_id=n, uid=uid, global_steps=1, **row
            )
        )
        for n in range(size)
    ]
    return await asyncio.gather(*jobs, return_exceptions=True)


def recorded(output: DataProto, at: int, messages: Any) -> Recorded:
    """A row of verl's batch without its padding."""
    batch = output.batch
    num_prompt = batch["prompts"].shape[1]
    is_there = batch["attention_mask"][at].bool()
    mask = [0] * int(is_there[:num_prompt].sum())
    mask += batch["response_mask"][at][is_there[num_prompt:]].tolist()
    ids = batch["input_ids"][at][is_there].tolist()
    return Recorded(messages, ids, mask, batch["rm_scores"][at].sum().item())


async def test_the_shared_episode_is_recorded_token_by_token(exported: Path) -> None:
    servers = WrittenServers()
    row = shared_row(exported)
    output = await play_batch(make_worker(exported, servers), [row, row])
    expected = await reference()
    for at in (0, 1):
        got = recorded(output, at, expected.messages)
        assert list(got.token_ids) == list(expected.token_ids)
        assert list(got.mask) == list(expected.mask)
        assert got.reward == expected.reward == 1.0
        assert got.digest == DIGEST
        mask = output.batch["response_mask"][at].bool()
        logprobs = output.batch["rollout_log_probs"][at]
        assert logprobs[mask].tolist() == [p for answer in answers() for p in answer.logprobs]
        assert not logprobs[~mask].any()
        scores = output.batch["rm_scores"][at]
        assert scores.nonzero().flatten().tolist() == [int(mask.nonzero().max())]
        about = {key: values[at] for key, values in output.non_tensor_batch.items()}
        assert about["turn_scores"] == [0, 0, 0, 0, 0, 0, 1]
        assert about["success"] == 1
        assert about["invalid_actions"] == pytest.approx(2 / 7)
        assert (about["min_global_steps"], about["max_global_steps"]) == (3, 4)
        assert about["__num_turns__"] == 14


async def test_messages_are_those_of_the_embedded_trainer(exported: Path) -> None:
    row = shared_row(exported)
    expected = await reference()
    assert [dict(m) for m in row["raw_prompt"]] == [dict(m) for m in expected.messages[:2]]


async def test_an_episode_stays_on_one_server_and_its_prompts_only_grow(exported: Path) -> None:
    servers = WrittenServers()
    await play_batch(make_worker(exported, servers), [shared_row(exported)])
    (calls,) = servers.asked.values()
    assert len(calls) == len(answers())
    for answer, call, following in zip(answers(), calls, calls[1:], strict=False):
        known = [*call["prompt_ids"], *answer.token_ids]
        assert following["prompt_ids"][: len(known)] == known
    params = calls[0]["sampling_params"]
    assert params["max_tokens"] == 96
    assert params["stop_token_ids"] == sorted(make_renderer().stop_ids)
    assert (params["temperature"], params["top_p"], params["logprobs"]) == (1.0, 1.0, True)


async def test_unusual_tokens_and_cut_answers_are_trained_as_sampled(exported: Path) -> None:
    ours = make_renderer()
    whole = answers()
    # The same text in other tokens than the tokenizer would choose: one for each character.
    spelt = tuple(i for letter in whole[0].text for i in ours.answer_ids(letter)[:-1])
    assert len(spelt) > len(whole[0].token_ids)
    spelt = (*spelt, ours.end_of_turn_id)
    cut = whole[1].token_ids[:-1]
    said = (
        Answer("", spelt, (-0.5,) * len(spelt)),
        Answer("", cut, (-0.25,) * len(cut)),
        *whole[2:],
    )
    output = await play_batch(make_worker(exported, WrittenServers(said)), [shared_row(exported)])
    mask = output.batch["response_mask"][0].bool()
    sampled = output.batch["responses"][0][mask].tolist()
    assert sampled == [i for answer in said for i in answer.token_ids]
    # We end the cut answer, and do not learn from that.
    ends = output.batch["responses"][0] == ours.end_of_turn_id
    assert int((ends & ~mask).sum()) >= 1
    assert output.non_tensor_batch["success"][0] == 1


async def test_an_episode_ends_where_verl_keeps_no_more_tokens(exported: Path) -> None:
    room = sum(len(a.token_ids) for a in answers()[:3])
    worker = make_worker(exported, WrittenServers(), f"data.max_response_length={room}")
    output = await play_batch(worker, [shared_row(exported)])
    assert output.batch["responses"].shape[1] == room
    assert output.non_tensor_batch["practicum"][0]["stop"] == "context-limit"
    assert output.batch["rm_scores"].sum() == 0


async def test_a_broken_episode_is_played_again(tmp_path: Path) -> None:
    folder = await write_flaky(tmp_path, {"modulus": 2, "remainders": [0]})
    output = await play_batch(make_worker(folder, WrittenServers()), [shared_row(folder)])
    assert output.batch["rm_scores"].sum() == 1
    assert output.non_tensor_batch["broken_tries"][0] == 1


async def test_a_group_learns_from_the_members_that_did_not_break(tmp_path: Path) -> None:
    folder = await write_flaky(tmp_path, {"modulus": 4, "remainders": [0]}, retries=0)
    worker = make_worker(folder, WrittenServers(), raw=True)
    outcomes = await play_group(worker, shared_row(folder), 4)
    assert outcomes.count([]) == 1
    outputs = [outcome for outcome in outcomes if outcome != []]
    for output in outputs:
        assert output.reward_score == 1.0
        assert sum(output.response_mask) == sum(len(a.token_ids) for a in answers())
        assert output.extra_fields["reward_extra_info"]["broken_in_group"] == 1
        assert "acc" not in output.extra_fields["reward_extra_info"]


async def test_a_group_with_too_few_judged_members_fails_as_a_whole(tmp_path: Path) -> None:
    folder = await write_flaky(tmp_path, {"modulus": 4, "remainders": [0, 1, 2]}, retries=0)
    worker = make_worker(folder, WrittenServers(), raw=True)
    outcomes = await play_group(worker, shared_row(folder), 4)
    assert all(isinstance(outcome, GroupDroppedError) for outcome in outcomes)
    assert "1 of 4 episodes" in str(outcomes[0])


async def test_the_older_trainer_gets_a_sequence_that_trains_nothing(tmp_path: Path) -> None:
    options = {"modulus": 1, "remainders": [0]}
    folder = await write_flaky(tmp_path, options)
    output = await play_batch(make_worker(folder, WrittenServers()), [shared_row(folder)])
    assert not output.batch["response_mask"].any()
    assert not output.batch["rm_scores"].any()
    assert output.non_tensor_batch["practicum"][0]["error"] == "env/lost-session"
    assert output.non_tensor_batch["broken_tries"][0] == 2


async def test_a_world_that_shows_something_else_than_the_table_is_refused(exported: Path) -> None:
    row = shared_row(exported)
    row["raw_prompt"][1]["content"] += " And hurry."
    with pytest.raises(ConfigError, match="export again"):
        await play_batch(make_worker(exported, WrittenServers()), [row])


async def test_an_edited_task_is_refused(exported: Path) -> None:
    row = shared_row(exported)
    row["extra_info"]["practicum"] = row["extra_info"]["practicum"].replace("Craft", "Carve")
    with pytest.raises(ConfigError, match="hashes to"):
        await play_batch(make_worker(exported, WrittenServers()), [row])


async def test_servers_without_log_probabilities_are_named(exported: Path) -> None:
    said = tuple(dataclasses.replace(answer, logprobs=()) for answer in answers())
    worker = make_worker(exported, WrittenServers(said))
    output = await play_batch(worker, [shared_row(exported)])
    assert output.non_tensor_batch["practicum"][0]["error"] == "policy/crash"
    assert not output.batch["response_mask"].any()


def test_verls_dataset_reads_the_tables(exported: Path) -> None:
    train, held_out = read_rows(exported), read_rows(exported, HELD_OUT_FILE)
    assert (len(train), len(held_out)) == (81, 3)
    assert [row["index"] for row in train] == list(range(81))
    assert {row["agent_name"] for row in train + held_out} == {"practicum"}
    assert {row["data_source"] for row in train} == {"practicum/textcraft"}
    assert {row["extra_info"]["split"] for row in held_out} == {"held-out"}
    assert [m["role"] for m in train[0]["raw_prompt"]] == ["system", "user"]
    assert train[0]["reward_model"]["ground_truth"] == train[0]["extra_info"]["task_id"]
