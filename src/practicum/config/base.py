"""The base of every config, and the one way to read one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from practicum.core.errors import ConfigError

Config = TypeVar("Config", bound="StrictConfig")


class StrictConfig(BaseModel):
    """A config that cannot be changed and takes no key it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def read_config(
    cls: type[Config],
    *,
    path: Path | None = None,
    values: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
) -> Config:
    """Read a config: a YAML file, then `values`, then `a.b=c` overrides on top."""
    merged = _read_yaml(path) if path is not None else {}
    merged |= deepcopy(dict(values or {}))  # overrides change what lies below the keys
    for override in overrides:
        _apply_override(merged, override)
    try:
        return cls.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_explain(cls, error)) from error


def read_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """Read `a.b=c` arguments that belong to no config."""
    values: dict[str, Any] = {}
    for override in overrides:
        _apply_override(values, override)
    return values


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        where = str(error).replace("\n", " ")
        raise ConfigError(f"{path} is not valid YAML: {where}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold keys and values at its top level")
    return content


def _apply_override(merged: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"override {override!r} must read key=value, as in limits.max_turns=20")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"override {override!r}: the value is not valid YAML") from error
    *parents, last = key.split(".")
    node = merged
    for parent in parents:
        node = node.setdefault(parent, {})
        if not isinstance(node, dict):
            raise ConfigError(f"override {override!r}: {parent!r} has no keys below it")
    node[last] = value


def _explain(cls: type[StrictConfig], error: ValidationError) -> str:
    problems = []
    for detail in error.errors():
        key = ".".join(_walk(cls, detail["loc"])[0])
        if detail["type"] == "extra_forbidden":
            beside = _walk(cls, detail["loc"][:-1])[1]
            known = list(getattr(beside, "model_fields", ()))
            near = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            problems.append(f"unknown key {key!r}: {hint}")
        elif detail["type"] == "union_tag_invalid":
            problems.append(f"{key}: known names are {detail['ctx']['expected_tags']}")
        elif detail["type"] == "missing":
            problems.append(f"key {key!r} is missing")
        else:
            what = detail["msg"].removeprefix("Value error, ")
            problems.append(f"{key or 'config'}: {what[0].lower()}{what[1:]}")
    return "; ".join(problems)


class _ByName(NamedTuple):
    """Configs of one kind under names the user gives."""

    config: type[BaseModel]


def _walk(cls: type[StrictConfig], location: Sequence[int | str]) -> tuple[list[str], Any]:
    """The keys to a place as a user writes them, and the config they lead to if it is one.

    Where a key has one of several configs, pydantic's location names which; users do not.
    """
    model: Any = cls
    keys: list[str] = []
    for part in location:
        if isinstance(model, dict):
            model = model.get(part)
            continue
        keys.append(str(part))
        if isinstance(model, _ByName):
            model = model.config
            continue
        fields = getattr(model, "model_fields", {})
        field = fields.get(part) if isinstance(part, str) else None
        model = _config_of(field)
    return keys, model


def _config_of(field: Any) -> Any:
    """The config a field holds, or several by their tag or name; None for anything else."""
    if field is None:
        return None
    if field.discriminator is not None:
        kinds = get_args(field.annotation)
        return {
            get_args(kind.model_fields[field.discriminator].annotation)[0]: kind for kind in kinds
        }
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return _ByName(kind) if get_origin(field.annotation) is dict else kind
    return None
