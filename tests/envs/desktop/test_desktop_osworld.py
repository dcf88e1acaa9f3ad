"""OSWorld's and WAA's task files: taken as they are, or refused by name before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from envs.desktop.memory_computer import MemoryComputer, desk_of

from practicum.core.errors import ConfigError, EnvError
from practicum.desktops.computer import CommandResult
from practicum.envs.desktop.osworld.files import osworld_task, read_osworld_file
from practicum.envs.desktop.osworld.verbs import REFUSED, VERBS, Stage, run_steps
from practicum.envs.desktop.tasks import Tools, make_job
from practicum.envs.desktop.verdict import Verdict, verdict_of

OSWORLD_VERBS = """
    download upload_file change_wallpaper tidy_desktop open launch execute execute_with_verification
    command sleep act replay activate_window close_window proxy chrome_open_tabs chrome_close_tabs
    googledrive login update_browse_history
""".split()
WAA_VERBS = "close_all create_folder create_file recycle_file edge_open_tabs".split()

TASK: dict[str, Any] = {
    "id": "e0df059f",
    "snapshot": "os",
    "instruction": "Rename the folder todo to done.",
    "source": "",
    "config": [{"type": "execute", "parameters": {"command": ["mkdir", "-p", "~/todo"]}}],
    "trajectory": "trajectories/",
    "related_apps": ["os"],
    "evaluator": {
        "func": "exact_match",
        "result": {"type": "vm_command_line", "command": "ls"},
        "expected": {"type": "rule", "rules": {"expected": "done\n"}},
    },
}


class Recording(MemoryComputer):
    """Keeps the commands it is given and answers with what a test wants."""

    def __init__(self, *answers: CommandResult) -> None:
        super().__init__()
        self.answers = list(answers)
        self.commands: list[Any] = []

    async def run(self, command: Any, **_: Any) -> CommandResult:
        self.commands.append(command)
        return self.answers.pop(0) if self.answers else CommandResult(0, "", "")


def stage(computer: MemoryComputer, folder: Path) -> Stage:
    return Stage(computer, folder, folder / "downloads")


def step(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"type": kind, "parameters": parameters}


def test_every_verb_is_done_or_refused_by_name() -> None:
    assert set(VERBS) | set(REFUSED) == set(OSWORLD_VERBS) | set(WAA_VERBS)
    assert not set(VERBS) & set(REFUSED)


@pytest.mark.parametrize("verb", REFUSED)
def test_a_refused_verb_is_named_when_the_file_is_read(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "task.json"
    path.write_text(json.dumps(TASK | {"config": [step(verb)]}))
    with pytest.raises(ConfigError, match=rf"config 1: '{verb}' is not supported"):
        read_osworld_file(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"config": [step("fly")]}, "no set-up verb 'fly'"),
        ({"config": [step("launch", command="x", colour="red")]}, "colour"),
        ({"config": [step("sleep")]}, "seconds"),
        ({"evaluator": TASK["evaluator"] | {"postconfig": [step("login")]}}, "postconfig 1"),
        ({"evaluator": TASK["evaluator"] | {"conj": "xor"}}, "neither 'and' nor 'or'"),
        ({"evaluator": {"func": ["a", "b"], "result": [{}]}}, "as long as"),
        ({"reward": 1}, "unknown key 'reward'"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        osworld_task(TASK | changes)


async def test_placeholders_and_the_home_folder_are_filled_in(tmp_path: Path) -> None:
    computer = Recording()
    steps = [
        step("execute", command=["python", "-c", "{SCREEN_WIDTH_HALF} {SCREEN_HEIGHT}", "~/a"]),
        step("command", command="echo {CLIENT_PASSWORD} | sudo -S true", shell=True),
        step("execute", command="touch a b"),
    ]
    await run_steps(steps, stage(computer, tmp_path))
    assert computer.commands == [
        ["python", "-c", "500 500", "/home/user/a"],
        "echo password | sudo -S true",
        ["touch", "a", "b"],
    ]


async def test_until_repeats_and_output_is_kept(tmp_path: Path) -> None:
    computer = Recording(CommandResult(1, "no", ""), CommandResult(0, "yes", ""))
    until = {"returncode": 0}
    await run_steps(
        [step("execute", command="probe", stdout="out.txt", until=until)],
        stage(computer, tmp_path),
    )
    assert len(computer.commands) == 2
    assert (tmp_path / "out.txt").read_text() == "yes"


@pytest.mark.parametrize(
    "bad",
    [
        step("activate_window", window_name="Nowhere"),
        step("close_window", window_name="Edit", strict=True),
        step("upload_file", files=[{"local_path": "/no/such/file", "path": "a"}]),
        step("execute_with_verification", command="x", verification={"colour": "red"}),
        step("execute_with_verification", command="x", verification={"window_exists": "Q"})
        | {
            "parameters": {"command": "x", "verification": {"window_exists": "Q"}}
            | {"max_wait_time": 0, "check_interval": 0}
        },
    ],
)
async def test_a_step_that_does_not_work_is_a_set_up_error(
    tmp_path: Path, bad: dict[str, Any]
) -> None:
    with pytest.raises(EnvError) as caught:
        await run_steps([bad], stage(Recording(), tmp_path))
    assert verdict_of(caught.value) is Verdict.SETUP_ERROR


def test_a_task_that_nothing_can_judge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="osworld_python=PATH"):
        make_job(osworld_task(TASK), Tools(), desk_of(MemoryComputer()))
