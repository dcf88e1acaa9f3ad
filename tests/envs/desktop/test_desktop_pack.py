"""The shipped tasks, as files and on real desktops."""

from __future__ import annotations

from pathlib import Path

import pytest
from desktops.machines import require_desktop
from support import require_env, require_file

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.agents.policy_spec import make_policy
from practicum.config.eval import EndpointConfig
from practicum.core.agent import Sampling
from practicum.core.message import Action
from practicum.envs.desktop.env import create
from practicum.envs.desktop.freeze import FAMILIES, NUM_VARIANTS, build_panels
from practicum.envs.desktop.selftest import run_self_test
from practicum.envs.desktop.spec import TaskSpec
from practicum.envs.panels import panel_texts
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Table, play_episode

ROOT = Path(__file__).parents[3]
PANELS = ROOT / "src/practicum/envs/desktop/panels"
APPS = ("terminal", "editor", "files", "browser", "calc")


def test_the_shipped_panels_are_what_the_families_give() -> None:
    for name, text in panel_texts(build_panels()).items():
        assert (PANELS / name).read_text() == text, "run python -m practicum.envs.desktop.freeze"


def test_every_panel_has_every_application_and_no_family_is_in_two() -> None:
    panels = build_panels()
    assert len(panels["all"]) == len(FAMILIES) * NUM_VARIANTS >= 60
    homes: dict[str, set[str]] = {}
    for name in ("train", "dev", "test"):
        assert {task.difficulty for task in panels[name]} == set(APPS)
        for task in panels[name]:
            homes.setdefault(task.family, set()).add(name)
    assert all(len(names) == 1 for names in homes.values())


def test_every_task_has_an_oracle_and_a_likely_mistake() -> None:
    for task in build_panels()["all"]:
        own = TaskSpec.of(task)
        assert own.oracle and own.negative and own.oracle != own.negative
        assert len(own.oracle) < own.max_turns


@pytest.mark.parametrize("app", APPS)
async def test_untouched_oracle_and_mistake_score_0_1_0(app: str) -> None:
    """One task of each family; `practicum check desktop` plays all of them."""
    require_env("desktop")
    desktop = create()
    tasks = [family.task(0).to_task() for family in FAMILIES if family.app == app]
    for result in await run_self_test(desktop, tasks, concurrency=2):
        where = f"{result.task.family} {result.part}"
        assert result.is_passed, f"{where}: {result.verdict}, {result.score}; {result.detail}"


@pytest.mark.parametrize("app", ["terminal", "editor"])
async def test_an_agent_that_reads_only_text_solves_tasks(app: str) -> None:
    require_env("desktop")
    desktop = create(view="tree", coordinates="thousand")
    action_format = get_format("json")
    policy = make_policy("expert", desktop, action_format, EndpointConfig())
    agent = ChatAgent(desktop, action_format, policy, Sampling())
    table = Table(desktop, agent, judge_outcome, Limits(desktop.max_turns))
    tasks = [task for task in desktop.panel("test") if task.difficulty == app][:2]
    for task in tasks:
        episode = await play_episode(table, Attempt(task))
        assert episode.error is None, episode.error
        assert episode.is_success and not any(turn.observation.images for turn in episode.turns)


async def test_an_osworld_task_is_graded_by_osworlds_own_code() -> None:
    require_desktop("mousepad")
    python = ROOT / ".venv-osworld/bin/python"
    require_file(python, "make test-osworld")
    path = str(ROOT / "tests/desktops/osworld_task.json")
    desktop = create(tasks_path=path, osworld_python=str(python))
    task = desktop.panel("test").tasks[0]
    solution = ("key ctrl+end", "type 1 < 2", "key enter", "key ctrl+s")
    for actions, score in (((), 0.0), (solution, 1.0)):
        async with desktop.open(task) as episode:
            await episode.start()
            for text in actions:
                await episode.step(Action(text))
            result = await episode.step(Action("done"))
        assert result.is_done and result.reward == score
