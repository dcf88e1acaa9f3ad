"""verl itself loads what we ship and export, and doctor says what would go wrong."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

if find_spec("verl") is None:
    pytest.skip(
        "verl lives in a virtual environment of its own: make test-verl", allow_module_level=True
    )

from adapters.one_episode import MODEL
from adapters.verl_episodes import write_export
from chat_templates import make_tokenizer
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from practicum.adapters.verl.doctor import examine
from practicum.adapters.verl.export import SETTINGS_FILE
from practicum.adapters.verl.loading import load_settings
from practicum.adapters.verl.tokens import disagreement
from practicum.core.errors import ConfigError
from practicum.policies.rendering import Renderer

pytestmark = pytest.mark.filterwarnings("ignore")

SHIPPED = sorted((Path(__file__).parents[2] / "configs" / "verl").glob("*.yaml"))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_verl_loads_and_accepts_what_we_ship(file: Path) -> None:
    # The model that our SFT configs train is not here, and verl reads its config.
    models = [f"actor_rollout_ref.model.path={MODEL}", f"critic.model.path={MODEL}"]
    config = load_settings(file, models)
    assert config.trainer.use_v1
    assert config.actor_rollout_ref.rollout.agent.default_agent_loop == "practicum"
    assert config.algorithm.adv_estimator == ("gae" if "ppo" in file.stem else "grpo")
    assert config.critic.enable is ("ppo" in file.stem)


def test_a_setting_that_verl_does_not_know_is_refused(tmp_path: Path) -> None:
    (tmp_path / "verl.yaml").write_text(SHIPPED[0].read_text() + "\nactor_rollout_reff: {}\n")
    with pytest.raises(ConfigError, match="actor_rollout_reff"):
        load_settings(tmp_path / "verl.yaml")


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    return write_export(tmp_path / "export", max_tasks=4)


def faults(folder: Path) -> dict[str, str]:
    """What doctor finds wrong with a folder; this machine has no inference engine for GPUs."""
    found = examine(folder)
    return {f.name: f.detail for f in found if not f.is_fine and f.name != "rollout"}


def change(folder: Path, keys: str, value: object) -> None:
    settings = yaml.safe_load((folder / SETTINGS_FILE).read_text())
    *parents, last = keys.split(".")
    node = settings
    for parent in parents:
        node = node.setdefault(parent, {})
    node[last] = value
    (folder / SETTINGS_FILE).write_text(yaml.safe_dump(settings))


def test_doctor_finds_nothing_wrong_with_an_export(exported: Path) -> None:
    assert faults(exported) == {}


@pytest.mark.parametrize(
    ("keys", "value", "name", "detail"),
    [
        ("trainer.use_v1", False, "broken episodes", "reward of 0"),
        ("data.max_prompt_length", 100, "prompts", "of 100 tokens"),
        ("data.max_response_length", 100, "turns", "12 turns with answers of up to 96 tokens"),
        ("actor_rollout_ref.rollout.calculate_log_probs", False, "log-probabilities", "not"),
        ("actor_rollout_ref.rollout.multi_turn.max_assistant_turns", 3, "multi-turn settings", "3"),
        ("actor_rollout_ref.rollout.agent.default_agent_loop", "tool_agent", "agent loop", "tool"),
        ("trainer.updates", 3, "settings", "updates"),
    ],
)  # fmt: skip
def test_doctor_names_what_would_go_wrong(
    exported: Path, keys: str, value: object, name: str, detail: str
) -> None:
    change(exported, keys, value)
    found = faults(exported)
    assert name in found
    assert detail in found[name] or name == "multi-turn settings"


def test_our_tokens_are_verls_for_families_it_knows() -> None:
    for name, family in {"qwen2.5": "qwen2", "qwen3": "qwen3", "chatml": "qwen2"}.items():
        tokenizer = make_tokenizer(name)
        builder = create_continuous_token_builder(tokenizer, hf_model_type=family)
        assert disagreement(Renderer(tokenizer), builder) is None, name


def test_where_verl_leaves_the_template_is_said() -> None:
    tokenizer = make_tokenizer("smollm2")
    builder = create_continuous_token_builder(tokenizer, hf_model_type="llama")
    why = disagreement(Renderer(tokenizer), builder)
    assert why is not None
    assert "<|im_end|>" in why
