"""Reads what an export wrote with verl's own loader, as its main program does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir, initialize_config_module
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from practicum.adapters.verl.export import PLACES
from practicum.core.errors import ConfigError


def load_settings(file: Path, overrides: Sequence[str] = ()) -> Any:
    """A settings file on top of verl's defaults, checked by verl; it must know every key."""
    _refuse_unknown(file)
    places = [f"{key}={file.parent.resolve() / name}" for key, name in PLACES.items()]
    try:
        with initialize_config_dir(str(file.parent.resolve()), version_base=None):
            config = compose(file.stem, overrides=[*places, *overrides])
        OmegaConf.resolve(config)
        validate_config(
            config=config,
            use_reference_policy=need_reference_policy(config),
            use_critic=need_critic(config),
        )
    except (HydraException, OmegaConfBaseException, ValueError, AssertionError) as error:
        raise ConfigError(f"verl refuses {file}: {error}") from error
    return config


def _refuse_unknown(file: Path) -> None:
    """Raise for keys that verl has not: its loader takes any key of a file, and ignores it."""
    given = yaml.safe_load(file.read_text(encoding="utf-8"))
    with initialize_config_module("verl.trainer.config", version_base=None):
        known = OmegaConf.to_container(compose("ppo_trainer"), resolve=False)
    own = {key: value for key, value in given.items() if key not in ("defaults", "hydra")}
    unknown = _unknown(own, known, "")
    if unknown:
        raise ConfigError(f"verl has no setting {', '.join(unknown)}, and would ignore it: {file}")


def _unknown(given: Mapping[str, Any], known: Any, prefix: str) -> list[str]:
    found = []
    for key, value in given.items():
        if key not in known:
            found.append(f"{prefix}{key}")
        # Where verl has an empty mapping, anything can be put.
        elif isinstance(value, Mapping) and isinstance(known[key], Mapping) and known[key]:
            found += _unknown(value, known[key], f"{prefix}{key}.")
    return found
