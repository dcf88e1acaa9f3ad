"""What a run sampled and won, as token ids to learn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from chat_templates import make_tokenizer

from practicum.config.train import DemonstrationsConfig
from practicum.core.episode import Completion, Episode, StopReason, Turn
from practicum.core.errors import ConfigError
from practicum.core.message import Action, Observation
from practicum.core.reward import Reward
from practicum.core.task import Task
from practicum.data.demonstrations import read_demonstrations
from practicum.data.recorded import best_episodes, recorded_sequences
from practicum.policies.rendering import Renderer
from practicum.store.run import Run

TASKS = [Task.create("toy", prompt=f"p{i}", data={}, family=f"f{i}") for i in range(3)]


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(make_tokenizer("chatml"))


def play(renderer: Renderer, name: str, task: int, *answers: str, wins: bool = True) -> Episode:
    """An episode whose ids are not what tokenising its text would give."""
    turns, ids = [], list(renderer.answer_ids("the rules"))
    for answer in answers:
        # Character by character: a policy may sample what a tokenizer would never write.
        said = [i for c in answer for i in renderer.answer_ids(c)[:-1]]
        said.append(renderer.answer_ids("x")[-1])
        completion = Completion(
            renderer.decode(said),
            prompt_token_ids=tuple(ids),
            token_ids=tuple(said),
            logprobs=(-1.0,) * len(said),
        )
        turns.append(Turn(Observation("o"), completion, Action(answer)))
        ids += [*said, *renderer.answer_ids("seen")]
    return Episode(
        id=name,
        task_id=TASKS[task].id,
        env_id="toy",
        sample=0,
        seed=0,
        system="",
        turns=tuple(turns),
        final=None,
        stop=StopReason.DONE,
        is_success=wins,
        reward=Reward(float(wins), wins),
    )


def write_run(path: Path, episodes: list[Episode]) -> DemonstrationsConfig:
    run = Run.create(path, "rl", {"config": {}}, TASKS)
    with run.recording() as record:
        for episode in episodes:
            record(episode)
    return DemonstrationsConfig(source="run", path=str(path), per_task=2)


def test_the_best_of_a_task_are_short_new_and_different(renderer: Renderer) -> None:
    episodes = [
        play(renderer, "long", 0, "a", "b", "c"),
        play(renderer, "lost", 0, "a", wins=False),
        play(renderer, "old", 0, "a", "b"),
        play(renderer, "same", 0, "a", "b"),
        play(renderer, "new", 0, "a", "d"),
        play(renderer, "other", 1, "a", "b", "c", "d"),
    ]
    assert [e.id for e in best_episodes(episodes, 2)] == ["new", "same", "other"]
    assert [e.id for e in best_episodes(episodes, 9)] == ["new", "same", "long", "other"]


def test_samples_are_the_recorded_ids(renderer: Renderer, tmp_path: Path) -> None:
    won = play(renderer, "won", 0, "one", "two")
    config = write_run(tmp_path / "run", [won, play(renderer, "lost", 1, "x", wins=False)])
    shown = read_demonstrations(config, renderer)
    (ids, is_trained), *others = shown.samples
    assert not others
    sampled = [i for turn in won.turns for i in turn.completion.token_ids or ()]
    assert [i for i, is_one in zip(ids, is_trained, strict=True) if is_one] == sampled
    assert list(ids) == recorded_sequences(won)[0].ids
    assert shown.task_ids == {TASKS[0].id} and shown.families == {"f0"}


def test_cut_and_refused_answers_are_not_learned(renderer: Renderer, tmp_path: Path) -> None:
    won = play(renderer, "won", 0, "one", "two", "six")
    turns = list(won.turns)
    turns[0] = replace(turns[0], is_refused=True)
    turns[2] = replace(turns[2], completion=replace(turns[2].completion, finish="length"))
    config = write_run(tmp_path / "run", [replace(won, turns=tuple(turns))])
    accepted = config.model_copy(update={"turns": "accepted"})
    for wanted, numbers in ((config, (0, 1)), (accepted, (1,))):
        ((ids, is_trained),) = read_demonstrations(wanted, renderer).samples
        expected = [i for n in numbers for i in turns[n].completion.token_ids or ()]
        assert [i for i, is_one in zip(ids, is_trained, strict=True) if is_one] == expected


def test_a_run_that_teaches_nothing_is_refused(renderer: Renderer, tmp_path: Path) -> None:
    config = write_run(tmp_path / "lost", [play(renderer, "lost", 1, "x", wins=False)])
    with pytest.raises(ConfigError, match="no successful episode"):
        read_demonstrations(config, renderer)
    won = play(renderer, "won", 0, "one")
    other = replace(won.turns[0].completion, text="something else")
    config = write_run(
        tmp_path / "other", [replace(won, turns=(replace(won.turns[0], completion=other),))]
    )
    with pytest.raises(ConfigError, match="another tokenizer"):
        read_demonstrations(config, renderer)
    plain = replace(won.turns[0].completion, token_ids=None)
    config = write_run(
        tmp_path / "plain", [replace(won, turns=(replace(won.turns[0], completion=plain),))]
    )
    with pytest.raises(ConfigError, match="source=table"):
        read_demonstrations(config, renderer)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"source": "run"}, "path belongs to"),
        ({"source": "table", "path": "t", "per_task": 2}, "per_task belongs to"),
        ({"source": "run", "path": "t", "max_tasks": 2}, "max_tasks belongs to"),
        ({"source": "table", "path": "t", "panel": "dev"}, "panel belongs to"),
    ],
)
def test_settings_of_another_source_are_refused(values: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        DemonstrationsConfig.model_validate(values)
