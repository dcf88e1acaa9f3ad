import logging
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import require_env

pytest.importorskip("transformers")

from chat_templates import make_tokenizer

from practicum.agents.formats import get_format
from practicum.config.train import SftConfig
from practicum.core.env import Environment
from practicum.core.errors import ConfigError, EnvError
from practicum.core.message import Message
from practicum.data.demonstrations import (
    play_demonstrations,
    read_demonstrations,
    require_scripts,
    worth_learning,
)
from practicum.data.draw import draw_tasks, of_difficulties, with_variants
from practicum.data.expert import PART_SIZE, expert_episodes
from practicum.data.samples import conversation_sample
from practicum.data.tables import Conversation, episode_conversation, write_table
from practicum.envs.registry import load_env
from practicum.policies.rendering import Renderer


@pytest.fixture(scope="module")
def textcraft() -> Environment:
    require_env("textcraft")
    return load_env("textcraft")


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(make_tokenizer("chatml"))


def talk(*texts: str) -> list[Message]:
    return [Message("assistant" if i % 2 else "user", text) for i, text in enumerate(texts)]


def trained_text(renderer: Renderer, ids: Sequence[int], is_trained: Sequence[bool]) -> str:
    return renderer.decode([i for i, is_one in zip(ids, is_trained, strict=True) if is_one])


def test_the_loss_is_on_the_chosen_answers_and_their_ends(renderer: Renderer) -> None:
    messages = talk("q", "one", "q", "two", "q", "three", "last words")
    ids, is_trained = conversation_sample(
        renderer, messages, [False, True, False, False, False, True, False]
    )
    chosen = renderer.answer_ids("one") + renderer.answer_ids("three")
    assert tuple(i for i, is_one in zip(ids, is_trained, strict=True) if is_one) == chosen
    assert ids == renderer.conversation_ids(messages[:6])[0]
    assert not is_trained[0]


def test_nothing_after_the_last_chosen_answer_is_computed(renderer: Renderer) -> None:
    messages = talk("q", "one", "q", "two")
    ids, _ = conversation_sample(renderer, messages, [False, True, False, False])
    assert ids == renderer.conversation_ids(messages[:2])[0]
    assert conversation_sample(renderer, messages, [False] * 4) == ((), ())


async def test_the_expert_plays_every_task_in_order(textcraft: Environment) -> None:
    tasks = textcraft.panel("train").tasks[:5]
    episodes = await expert_episodes(textcraft, tasks, get_format("react"))
    assert [e.task_id for e in episodes] == [t.id for t in tasks]
    assert all(e.is_success and not any(t.is_invalid for t in e.turns) for e in episodes)


async def test_a_broken_demonstration_is_an_error_that_names_it(textcraft: Environment) -> None:
    class Torn(type(textcraft)):  # type: ignore[misc]
        def open(self, task: object) -> object:
            raise EnvError("the world is torn")

    tasks = textcraft.panel("train").tasks[:2]
    with pytest.raises(EnvError, match=rf"2 of 2 demonstrations broke, first {tasks[0].id}.*torn"):
        await expert_episodes(Torn(), tasks, get_format("react"))


def sft_config(**demonstrations: object) -> SftConfig:
    return SftConfig.model_validate(
        {"env": "textcraft", "model": {"path": "m"}, "demonstrations": demonstrations}
    )


async def test_expert_demonstrations_become_samples(
    textcraft: Environment, renderer: Renderer
) -> None:
    tasks = textcraft.panel("train").tasks[:3]
    loaded = await play_demonstrations(sft_config(), textcraft, tasks, renderer)
    assert len(loaded.samples) == 3
    assert loaded.task_ids == {t.id for t in tasks}
    assert loaded.families == {t.family for t in tasks}
    for ids, is_trained in loaded.samples:
        assert "Action: craft" in trained_text(renderer, ids, is_trained)
        assert "Crafting commands" not in trained_text(renderer, ids, is_trained)


async def test_slips_are_shown_without_a_loss_and_recovered_from(
    textcraft: Environment, renderer: Renderer
) -> None:
    tasks = [t for t in textcraft.panel("train").tasks if t.difficulty == "depth 2"][:12]
    slips = {"rate": 0.3, "script": "novice"}
    config = sft_config(slips=slips)
    loaded = await play_demonstrations(config, textcraft, tasks, renderer)
    whole = "".join(renderer.decode(ids) for ids, _ in loaded.samples)
    learned = "".join(trained_text(renderer, *sample) for sample in loaded.samples)
    assert "Could not find" in whole  # the novice fetches what must be crafted
    assert "I need" in whole
    assert "I need" not in learned  # how the novice thinks
    assert "I have" in learned
    assert "Action: inventory" in learned  # what the expert does about a refusal
    assert len(loaded.samples) >= 10
    assert await play_demonstrations(config, textcraft, tasks, renderer) == loaded


async def test_several_processes_play_the_same_games(
    textcraft: Environment, renderer: Renderer
) -> None:
    tasks = textcraft.panel("train").tasks[: 2 * PART_SIZE + 1]
    played = {"slips": {"rate": 0.3, "script": "careless"}, "thoughts": 0.5}
    alone = await play_demonstrations(sft_config(**played), textcraft, tasks, renderer)
    config = sft_config(**played, workers=3)
    assert await play_demonstrations(config, textcraft, tasks, renderer) == alone


async def test_a_world_that_cannot_be_sent_to_a_process_or_kills_it_is_named(
    textcraft: Environment, tmp_path: Path
) -> None:
    class Bound(type(textcraft)):  # type: ignore[misc]
        """A class of this function: no other process knows it."""

    class Deadly(type(textcraft)):  # type: ignore[misc]
        def __reduce__(self) -> object:
            return os._exit, (1,)  # what unpacking it does

    tasks = textcraft.panel("train").tasks[:2]
    with pytest.raises(ConfigError, match=r"set demonstrations\.workers=1"):
        await expert_episodes(Bound(), tasks, get_format("react"), num_workers=2)
    (tmp_path / "somewhere_else.py").write_text(
        "from practicum.envs.registry import load_env\n"
        "class Mine(type(load_env('textcraft'))): pass\n"
    )
    unknown = load_env(f"{tmp_path / 'somewhere_else.py'}:Mine")  # no process can import it
    with pytest.raises(ConfigError, match=r"No module.*set demonstrations\.workers=1"):
        await expert_episodes(unknown, tasks, get_format("react"), num_workers=2)
    with pytest.raises(EnvError, match=r"lower demonstrations\.workers"):
        await expert_episodes(Deadly(), tasks, get_format("react"), num_workers=2)


async def test_a_careless_expert_errs_in_its_own_words(
    textcraft: Environment, renderer: Renderer
) -> None:
    """What it believes is shown and not learned; what it then sees is learned from."""
    tasks = [t for t in textcraft.panel("train").tasks if t.difficulty == "depth 3"][:12]
    config = sft_config(slips={"rate": 0.3, "script": "careless"})
    loaded = await play_demonstrations(config, textcraft, tasks, renderer)
    whole = "".join(renderer.decode(ids) for ids, _ in loaded.samples)
    learned = "".join(trained_text(renderer, *sample) for sample in loaded.samples)
    assert whole.count("Could not find") > 12
    assert learned.count("Action: inventory") > 12
    assert whole.count("Thought: I have") > learned.count("Thought: I have") > 60
    assert len(loaded.samples) >= 10


async def test_another_script_can_be_learned_from(
    textcraft: Environment, renderer: Renderer
) -> None:
    tasks = [t for t in textcraft.panel("train").tasks if t.difficulty == "depth 2"][:3]
    config = sft_config(script="stepwise")
    loaded = await play_demonstrations(config, textcraft, tasks, renderer)
    assert all(" (0)" in trained_text(renderer, *sample) for sample in loaded.samples)
    with pytest.raises(ConfigError, match="stepwise"):
        await play_demonstrations(sft_config(script="stepwize"), textcraft, tasks, renderer)
    with pytest.raises(ValueError, match="source=expert"):
        sft_config(source="table", path="t.jsonl", script="stepwise")


async def test_some_games_can_show_actions_alone(
    textcraft: Environment, renderer: Renderer
) -> None:
    """What is done is the same in both, mistakes included; the choice is made per task."""
    tasks = [t for t in textcraft.panel("train").tasks if t.difficulty == "depth 2"][:40]
    slips = {"rate": 0.3, "script": "careless-stepwise"}

    async def games(thoughts: float) -> list[str]:
        config = sft_config(script="stepwise", slips=slips, thoughts=thoughts)
        loaded = await play_demonstrations(config, textcraft, tasks, renderer)
        return [renderer.decode(ids) for ids, _ in loaded.samples]

    def actions(game: str) -> list[str]:
        return [line for line in game.splitlines() if "Action: " in line and "<" not in line]

    told, mixed, silent = [await games(share) for share in (1.0, 0.5, 0.0)]
    assert all("Thought: I have" in game for game in told)
    assert not any("Thought: I have" in game for game in silent)
    assert [actions(game) for game in silent] == [actions(game) for game in told]
    assert 10 < sum(game in told for game in mixed) < 30
    assert all(game in told or game in silent for game in mixed)
    assert mixed == await games(0.5)
    with pytest.raises(ValueError, match="source=expert"):
        sft_config(source="table", path="t.jsonl", thoughts=0.5)


def test_a_player_that_one_environment_lacks_is_named_with_it(textcraft: Environment) -> None:
    require_env("babyai")
    babyai = load_env("babyai")
    require_scripts(sft_config().demonstrations, [textcraft, babyai])
    for lacking in ({"script": "stepwise"}, {"slips": {"rate": 0.1, "script": "careless"}}):
        with pytest.raises(ConfigError, match="script of babyai"):
            require_scripts(sft_config(**lacking).demonstrations, [textcraft, babyai])


async def test_slips_of_an_unknown_script_are_refused(
    textcraft: Environment, renderer: Renderer
) -> None:
    config = sft_config(slips={"rate": 0.3, "script": "novise"})
    with pytest.raises(ConfigError, match="novice"):
        await play_demonstrations(config, textcraft, textcraft.panel("train").tasks[:1], renderer)
    with pytest.raises(ValueError, match="source=expert"):
        sft_config(source="table", path="t.jsonl", slips={"rate": 0.3})


async def test_a_table_gives_the_same_samples_as_the_expert(
    textcraft: Environment, renderer: Renderer, tmp_path: Path
) -> None:
    tasks = textcraft.panel("train").tasks[:3]
    by_id = {t.id: t for t in tasks}
    episodes = await expert_episodes(textcraft, tasks, get_format("react"))
    write_table(tmp_path / "t.jsonl", [episode_conversation(e, by_id[e.task_id]) for e in episodes])
    played = await play_demonstrations(sft_config(), textcraft, tasks, renderer)
    config = sft_config(source="table", path=str(tmp_path / "t.jsonl"))
    assert read_demonstrations(config.demonstrations, renderer) == played


def test_failed_episodes_are_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    good = Conversation(tuple(talk("q", "a")), (False, True), outcome="success")
    bad = Conversation(tuple(talk("q", "a")), (False, True), outcome="failed", source="t:2")
    with caplog.at_level(logging.WARNING, "practicum"):
        assert worth_learning([good, bad]) == [good]
    assert "1 of 2 demonstrations are left out" in caplog.text
    assert "t:2" in caplog.text
    with pytest.raises(ConfigError, match="none of 1 demonstrations"):
        worth_learning([bad])


def test_tasks_are_drawn_by_the_seed_and_varied(textcraft: Environment) -> None:
    tasks = textcraft.panel("train").tasks
    drawn = draw_tasks(tasks, 4, seed=1)
    assert drawn == draw_tasks(tasks, 4, seed=1) != draw_tasks(tasks, 4, seed=2)
    assert draw_tasks(tasks, None, seed=1) == list(tasks)
    varied = with_variants(textcraft, drawn, 3)
    assert {t.family for t in varied} == {t.family for t in drawn}
    assert len({t.id for t in varied}) == len(varied) > len(drawn)
    with pytest.raises(ConfigError, match="no prompt variants"):
        with_variants(load_env("sqlgym"), [], 2)


def test_tasks_can_be_chosen_by_difficulty(textcraft: Environment) -> None:
    train = textcraft.panel("train").tasks
    easy = of_difficulties(train, ["depth 1", "depth 2"])
    assert {t.difficulty for t in easy} == {"depth 1", "depth 2"}
    assert easy == [t for t in train if t.difficulty in ("depth 1", "depth 2")]
    with pytest.raises(ConfigError, match=r"unknown difficulty 'depth1'.*depth 1"):
        of_difficulties(train, ["depth1"])
