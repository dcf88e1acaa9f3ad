"""What verl needs here, and whether it can train from an exported folder as it is asked to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from practicum.adapters.verl.rows import AGENT_NAME, SPEC, EpisodeSpec
from practicum.core.errors import ConfigError
from practicum.core.finding import Finding
from practicum.core.message import Message
from practicum.policies.local.weights import find_model
from practicum.policies.rendering import Renderer

TOPIC = "verl"
TESTED = "0.9.1"
INSTALL = f"pip install 'verl=={TESTED}'"
TURN_TOKENS = 16
"""An observation and what the template puts around it has as many tokens at least."""


def examine(folder: Path | None) -> list[Finding]:
    """Look at the packages, and at a folder if one is given."""
    findings = [*_packages()]
    if folder is None or not all(f.is_fine for f in findings if f.name == "verl"):
        return findings
    return [*findings, *_settings(folder)]


def _packages() -> Iterator[Finding]:
    yield _package("verl", lambda found: found == TESTED, INSTALL)
    yield _package("ray", lambda _: True, "pip install 'ray[default]>=2.41'")
    yield _package("TransferQueue", lambda _: True, "pip install TransferQueue")
    engines = [name for name in ("vllm", "sglang", "tensorrt_llm") if find_spec(name)]
    detail = f"an inference engine: {', '.join(engines)}" if engines else "no inference engine"
    yield Finding(TOPIC, "rollout", bool(engines), detail, "pip install vllm")


def _package(name: str, is_fit: Callable[[str], bool], remedy: str) -> Finding:
    try:
        found = version(name)
    except PackageNotFoundError:
        return Finding(TOPIC, name, False, "not installed", remedy)
    detail = found if is_fit(found) else f"{found}, tested is {TESTED}"
    return Finding(TOPIC, name, is_fit(found), detail, remedy)


def _settings(folder: Path) -> Iterator[Finding]:
    from practicum.adapters.verl.export import SETTINGS_FILE
    from practicum.adapters.verl.loading import load_settings

    try:
        # verl talks while it loads; what we say may be JSON.
        with redirect_stdout(sys.stderr):
            config = load_settings(folder / SETTINGS_FILE)
    except ConfigError as error:
        yield Finding(TOPIC, "settings", False, str(error), "export again")
        return
    yield Finding(TOPIC, "settings", True, "verl loads and accepts them")
    yield from _ways(config)
    yield from _lengths(config)


def _ways(config: Any) -> Iterator[Finding]:
    """Settings under which verl would not do what our loop relies on."""
    rollout = config.actor_rollout_ref.rollout
    is_ours = rollout.agent.default_agent_loop == AGENT_NAME
    yield Finding(
        *(TOPIC, "agent loop", is_ours, f"{rollout.agent.default_agent_loop}"),
        f"actor_rollout_ref.rollout.agent.default_agent_loop={AGENT_NAME}",
    )
    v1 = bool(config.trainer.use_v1)
    yield Finding(
        *(TOPIC, "broken episodes", v1),
        "left out" if v1 else "counted as a reward of 0 in their group's baseline",
        "trainer.use_v1=true",
    )
    yield Finding(
        *(TOPIC, "log-probabilities", bool(rollout.calculate_log_probs)),
        "recorded by the sampler" if rollout.calculate_log_probs else "not recorded",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
    )
    ignored = [
        name
        for name in ("tool_config_path", "function_tool_path", "max_assistant_turns")
        if rollout.multi_turn.get(name) is not None
    ]
    yield Finding(
        *(TOPIC, "multi-turn settings", not ignored),
        f"{', '.join(ignored)} would be ignored: rows say what is played" if ignored else "none",
        "leave actor_rollout_ref.rollout.multi_turn alone; export with limits.max_turns",
    )


def _lengths(config: Any) -> Iterator[Finding]:
    """Whether prompts fit, and whether turns do."""
    import pyarrow.parquet as pq

    data = config.data
    rows = [
        row
        for name in ("train_files", "val_files")
        for row in pq.read_table(str(data[name]), columns=["prompt", "extra_info"]).to_pylist()
    ]
    renderer = Renderer.load(find_model(config.actor_rollout_ref.model.path))
    prompts = [[Message(m["role"], m["content"]) for m in row["prompt"]] for row in rows]
    longest = max(len(renderer.conversation_ids(prompt)[0]) for prompt in prompts)
    yield Finding(
        *(TOPIC, "prompts", longest <= data.max_prompt_length),
        f"the longest of {len(rows)} has {longest} of {data.max_prompt_length} tokens",
        f"data.max_prompt_length={longest}",
    )
    specs = [EpisodeSpec.model_validate_json(row["extra_info"][SPEC]) for row in rows]
    turns = max(spec.limits.max_turns or 0 for spec in specs)
    answer = max(spec.max_tokens for spec in specs)
    needed = turns * TURN_TOKENS + answer
    yield Finding(
        *(TOPIC, "turns", needed <= data.max_response_length),
        f"{turns} turns with answers of up to {answer} tokens in {data.max_response_length}; "
        f"all of the longest would take {turns * (answer + TURN_TOKENS)}, and what does not fit "
        "ends an episode",
        "raise data.max_response_length, or export with a larger model.max_context",
    )
