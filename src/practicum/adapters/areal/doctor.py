"""Looks at an installed AReaL, and at a folder that `practicum export areal` wrote for it.

Settings are read with AReaL's own loader, so that what it would refuse is refused here; what it
would take and then ignore, or fail on after an hour, is looked for besides.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from practicum.adapters.areal.settings import RolloutSettings
from practicum.core.errors import ConfigError, PracticumError
from practicum.core.finding import Finding
from practicum.envs.desktop.bodies import TOKEN_VARIABLE

TOPIC = "areal"
TESTED = "1.0.4"
PROXY_NEEDS = "litellm.llms.anthropic.experimental_pass_through"
TEXT_TOKENS = 1200
"""About what rules, task and a turn's words come to, apart from pictures and answers."""
PIXELS_PER_TOKEN = 32 * 32
"""Of Qwen3-VL: patches of 16 pixels, two by two."""
DESKTOP_TURNS = 15
"""What OSWorld gives an episode."""
DESKTOPS_PER_CORE = 4
LEAKING = ("sdpa", "eager")


def examine(folder: Path | None) -> list[Finding]:
    """Look at what is installed, and at an exported folder if one is given."""
    found = list(_installed())
    if folder is None:
        return found
    files = [folder / name for name in ("areal.yaml", "proxy.yaml") if (folder / name).exists()]
    if not files:
        raise ConfigError(f"{folder} holds no areal.yaml: write it with `practicum export areal`")
    if find_spec("areal") is None:
        return found
    for path in files:
        found += _settings(path)
    return found


def _installed() -> Iterator[Finding]:
    try:
        has = version("areal")
    except PackageNotFoundError:
        yield Finding(
            *(TOPIC, "areal", False, "not installed", f"pip install 'areal[sglang]=={TESTED}'")
        )
        return
    yield Finding(
        *(TOPIC, "areal", has == TESTED, f"{has}; tested with {TESTED}"),
        f"pip install areal=={TESTED}",
    )
    has_proxy = _is_there(PROXY_NEEDS)
    yield Finding(
        *(TOPIC, "litellm", has_proxy, version("litellm") if _is_there("litellm") else "missing"),
        "pip install litellm==1.83.14: its proxy needs a module that later releases lack",
    )
    for engine in ("sglang", "vllm"):
        if _is_there(engine):
            yield Finding(TOPIC, engine, True, version(engine))
            return
    yield Finding(
        *(TOPIC, "engine", False, "neither sglang nor vllm: nothing can be sampled here"),
        f"pip install 'areal[sglang]=={TESTED}'",
    )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _settings(path: Path) -> Iterator[Finding]:
    try:
        config = load_settings(path)
    except Exception as error:  # noqa: BLE001 - whatever AReaL's loader raises is what we report
        why = " ".join(str(error).split())[:300]
        yield Finding(
            *(TOPIC, path.name, False, f"AReaL cannot load it: {why}"),
            "write it again with `practicum export areal`",
        )
        return
    yield Finding(TOPIC, path.name, True, f"AReaL loads it; {config.workflow}")
    try:
        told = read_workflow(config)
    except ConfigError as error:
        yield Finding(TOPIC, "workflow_kwargs", False, str(error), "correct them in areal.yaml")
        return
    yield from _look(config, told, is_proxy=".agent." in config.workflow)


def load_settings(path: Path, overrides: tuple[str, ...] = ()) -> Any:
    """Read settings with AReaL's own loader, without starting anything."""
    from areal.api.cli_args import parse_cli_args, to_structured_cfg
    from omegaconf import OmegaConf

    from practicum.adapters.areal.train import TrainConfig

    tables = [
        f"{key}.path={path.parent / name}"
        for key, name in (("train_dataset", "train.jsonl"), ("valid_dataset", "valid.jsonl"))
        if (path.parent / name).exists()
    ]
    read, _ = parse_cli_args(["--config", str(path), *tables, *overrides])
    return OmegaConf.to_object(to_structured_cfg(read, config_cls=TrainConfig))


def read_workflow(config: Any) -> RolloutSettings:
    """What the workflow is told, checked by the workflow's own reader."""
    import importlib

    module, _, name = config.workflow.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    told = kind(**config.workflow_kwargs).settings
    if config.eval_workflow_kwargs:
        kind(**config.eval_workflow_kwargs)
    if isinstance(told, RolloutSettings):
        return told
    return RolloutSettings(
        **told.model_dump(),
        model=config.actor.path,
        max_context=config.rollout.agent.engine_max_tokens or config.sglang.context_length,
        group_size=config.gconfig.n_samples,
    )


def refuse_wrong(config: Any) -> None:
    """Raise `ConfigError` for settings that AReaL would take, and train on something else."""
    is_proxy = ".agent." in config.workflow
    for finding in _spoiling(config, read_workflow(config), is_proxy=is_proxy):
        if not finding.is_fine:
            raise ConfigError(f"{finding.name}: {finding.detail}: {finding.remedy}")


def _look(config: Any, told: RolloutSettings, *, is_proxy: bool) -> Iterator[Finding]:
    for name in config.needs:
        is_set = bool(os.environ.get(name))
        detail = "set" if is_set else "needed by the environment and not set"
        yield Finding(TOPIC, name, is_set, detail, f"export {name}=…")
    yield _context(config, told)
    yield _concurrency(config, told)
    yield from _spoiling(config, told, is_proxy=is_proxy)


def _spoiling(config: Any, told: RolloutSettings, *, is_proxy: bool) -> Iterator[Finding]:
    """Look for what AReaL takes and then trains on something else than was sampled."""
    yield _groups(config, told, is_proxy)
    if is_proxy:
        yield from _proxy(config)
    if _shows_pictures(told):
        yield from _pictures(config, is_proxy)


def _groups(config: Any, told: RolloutSettings, is_proxy: bool) -> Finding:
    norm = config.actor.reward_norm
    cut = (
        norm.group_size if norm is not None and "group" in (norm.mean_level, norm.std_level) else 0
    )
    rows = config.gconfig.n_samples * (1 if is_proxy else told.group_size)
    if not is_proxy and config.gconfig.n_samples != 1:
        return Finding(
            *(
                TOPIC,
                "groups",
                False,
                f"gconfig.n_samples={config.gconfig.n_samples}, and the workflow plays groups",
            ),
            "write gconfig.n_samples=1 and workflow_kwargs.group_size instead: AReaL cuts groups "
            "by counting rows, and a broken episode would shift all that follow",
        )
    return Finding(
        *(TOPIC, "groups", cut == rows, f"{rows} rows a task, normalised {cut} at a time"),
        f"write actor.reward_norm.group_size={rows}",
    )


def _context(config: Any, told: RolloutSettings) -> Finding:
    """Whether an episode fits: of pictures all turns, of words at least the first."""
    picture = _picture_tokens(told)
    turns = (told.limits.max_turns or DESKTOP_TURNS) if picture else 1
    need = TEXT_TOKENS + turns * (picture + told.sampling.max_tokens)
    room = min(told.max_context, config.sglang.context_length or told.max_context)
    words = f"{turns} answers of {told.sampling.max_tokens} tokens"
    if picture:
        words += f" and a picture of about {picture}"
    detail = f"{words} come to {need} tokens of {room}"
    remedy = (
        "raise model.max_context, or lower limits.max_turns, sampling.max_tokens or options.screen:"
        " episodes would end where the context does"
    )
    return Finding(TOPIC, "context", need <= room, detail, remedy)


def _picture_tokens(told: RolloutSettings) -> int:
    if not _shows_pictures(told):
        return 0
    width, _, height = str(told.options.get("screen", "1280x720")).partition("x")
    return int(width) * int(height) // PIXELS_PER_TOKEN


def _shows_pictures(told: RolloutSettings) -> bool:
    return told.env == "desktop" and told.options.get("view") in ("screenshot", "both")


def _concurrency(config: Any, told: RolloutSettings) -> Finding:
    """Whether there are as many desktops as episodes at a time."""
    groups = config.rollout.max_concurrent_rollouts or config.rollout.consumer_batch_size
    episodes = groups * told.group_size
    detail = f"{groups} groups of {told.group_size}: {episodes} episodes at a time"
    if told.env != "desktop":
        return Finding(TOPIC, "concurrency", True, detail)
    try:
        room, what = _desktops(told.options)
    except PracticumError as error:
        return Finding(TOPIC, "concurrency", False, f"{detail}; {error}", "start the gateway")
    return Finding(
        *(TOPIC, "concurrency", episodes <= room, f"{detail} on {room} desktops ({what})"),
        f"set rollout.max_concurrent_rollouts={max(1, room // told.group_size)}, or add desktops",
    )


def _desktops(options: Mapping[str, Any]) -> tuple[int, str]:
    """How many desktops there are, and who says so."""
    body = str(options.get("body", "xvfb"))
    if body.startswith("waa+"):
        return len(body.split(",")), "servers named in options.body"
    if body.startswith(("http://", "https://")):
        return asyncio.run(_gateway_size(body, options.get("ca_file"))), f"of {body}"
    return DESKTOPS_PER_CORE * (os.cpu_count() or 1), f"what this machine can carry as {body}"


async def _gateway_size(url: str, ca_file: str | None) -> int:
    from practicum.desktops.gateway.client import GatewayClient

    token = os.environ.get(TOKEN_VARIABLE, "")
    async with GatewayClient(url, token, ca_file=Path(ca_file) if ca_file else None) as client:
        told = await client.call("GET", "/describe")
    return sum(int(host["size"]) for host in told["hosts"])


def _proxy(config: Any) -> Iterator[Finding]:
    agent = config.rollout.agent
    styles = (agent.chat_template_type, agent.export_style)
    yield Finding(
        *(TOPIC, "export_style", styles == ("concat", "concat"), " and ".join(styles)),
        "set rollout.agent.chat_template_type and export_style to concat: with individual every "
        "turn is a row, and groups are cut by counting rows",
    )
    yield Finding(
        *(TOPIC, "scheduler", config.scheduler.type != "ray", str(config.scheduler.type)),
        "set scheduler.type=local or slurm: AReaL starts no proxy under ray",
    )
    yield Finding(
        *(TOPIC, "turn_discount", agent.turn_discount == 1.0, str(agent.turn_discount)),
        "set rollout.agent.turn_discount=1: an episode is one sequence with one reward",
    )


def _pictures(config: Any, is_proxy: bool) -> Iterator[Finding]:
    yield Finding(
        *(TOPIC, "pictures", not is_proxy, "through the proxy" if is_proxy else "on the engine"),
        f"AReaL {TESTED} trains without pictures that went through its proxy: use ./launch",
    )
    backend = config.rollout.backend
    yield Finding(
        *(TOPIC, "backend", backend.startswith("sglang"), backend),
        "set rollout.backend=sglang:…: AReaL gives vLLM pictures as messages, tokenised anew",
    )
    attention = config.actor.attn_impl
    yield Finding(
        *(TOPIC, "attention", attention not in LEAKING, attention),
        "set actor.attn_impl=flash_attention_2: with others, sequences packed together see each "
        "other in vision-language models",
    )
