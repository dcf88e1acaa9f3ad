"""Reads what an export wrote with verl's own loader, as its main program does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from practicum.adapters.verl.export import PLACES
from practicum.core.errors import ConfigError


def load_settings(file: Path, overrides: Sequence[str] = ()) -> Any:
    """A settings file on top of verl's defaults, checked by verl."""
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
