from itertools import takewhile
from pathlib import Path

import pytest

from practicum.config.base import StrictConfig, read_config
from practicum.config.eval import EvalConfig
from practicum.config.gateway import GatewayConfig
from practicum.config.train import RlConfig, SftConfig
from practicum.core.errors import ConfigError

CONFIGS = Path(__file__).parents[2] / "configs"
MINIMAL = {"env": "textcraft", "policy": "expert"}


KINDS: dict[str, type[StrictConfig]] = {
    "eval": EvalConfig,
    "gateway": GatewayConfig,
    "rl": RlConfig,
    "sft": SftConfig,
}


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_shipped_config_loads_and_says_what_it_is(path: Path) -> None:
    kind, _, _ = path.stem.partition("_")
    read_config(KINDS[kind], path=path)
    lines = path.read_text().splitlines()
    header = "\n".join(takewhile(lambda line: line.startswith("#"), lines))
    assert header.startswith("# ") and f"configs/{path.name}" in header
    is_training = kind in ("rl", "sft")
    assert not is_training or "easured" in header  # to do what, or that it was not


def test_overrides_come_last_and_reach_nested_keys() -> None:
    config = read_config(
        EvalConfig, values=MINIMAL, overrides=["sampling.top_p=0.5", "samples=2", "samples=3"]
    )
    assert (config.sampling.top_p, config.samples) == (0.5, 3)
    assert config.sampling.temperature == 1.0


def test_overrides_leave_the_values_they_go_on_top_of_as_they_were() -> None:
    values = MINIMAL | {"sampling": {"top_p": 0.5}}
    read_config(EvalConfig, values=values, overrides=["sampling.top_p=0.9"])
    assert values["sampling"] == {"top_p": 0.5}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "sampling.tmeperature=1",
            "unknown key 'sampling.tmeperature': did you mean 'temperature'",
        ),
        ("samples=none", "samples: input should be a valid integer"),
        ("sampling=3", "sampling: input should be"),
        ("samples.x=1", "samples: input should be"),
        ("=1", "must read key=value"),
        ("a=[1", "not valid YAML"),
        ("zzz=1", "known: env, options, policy"),
    ],
)
def test_bad_settings_say_what_is_wrong(override: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(EvalConfig, values=MINIMAL, overrides=[override])
    assert words in str(caught.value)


def test_a_config_cannot_be_changed() -> None:
    config = read_config(EvalConfig, values=MINIMAL)
    with pytest.raises(ValueError, match="frozen"):
        config.samples = 2  # type: ignore[misc]


def test_the_saved_form_reads_back_the_same() -> None:
    config = read_config(EvalConfig, values=MINIMAL, overrides=["endpoint.logprobs=true"])
    assert read_config(EvalConfig, values=config.model_dump(mode="json")) == config
