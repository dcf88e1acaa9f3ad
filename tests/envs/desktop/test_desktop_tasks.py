"""Our task format, its checks and milestones, on a computer that needs no screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from envs.desktop.memory_computer import MemoryComputer, MemoryDesktops, desk_of

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.agents.policy_spec import make_policy
from practicum.config.base import read_config
from practicum.config.eval import EndpointConfig
from practicum.core.agent import Sampling
from practicum.core.env import StepResult
from practicum.core.episode import Episode
from practicum.core.errors import ConfigError, EnvError, MachineError, RewardError
from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs.desktop import checks, spec
from practicum.envs.desktop.actions import Ended
from practicum.envs.desktop.env import Desktop, Options
from practicum.envs.desktop.selftest import run_self_test
from practicum.envs.desktop.tasks import Panels, read_tasks
from practicum.envs.desktop.verdict import Verdict, verdict_of
from practicum.rewards.milestones import judge_milestones
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Table, play_episode

TYPED = {"kind": "file", "path": "~/typed.txt", "text": {"equals": "hello"}}
HELLO: dict[str, Any] = {
    "instruction": "Type hello and press enter.",
    "apps": ["editor"],
    "checks": [TYPED],
    "oracle": [
        {"act": 'click [text ""]', "when": 'window "Editor"'},
        {"act": "type hello"},
        {"act": "key enter"},
    ],
    "negative": [{"act": "type Hello"}, {"act": "key enter"}],
    "milestones": [
        {"name": "field", "check": {"kind": "accessibility", "text": {"contains": "h"}}},
        {"name": "file", "check": {"kind": "file", "path": "~/typed.txt"}, "weight": 3.0},
    ],
}


def task_of(**changes: Any) -> Task:
    return read_config(spec.TaskSpec, values=HELLO | changes).to_task()


def desktop_of(desktops: MemoryDesktops | None = None, **options: Any) -> Desktop:
    return Desktop(desktops or MemoryDesktops(), Options(**options), Panels(None))


async def holds(
    check: dict[str, Any], computer: MemoryComputer, ended: Ended | None = None
) -> bool:
    own = spec.TaskSpec.of(task_of(checks=[check]))
    return await checks.holds(own.checks[0], checks.Evidence(computer, ended))


async def play(desktop: Desktop, task: Task, script: str, name: str = "json") -> Episode:
    action_format = get_format(name)
    policy = make_policy(script, desktop, action_format, EndpointConfig())
    agent = ChatAgent(desktop, action_format, policy, Sampling())
    judge = judge_milestones(judge_outcome, weight=1.0)
    return await play_episode(Table(desktop, agent, judge, Limits(30)), Attempt(task))


def test_a_task_is_its_content() -> None:
    assert task_of().id == task_of().id
    assert task_of(instruction="Type hello.").id != task_of().id
    assert spec.TaskSpec.of(task_of()).to_task().id == task_of().id


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"chekcs": []}, "unknown key 'chekcs'"),
        ({"checks": []}, "checks"),
        ({"checks": [{"kind": "files", "path": "a"}]}, "known names are"),
        ({"checks": [TYPED | {"text": {"equals": "a", "contains": "b"}}]}, "exactly one of"),
        ({"checks": [TYPED | {"exists": False}]}, "has no text"),
        ({"setup": [{"do": "launch", "window": "x"}]}, "exactly one of app, command"),
        ({"milestones": [HELLO["milestones"][0]] * 2}, "same name"),
    ],
)
def test_mistakes_in_a_task_are_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        task_of(**changes)


def test_tasks_are_read_from_files_and_folders(tmp_path: Path) -> None:
    one = "instruction: Do it.\nchecks: [{kind: infeasible}]\n"
    (tmp_path / "one.yaml").write_text(one)
    (tmp_path / "two.yaml").write_text(
        "tasks:\n  - {instruction: A., checks: [{kind: infeasible}]}\n"
        "  - {instruction: B., checks: [{kind: infeasible}]}\n"
    )
    assert [task.prompt for task in read_tasks(tmp_path)] == ["Do it.", "A.", "B."]
    (tmp_path / "two.yaml").write_text(one + "horizon: 3\n")
    with pytest.raises(ConfigError, match=r"two\.yaml: unknown key 'horizon'"):
        read_tasks(tmp_path)
    with pytest.raises(ConfigError, match="no tasks at"):
        read_tasks(tmp_path / "none")


async def test_checks_say_yes_and_no() -> None:
    computer = MemoryComputer()
    file = {"kind": "file", "path": "~/a.txt"}
    assert not await holds(file, computer)
    assert await holds(file | {"exists": False}, computer)
    await computer.write_file("~/a.txt", b"one two\n")
    assert await holds(file | {"text": {"equals": "one two"}}, computer)
    assert await holds(file | {"text": {"matches": "^one"}}, computer)
    assert not await holds(file | {"text": {"contains": "three"}}, computer)
    assert await holds({"kind": "command", "command": "cat ~/a.txt"}, computer)
    assert not await holds({"kind": "command", "command": "cat ~/b.txt"}, computer)
    button = {"kind": "accessibility", "role": "push button"}
    assert await holds(button | {"name": {"equals": "Save"}}, computer)
    assert not await holds(button | {"name": {"equals": "Open"}}, computer)
    answer = {"kind": "answer", "text": {"equals": "42"}}
    assert await holds(answer, computer, Ended("answer", " 42 "))
    assert not await holds(answer, computer, Ended("done"))


async def test_python_checks_run_in_a_process_of_their_own() -> None:
    computer = MemoryComputer()
    await computer.write_file("~/a.txt", b"7")
    code = "def check(files, answer):\n    print('noise')\n    return {}"
    check = {"kind": "python", "files": ["~/a.txt", "~/none.txt"]}
    asked = "files['~/a.txt'].read_text() == '7' and '~/none.txt' not in files"
    assert await holds(check | {"code": code.format(asked)}, computer)
    assert not await holds(check | {"code": code.format("answer == '1'")}, computer)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("return 1", "check"),
        ("return files['x']", "check"),
        ("import os; os._exit(0)", "check"),
        ("import os; os.kill(os.getpid(), 9)", "check"),
        ("while True: pass", "timeout"),
    ],
)
async def test_a_python_check_that_breaks_is_an_error_and_not_false(body: str, kind: str) -> None:
    code = f"def check(files, answer):\n    {body}"
    with pytest.raises(RewardError) as caught:
        await holds({"kind": "python", "code": code, "timeout_s": 2}, MemoryComputer())
    assert caught.value.kind == kind


async def test_checks_that_cannot_be_evaluated_raise() -> None:
    with pytest.raises(RewardError, match="cannot be run"):
        await holds({"kind": "command", "command": "nosuchprogram"}, MemoryComputer())
    with pytest.raises(RewardError, match="judge=MODEL@BASE_URL"):
        await holds({"kind": "screenshot", "question": "Is it red?"}, MemoryComputer())
    broken = MemoryComputer()
    broken.is_broken = True
    with pytest.raises(MachineError):
        await holds(TYPED, broken)


async def test_a_set_up_that_fails_is_a_set_up_error() -> None:
    task = task_of(setup=[{"do": "run", "command": "false"}])
    async with desktop_of().open(task) as episode:
        with pytest.raises(EnvError, match="it is false") as caught:
            await episode.start()
    assert verdict_of(caught.value) is Verdict.SETUP_ERROR


async def test_the_expert_reads_what_is_shown_and_wins() -> None:
    for space in ("pixels", "unit", "thousand"):
        episode = await play(desktop_of(space=space), task_of(), "expert")
        assert episode.is_success and episode.reward is not None
        assert episode.reward.value == 1.0
        clicked = episode.turns[0].action
        assert clicked is not None and clicked.text.startswith("click ")


async def test_milestones_pay_turns_apart_from_the_verdict() -> None:
    won = await play(desktop_of(), task_of(), "expert")
    lost = await play(desktop_of(), task_of(), "negative")
    assert won.reward is not None and lost.reward is not None
    assert won.reward.dense == (0.0, 0.25, 0.75, 0.0)
    assert won.reward.parts == {"final": 1.0, "milestones": 1.0}
    # `Hello` holds no `h`; the file is there all the same.
    assert lost.reward.dense == (0.0, 0.75, 0.0)
    assert lost.reward.parts == {"final": 0.0, "milestones": 0.75}
    assert not lost.is_success and lost.reward.value == 0.0


async def test_milestones_in_order_wait_for_those_before() -> None:
    lost = await play(desktop_of(), task_of(ordered=True), "negative")
    assert lost.reward is not None and lost.reward.parts["milestones"] == 0.0


async def test_the_self_test_tells_good_tasks_from_bad_ones() -> None:
    good = task_of()
    lax = task_of(checks=[{"kind": "file", "path": "~/typed.txt"}], milestones=[])
    done = task_of(setup=[{"do": "write", "path": "~/typed.txt", "text": "hello"}], milestones=[])
    bare = task_of(oracle=[], negative=[])
    results = await run_self_test(desktop_of(), [good, lax, done, bare])
    passed = {(r.task.id, r.part): r.is_passed for r in results}
    assert all(passed[good.id, part] for part in ("untouched", "oracle", "negative"))
    assert not passed[lax.id, "negative"]
    assert not passed[done.id, "untouched"]
    assert not passed[bare.id, "oracle"] and not passed[bare.id, "negative"]


async def test_what_is_refused_changes_nothing_and_never_ends_the_episode() -> None:
    desktops = MemoryDesktops()
    async with desktop_of(desktops).open(task_of()) as episode:
        await episode.start()
        for text in ("", "DONE", "click 5000 5", "key nokey", "pyautogui.click(1, 2)"):
            result: StepResult = await episode.step(Action(text))
            assert result.is_refused and not result.is_done
    assert desktops.computers[0].performed == []
    assert desktops.num_open == 0


async def test_the_last_turn_is_judged() -> None:
    async with desktop_of().open(task_of(max_turns=2)) as episode:
        await episode.start()
        await episode.step(Action("type hello"))
        result = await episode.step(Action("key enter"))
    assert result.is_done and result.is_success


async def test_a_run_that_ends_sooner_than_the_task_is_judged_too() -> None:
    async with desktop_of().open(task_of(max_turns=9)) as episode:
        await episode.start()
        await episode.step(Action("type hello"))
        await episode.step(Action("key enter"))
        result = await episode.conclude()
    assert result.is_done and result.is_success


async def test_saying_that_it_cannot_be_done_fails_what_can_and_solves_what_cannot() -> None:
    typed = [{"do": "write", "path": "~/typed.txt", "text": "hello"}]
    for changes, score in (
        ({"setup": typed}, 0.0),
        ({"checks": [{"kind": "infeasible"}]}, 1.0),
    ):
        async with desktop_of().open(task_of(**changes)) as episode:
            await episode.start()
            assert (await episode.step(Action("fail"))).reward == score


async def test_a_machine_that_breaks_is_a_fault_and_no_reward() -> None:
    desktops = MemoryDesktops()

    class Breaking(MemoryComputer):
        async def perform(self, inputs: Any) -> None:
            self.is_broken = True
            await super().perform(inputs)

    desktops.computers = []
    desktop = desktop_of(desktops)
    desktops.lease = _leasing(Breaking())  # type: ignore[method-assign]
    episode = await play(desktop, task_of(), "expert")
    assert episode.reward is None and episode.error is not None
    assert episode.error.kind == "machine/lost-display"
    assert verdict_of(episode.error) is Verdict.INFRASTRUCTURE_ERROR


def _leasing(computer: MemoryComputer) -> Any:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def lease() -> Any:
        yield desk_of(computer)

    return lease


async def test_what_is_shown_is_what_is_on_the_screen() -> None:
    async with desktop_of().open(task_of()) as episode:
        first = await episode.start()
        typed = await episode.step(Action("type hi"))
    assert first.text.startswith("Task: Type hello and press enter.")
    assert '[1] frame "Editor" at 250 250' in first.text
    assert "[2] text at 200 125 {focused}" in first.text
    assert '[3] push button "Save" at 450 10' in first.text
    assert "Hidden" not in first.text and "Off" not in first.text
    assert '{focused} = "hi"' in typed.observation.text
    async with desktop_of(view="screenshot").open(task_of()) as episode:
        shot = await episode.start()
    assert len(shot.images) == 1 and "Elements" not in shot.text


async def test_an_oracle_that_cannot_see_is_a_named_fault() -> None:
    episode = await play(
        desktop_of(view="screenshot"), task_of(oracle=[{"act": 'click [text ""]'}]), "expert"
    )
    assert episode.error is not None and episode.error.kind == "policy/oracle"


async def test_the_expert_wins_in_pyautogui_code_too() -> None:
    episode = await play(desktop_of(language="pyautogui"), task_of(), "expert", "react")
    assert episode.is_success
    said = [turn.action.text for turn in episode.turns if turn.action]
    assert said == [
        "pyautogui.click(200, 125)",
        "pyautogui.write('hello')",
        "pyautogui.hotkey('enter')",
        "DONE",
    ]


@pytest.mark.parametrize(
    "code", ["import os; os.system('id')", "pyautogui.press('nokey')", "x = 1", "done", "DONE now"]
)
async def test_code_that_is_not_done_is_feedback(code: str) -> None:
    desktops = MemoryDesktops()
    async with desktop_of(desktops, language="pyautogui").open(task_of()) as episode:
        await episode.start()
        result = await episode.step(Action(code))
    assert result.is_refused and not result.is_done and desktops.computers[0].performed == []


def test_the_task_in_the_documentation_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/desktop-tasks.md").read_text()
    path = tmp_path / "task.yaml"
    path.write_text(page.split("```yaml\n", 1)[1].split("```", 1)[0])
    (task,) = read_tasks(path)
    assert spec.TaskSpec.of(task).oracle and spec.TaskSpec.of(task).negative
