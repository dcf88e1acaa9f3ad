"""Our environments under TRL's real `GRPOTrainer`."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from adapters.expert_play import ExpertPlayer
from adapters.one_episode import (
    DIGEST,
    FORMAT,
    MAX_TURNS,
    MODEL,
    Recorded,
    answers,
    task,
)
from chat_templates import TEMPLATES, make_tokenizer
from datasets import Dataset
from support import TIMELESS, require_env
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.chat_template_utils import (
    is_chat_template_prefix_preserving,
    parse_response,
    supports_tool_calling,
)
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from practicum.adapters.stepwise import World
from practicum.adapters.trl.environment import MAX_BROKEN_IN_A_ROW, EnvironmentFactory
from practicum.adapters.trl.tokenizer import prepare_tokenizer
from practicum.core.errors import EnvError
from practicum.core.message import Message
from practicum.policies.rendering import Renderer

MAX_COMPLETION = 1024
FLAKY = f"{Path(__file__).with_name('flaky_textcraft.py')}:create"
ALWAYS = {"modulus": 1, "remainders": [0]}


def make_factory(
    env_id: str = "textcraft", max_turns: int = MAX_TURNS, **options: Any
) -> EnvironmentFactory:
    world = World(env_id, format_name=FORMAT, limits={"max_turns": max_turns}, options=options)
    return EnvironmentFactory(world, max_completion_tokens=MAX_COMPLETION)


@pytest.fixture
def factory() -> Iterator[EnvironmentFactory]:
    made = make_factory()
    yield made
    made.world.close()


class WatchedTrainer(GRPOTrainer):
    """Keeps what an update is computed from."""

    scripted = False
    batches: list[dict[str, Any]]
    num_calls = 0

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        self.num_calls += 1
        if not self.scripted:
            return super()._generate_single_turn(prompt_ids, *args, **kwargs)
        said = answers()[self.num_calls - 1]
        return [list(said.token_ids) for _ in prompt_ids], None

    def _generate(self, prompts: Any) -> Any:
        self.prompts = prompts
        self.generated = super()._generate(prompts)
        return self.generated

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        batch = super()._generate_and_score_completions(inputs)
        self.batches = [*getattr(self, "batches", []), batch]
        return batch


def be_brief(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """A reward beside the environment's, so that a group differs whatever was sampled."""
    return [-len(ids) / MAX_COMPLETION for ids in completion_ids]


def make_trainer(
    factory: EnvironmentFactory, folder: Path, rows: Any, reward_funcs: Any = None, **given: Any
) -> Any:
    settings: dict[str, Any] = {
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_steps": 1,
        "learning_rate": 1e-3,
        **given,
    }
    config = GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        max_completion_length=MAX_COMPLETION,
        max_tool_calling_iterations=factory.world.max_turns,
        generation_kwargs={"max_new_tokens": 32},
        beta=0.0,
        shuffle_dataset=False,
        gradient_checkpointing=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **settings,
    )
    return WatchedTrainer(
        model=AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32),
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=prepare_tokenizer(AutoTokenizer.from_pretrained(MODEL)),
        environment_factory=factory,
        reward_funcs=reward_funcs,
    )


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")


def test_the_trainer_records_the_episode_that_ours_collects(
    factory: EnvironmentFactory, tmp_path: Path
) -> None:
    trainer = make_trainer(
        factory, tmp_path, factory.rows([task()]), per_device_train_batch_size=2, num_generations=2
    )
    trainer.scripted = True
    trainer.train()
    prompt_ids, completion_ids, mask, completions, *_ = trainer.generated
    assert trainer.num_calls == len(answers()), "no answer is asked for after the end"
    assert trainer.batches[0]["advantages"].tolist() == [0.0, 0.0]
    for index, environment in enumerate(trainer.environments):
        recorded = Recorded(
            messages=[*trainer.prompts[index], *map(_message, completions[index])],
            token_ids=[*prompt_ids[index], *completion_ids[index]],
            mask=[0] * len(prompt_ids[index]) + mask[index],
            reward=environment.get_reward(),
        )
        assert recorded.digest == DIGEST


def _message(said: dict[str, Any]) -> dict[str, str]:
    """What TRL keeps as a tool call or its reply, as the message it is."""
    if said["role"] == "tool":
        return {"role": "user", "content": said["content"]}
    (call,) = said["tool_calls"]
    return {"role": "assistant", "content": call["function"]["arguments"]["answer"]}


def test_an_update_on_the_cpu_changes_the_weights(tmp_path: Path) -> None:
    factory = make_factory(max_turns=5)
    tasks = [t for t in factory.world.environment.panel("train") if t.difficulty == "depth 2"][:1]
    try:
        trainer = make_trainer(
            *(factory, tmp_path, factory.rows(tasks), [be_brief]),
            per_device_train_batch_size=8,
            num_generations=8,
        )
        before = [p.detach().clone() for p in trainer.model.parameters()]
        trainer.train()
    finally:
        factory.world.close()
    (batch,) = trainer.batches
    rewards = [environment.get_reward() for environment in trainer.environments]
    assert len(rewards) == 8 and set(rewards) <= {0.0, 1.0}
    assert batch["advantages"].abs().sum() > 0
    after = trainer.model.parameters()
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_broken_episode_has_no_reward_and_no_advantage(tmp_path: Path) -> None:
    factory = make_factory(FLAKY, modulus=4, remainders=[3])
    tasks = [t for t in factory.world.environment.panel("train") if t.difficulty == "depth 1"][:1]
    try:
        trainer = make_trainer(factory, tmp_path, factory.rows(tasks))
        trainer.train()
    finally:
        factory.world.close()
    (batch,) = trainer.batches
    rewards = [environment.get_reward() for environment in trainer.environments]
    assert [reward is None for reward in rewards] == [False, False, False, True]
    assert batch["advantages"][3] == 0.0
    # Whoever counts it as a 0 has a lower mean.
    sound = torch.tensor(rewards[:3])
    assert torch.allclose(
        batch["advantages"][:3], (sound - sound.mean()) / (sound.std() + 1e-4), atol=1e-4
    )


def test_a_world_that_is_down_ends_the_training() -> None:
    factory = make_factory(FLAKY, **ALWAYS)
    try:
        environment = factory()
        (row,) = factory.rows([task()])
        for attempt in range(MAX_BROKEN_IN_A_ROW):
            environment.reset(**row)
            assert environment.act("Action: inventory") != factory.too_long
            assert environment.act("Action: inventory") == factory.too_long
            if attempt < MAX_BROKEN_IN_A_ROW - 1:
                assert environment.get_reward() is None
        with pytest.raises(EnvError, match="the world fell apart"):
            environment.get_reward()
    finally:
        factory.world.close()


@pytest.mark.parametrize("env_id", TIMELESS)
def test_the_expert_wins(env_id: str) -> None:
    require_env(env_id)
    world = World(env_id, format_name=FORMAT)
    factory = EnvironmentFactory(world, max_completion_tokens=MAX_COMPLETION)
    try:
        played = factory.world.environment.panel("dev").tasks[0]
        player = ExpertPlayer(factory.world.environment, played, FORMAT)
        environment = factory()
        (row,) = factory.rows([played])
        shown = environment.reset(**row)
        while shown != factory.too_long:
            shown = environment.act(player.answer(shown))
        assert environment.get_reward() > 0.9, "BabyAI pays less for later"
    finally:
        factory.world.close()


def test_an_episode_without_room_is_judged_as_it_stands(factory: EnvironmentFactory) -> None:
    environment = factory()
    (row,) = factory.rows([task()])
    environment.reset(**row)
    environment.act("Action: inventory")
    assert environment.get_reward() == 0.0


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_template_writes_what_our_renderer_does(name: str) -> None:
    ours = Renderer(make_tokenizer(name))
    tokenizer = prepare_tokenizer(deepcopy(make_tokenizer(name)))
    assert supports_tool_calling(tokenizer)
    assert is_chat_template_prefix_preserving(tokenizer)
    said = ["look", "  Got 1 é.\n", '{"action": "{x}"}\n', ""]
    talk = [Message("system", "You play."), Message("user", "Goal: a log.")]
    for text in said:
        prefix = tokenizer.apply_chat_template(
            [{"role": m.role, "content": m.text} for m in talk],
            add_generation_prompt=True,
            return_dict=False,
        )
        assert tuple(prefix) == ours.conversation_ids(talk)[0]
        answer = list(ours.answer_ids(text))
        (call,) = parse_response(tokenizer, answer, prefix=prefix)["tool_calls"]
        assert call["function"]["arguments"] == {"answer": ours.decode(answer)}
        talk += [Message("assistant", text), Message("user", f"You said {text}.")]
