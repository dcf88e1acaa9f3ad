"""Our workflows in the real AReaL: its executor, its proxy server, a scripted engine."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("areal") is None:
    pytest.skip(
        "AReaL lives in a virtual environment of its own: make test-areal", allow_module_level=True
    )

import torch
from adapters import one_episode, tiny_vision
from adapters.areal_engine import ScriptedEngine
from adapters.areal_proxy import Stage, serving, write_tokenizer
from areal.api.cli_args import AgentConfig, InferenceEngineConfig
from areal.infra.remote_inf_engine import RemoteInfEngine
from areal.infra.workflow_executor import WorkflowExecutor, check_trajectory_format
from desktops.waa_stand_in import WindowsStandIn
from support import require_env

from practicum.adapters.areal.engine import Reading
from practicum.adapters.areal.rollout import OSWorldRollout
from practicum.core.errors import ConfigError
from practicum.envs.desktop.spec import TaskSpec

# AReaL's own imports and libraries warn.
pytestmark = pytest.mark.filterwarnings("ignore")

AGENT = "practicum.adapters.areal.agent.PracticumWorkflow"
ROLLOUT = "practicum.adapters.areal.rollout.PracticumRollout"
BREAKING = f"{Path(__file__).with_name('breaking.py')}:create"
TASK = one_episode.task()
ROW = {"task": json.dumps(asdict(TASK))}
MARK = "Goal: craft book."
WAIT_S = 300

Row = dict[str, Any]
Play = Callable[..., Row | None]


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("areal")
    write_tokenizer(one_episode.MODEL, folder)
    with serving(folder) as stage:
        yield stage


@pytest.fixture(scope="session")
def play(stage: Stage) -> Iterator[Play]:
    """Plays a row with a workflow named by its path, as AReaL's trainer does."""
    engine = ScriptedEngine(str(stage.folder))
    config = _config("inline")
    executor = WorkflowExecutor(config, engine)
    executor.initialize(train_data_parallel_size=1)

    def run(
        path: str,
        row: Row,
        *,
        mode: str = "inline",
        n_samples: int = 1,
        is_eval: bool = False,
        **settings: Any,
    ) -> Row | None:
        resolver = RemoteInfEngine(_config(mode), None)
        resolver.logger = executor.logger
        workflow = resolver._resolve_workflow(path, settings, n_samples, stage.url)
        task_id = executor.submit(row, workflow, is_eval=is_eval)
        result: Row | None = executor.wait_for_task(task_id, timeout=WAIT_S)
        return result

    try:
        yield run
    finally:
        executor.destroy()


def _config(mode: str) -> InferenceEngineConfig:
    agent = AgentConfig(
        agent_cls_path=AGENT,
        mode=mode,
        chat_template_type="concat",
        export_style="concat",
        subproc_max_workers=1,
    )
    return InferenceEngineConfig(
        backend="sglang:d1", agent=agent, max_concurrent_rollouts=8, consumer_batch_size=64
    )


def _recorded(row: Row, at: int = 0) -> one_episode.Recorded:
    """A row of tensors as the shared episode is compared."""
    length = int(row["attention_mask"][at].sum())
    ids = row["input_ids"][at][:length].tolist()
    mask = row["loss_mask"][at][:length].tolist()
    text = one_episode.renderer()._encoder.decode(ids)
    said = re.findall(r"<\|(system|user|assistant)\|>(.*?)<\|end\|>", text, re.DOTALL)
    messages = [{"role": role, "content": content} for role, content in said]
    return one_episode.Recorded(messages, ids, mask, float(row["rewards"][at]))


def _trained(row: Row, at: int = 0) -> list[int]:
    mask = row["loss_mask"][at].bool()
    trained: list[int] = row["input_ids"][at][mask].tolist()
    return trained


@pytest.mark.parametrize(
    ("path", "mode", "settings"),
    [
        (AGENT, "inline", {}),
        (AGENT, "subproc", {}),
        (ROLLOUT, "inline", {"model": str(one_episode.MODEL), "max_context": 4096}),
    ],
)
def test_the_shared_episode_is_the_same_in_areal(
    stage: Stage, play: Play, path: str, mode: str, settings: Row
) -> None:
    stage.script({MARK: one_episode.TEXTS})
    limits = {"max_turns": one_episode.MAX_TURNS}

    row = play(path, ROW, mode=mode, env="textcraft", limits=limits, **settings)

    assert row is not None
    assert row["input_ids"].shape[0] == 1
    assert _recorded(row).digest == one_episode.DIGEST
    assert _trained(row) == [i for answer in stage.said() for i in answer["said"]]
    sampled = row["loss_mask"][0].bool()
    assert set(row["versions"][0][sampled].tolist()) == {3}
    assert set(row["versions"][0][~sampled].tolist()) == {-1}
    logprobs = [-n / 16 for answer in stage.said() for n in range(len(answer["said"]))]
    assert row["logprobs"][0][sampled].tolist() == logprobs


def test_a_world_that_does_not_open_is_opened_again_and_costs_no_group(
    stage: Stage, play: Play
) -> None:
    stage.script({MARK: one_episode.TEXTS})

    broken = {"name": "a", "broken_opens": 2}
    row = play(AGENT, ROW, n_samples=3, env=BREAKING, options=broken, retries=2)

    assert row is not None
    assert row["rewards"].tolist() == [1.0, 1.0, 1.0]


def test_the_proxy_loses_a_group_in_which_an_episode_broke_after_an_answer(
    stage: Stage, play: Play
) -> None:
    stage.script({MARK: one_episode.TEXTS})
    broken = {"name": "b", "broken_steps": 1}

    assert play(AGENT, ROW, n_samples=3, env=BREAKING, options=broken) is None
    # The next worlds work: it was that one episode.
    row = play(AGENT, ROW, n_samples=3, env=BREAKING, options=broken)
    assert row is not None and row["rewards"].tolist() == [1.0, 1.0, 1.0]


def test_on_the_engine_an_episode_that_stays_broken_stands_aside_in_its_group(
    stage: Stage, play: Play
) -> None:
    stage.script({MARK: one_episode.TEXTS})
    group = {"model": str(one_episode.MODEL), "max_context": 4096, "retries": 0}
    broken = {"name": "c", "broken_steps": 1}
    assert play(ROLLOUT, ROW, env=BREAKING, options=broken, **group) is None

    broken = {"name": "d", "broken_steps": 1}
    row = play(ROLLOUT, ROW, env=BREAKING, options=broken, group_size=3, **group)

    assert row is not None
    assert row["input_ids"].shape[0] == 3
    assert row["loss_mask"].sum(dim=1).bool().tolist() == [True, True, False]
    assert [_recorded(row, at).digest for at in (0, 1)] == [one_episode.DIGEST] * 2
    assert row["rewards"].tolist() == [1.0, 1.0, 1.0]
    assert set(row["versions"][2].tolist()) == {-1}


def test_on_the_engine_a_broken_episode_is_played_again(stage: Stage, play: Play) -> None:
    stage.script({MARK: one_episode.TEXTS})

    row = play(
        ROLLOUT,
        ROW,
        env=BREAKING,
        options={"name": "e", "broken_opens": 1, "broken_steps": 1},
        retries=2,
        model=str(one_episode.MODEL),
        max_context=4096,
    )

    assert row is not None
    assert _recorded(row).digest == one_episode.DIGEST


def test_an_episode_without_an_answer_is_no_empty_trajectory(stage: Stage, play: Play) -> None:
    stage.script({MARK: one_episode.TEXTS})
    long = {"env": BREAKING, "options": {"name": "f", "first_chars": 20_000}}

    assert play(AGENT, ROW, **long) is None
    assert play(ROLLOUT, ROW, **long, model=str(one_episode.MODEL), max_context=4096) is None
    assert stage.said() == []


def test_unknown_settings_and_rows_that_hold_no_task_are_refused(play: Play) -> None:
    with pytest.raises(ConfigError, match="unknown key 'formt': did you mean 'format'"):
        play(AGENT, ROW, env="textcraft", formt="json")
    assert play(AGENT, {"question": "?"}, env="textcraft") is None


CLICK_AND_TYPE = TaskSpec.model_validate(
    {
        "instruction": "Click into the window and type hello.",
        "setup": [{"do": "write", "path": "~/Downloads/notes.txt", "text": "old"}],
        "checks": [
            {
                "kind": "command",
                "command": ["cat", "calls.jsonl"],
                "output": {"contains": '["write", ["hello"]'},
            }
        ],
        "milestones": [
            {
                "name": f"{what} was called",
                "check": {
                    "kind": "command",
                    "command": ["cat", "calls.jsonl"],
                    "output": {"contains": what},
                },
            }
            for what in ("mouseDown", "write")
        ],
    }
).to_task()
CLICK = '{"thought": "There it is.", "action": "click", "x": 0.5, "y": 0.25}'
TYPE = '{"action": "type", "text": "hello"}'
DONE = '{"action": "done"}'


async def test_windows_agent_arena_is_played_with_json_actions_and_paid_for_milestones(
    stage: Stage, play: Play, tmp_path: Path
) -> None:
    row = {"task": asdict(CLICK_AND_TYPE)}
    path = "practicum.adapters.areal.agent.WAADesktopWorkflow"
    async with WindowsStandIn(tmp_path).serving() as url:

        async def played(*answers: str, **settings: Any) -> Row | None:
            stage.script({CLICK_AND_TYPE.prompt: answers})
            (tmp_path / "calls.jsonl").unlink(missing_ok=True)
            options = {"body": f"waa+{url}", **settings.pop("options", {})}
            return await asyncio.to_thread(play, path, row, options=options, **settings)

        # Screenshots reach the engine; what AReaL 1.0.4 would train on without them is refused.
        judged = await played(CLICK, TYPE, DONE, is_eval=True)
        assert judged is not None and judged["rewards"].tolist() == [1.0]
        assert [answer["images"] for answer in stage.said()] == [1, 2, 3]
        assert await played(CLICK, TYPE, DONE) is None

        # Half of the milestones, half of the way: 0.5 * 1/2.
        text = {"view": "tree"}
        half = await played(CLICK, DONE, options=text, n_samples=2)
        assert half is not None and half["rewards"].tolist() == [0.25, 0.25]
        assert _trained(half) == [i for n in (0, 1) for i in _answer(stage, n)]
    windows = WindowsStandIn(tmp_path).calls
    assert ["moveTo", [640, 180], {}] in windows


def _answer(stage: Stage, number: int) -> list[int]:
    """What was said in one turn, by any member of a group."""
    text = json.loads((stage.folder / "script.json").read_text())
    (answers,) = text.values()
    return list(one_episode.renderer().answer_ids(answers[number]))


MAKE_FILE = TaskSpec.model_validate(
    {
        "instruction": "Make an empty file called done.txt in your home folder.",
        "setup": [{"do": "launch", "app": "terminal", "window": "Terminal"}],
        "checks": [{"kind": "file", "path": "~/done.txt"}],
    }
).to_task()


def test_osworld_is_played_with_pyautogui_on_a_real_desktop(stage: Stage, play: Play) -> None:
    require_env("desktop")
    answers = [
        "Thought: A terminal is open.\nAction:\n```\npyautogui.write('touch done.txt')\n"
        "pyautogui.press('enter')\n```",
        "Thought: Let it be done.\nAction: WAIT",
        "Thought: That is all.\nAction: DONE",
    ]
    stage.script({MAKE_FILE.prompt: answers})

    row = play(
        "practicum.adapters.areal.agent.OSWorldWorkflow",
        {"task": asdict(MAKE_FILE)},
        options={"view": "tree", "screen": "800x600"},
    )

    assert row is not None
    assert row["input_ids"].shape[0] == 1
    assert row["rewards"].tolist() == [1.0]
    assert _trained(row) == [i for answer in stage.said() for i in answer["said"]]


def test_a_vision_language_model_is_trained_on_the_pictures_it_saw() -> None:
    require_env("desktop")
    reading = tiny_vision.make_reading()
    model = tiny_vision.make_model(reading.tokenizer)
    answers = [
        "Thought: A terminal is open.\nAction:\n```\npyautogui.write('touch done.txt')\n"
        "pyautogui.press('enter')\n```",
        "This is no action.",
        "Thought: That is all.\nAction: DONE",
    ]
    engine = tiny_vision.VisionEngine(model, reading, answers)

    class Seeing(OSWorldRollout):
        def reading(self) -> Reading:
            return reading

    executor = WorkflowExecutor(_config("inline"), engine)
    executor.initialize(train_data_parallel_size=1)
    try:
        workflow = Seeing(
            options={"screen": "640x480"}, model="tiny", max_context=4096, group_size=2
        )
        row = executor.wait_for_task(
            executor.submit({"task": asdict(MAKE_FILE)}, workflow), timeout=WAIT_S
        )
    finally:
        executor.destroy()

    assert row is not None
    assert check_trajectory_format(row)
    assert row["rewards"].tolist() == [1.0, 1.0]
    for at in range(2):
        length = int(row["attention_mask"][at].sum())
        ids = row["input_ids"][at][:length]
        seen = row["multi_modal_input"][at]
        # Three turns, and the feedback on the second answer has no picture.
        grids = seen["image_grid_thw"]
        assert len(grids) == 2
        kinds = row["mm_token_type_ids"][at][:length]
        assert int(kinds.sum()) == int(grids.prod(dim=1).sum()) // 4
        assert (kinds == (ids == model.config.image_token_id)).all()
        assert seen["pixel_values"].shape[0] == int(grids.prod(dim=1).sum())
        # In one pass over what is handed over, the model says what it said turn by turn.
        mask = row["loss_mask"][at][:length].bool()
        again = torch.tensor([0.0, *tiny_vision.logprobs_of(model, ids.tolist(), seen)])
        torch.testing.assert_close(again[mask], row["logprobs"][at][:length][mask])
