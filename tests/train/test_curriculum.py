"""A curriculum plays what teaches something just now, and moves on when that is learned."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from practicum.cli.main import main
from practicum.config.base import read_config
from practicum.config.mixture import CurriculumConfig
from practicum.config.train import SftConfig
from practicum.core.errors import ConfigError
from practicum.core.task import Task
from practicum.train.order import Curriculum, Outcome

RECIPE = Path("configs/rl_textcraft_cpu.yaml")


def make_tasks(**counts: int) -> list[Task]:
    return [
        Task.create("toy", prompt=f"{name} {i}", data={}, difficulty=name)
        for name, count in counts.items()
        for i in range(count)
    ]


def make_curriculum(floor: float = 0.1, window: int = 8) -> Curriculum:
    config = CurriculumConfig(floor=floor, window=window)
    return Curriculum(make_tasks(easy=3, hard=5, never=4), 7, config)


def saw(curriculum: Curriculum, difficulty: str, teaches: bool, count: int = 8) -> None:
    curriculum.observe([Outcome(difficulty, 0.5, teaches)] * count)


def test_unseen_difficulties_have_equal_shares_whatever_their_size() -> None:
    curriculum = make_curriculum()
    assert curriculum.shares() == pytest.approx(dict.fromkeys(("easy", "hard", "never"), 1 / 3))
    dealt = Counter(curriculum.next()[0].difficulty for _ in range(30))
    assert dealt == {"easy": 10, "hard": 10, "never": 10}


def test_shares_follow_what_teaches_and_keep_the_floor() -> None:
    curriculum = make_curriculum()
    saw(curriculum, "easy", True)
    saw(curriculum, "hard", False)
    saw(curriculum, "never", False)
    # 9/10, 1/10 and 1/10 of the 0.7 above the floors.
    shares = {"easy": 0.1 + 0.7 * 9 / 11, "hard": 0.1 + 0.7 / 11, "never": 0.1 + 0.7 / 11}
    assert curriculum.shares() == pytest.approx(shares)
    # Learned: its groups all succeed now; what is next begins to differ.
    saw(curriculum, "easy", False)
    saw(curriculum, "hard", True)
    assert max(curriculum.shares(), key=lambda name: curriculum.shares()[name]) == "hard"


def test_many_difficulties_leave_something_to_shift() -> None:
    tasks = make_tasks(**{f"level {i}": 1 for i in range(40)})
    curriculum = Curriculum(tasks, 0, CurriculumConfig(floor=0.1, window=4))
    curriculum.observe([Outcome("level 7", 0.5, True)] * 4)
    shares = curriculum.shares()
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) > 0.5 / 40
    assert shares["level 7"] == max(shares.values())


def test_a_saved_curriculum_goes_on_with_the_very_next_task() -> None:
    whole = make_curriculum()
    saw(whole, "hard", True, 3)
    for _ in range(11):
        whole.next()
    resumed = make_curriculum()
    resumed.take_up(json.loads(json.dumps(whole.to_json())))
    for _ in range(20):
        assert resumed.next() == whole.next()


def test_a_curriculum_over_one_difficulty_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["model.path=craft-base", "difficulties=[depth 1]", "curriculum={}"]
    assert main(["rl", str(RECIPE), *settings, "--out", str(tmp_path / "run")]) == 2
    assert "one difficulty, 'depth 1'" in capsys.readouterr().err


def test_demonstrations_have_no_curriculum() -> None:
    shown = "mixture.envs={textcraft: {max_tasks: 4, curriculum: {}}, babyai: {max_tasks: 4}}"
    with pytest.raises(ConfigError, match="curriculum are for rl"):
        read_config(SftConfig, path=Path("configs/sft_joint_smollm2.yaml"), overrides=[shown])
