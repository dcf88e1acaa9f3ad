"""What the tests of the verl adapter share: an export, and servers that say what was written."""

from __future__ import annotations

import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

from adapters.one_episode import MAX_TURNS, PANEL, Answer, answers

from practicum.adapters.verl.export import export
from practicum.config.train import RlConfig

with warnings.catch_warnings():
    # verl's own imports warn.
    warnings.simplefilter("ignore")
    import verl.experimental.agent_loop.agent_loop
    import verl.trainer.ppo.utils  # noqa: F401
    from verl.workers.rollout.replica import TokenOutput


def make_config(**changes: Any) -> RlConfig:
    """A small run of ours on the panel that holds the shared episode's task."""
    values: dict[str, Any] = {
        "env": "textcraft",
        "panel": PANEL,
        "model": {"path": "craft-base", "max_context": 1024},
        "packing": {"pack_tokens": 4096},
        "sampling": {"max_tokens": 96},
        "limits": {"max_turns": MAX_TURNS},
        "groups": {"size": 4, "per_update": 2},
        "num_updates": 2,
        "evaluate": {"panel": "test", "max_tasks": 3, "max_turns": MAX_TURNS},
    }
    for key, value in changes.items():
        values[key] = values.get(key, {}) | value if isinstance(value, dict) else value
    return RlConfig.model_validate(values)


def write_export(folder: Path, **changes: Any) -> Path:
    """A folder as `practicum export verl` writes it."""
    folder.mkdir(parents=True)
    export(make_config(**changes), folder)
    return folder


class WrittenServers:
    """In place of verl's client: every episode hears the same answers."""

    def __init__(self, said: tuple[Answer, ...] = answers()) -> None:
        self._said = said
        self.asked: dict[str, list[dict[str, Any]]] = defaultdict(list)

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        **others: Any,
    ) -> Any:
        calls = self.asked[request_id]
        answer = self._said[len(calls)]
        calls.append({"prompt_ids": prompt_ids, "sampling_params": sampling_params})
        limit = sampling_params["max_tokens"]
        return TokenOutput(
            token_ids=list(answer.token_ids[:limit]),
            log_probs=list(answer.logprobs[:limit]),
            stop_reason="completed",
            extra_fields={"min_global_steps": 3, "max_global_steps": 4},
        )
