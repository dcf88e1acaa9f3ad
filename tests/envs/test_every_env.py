"""What holds for every registered environment: a new one is tested by being registered."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import require_env

from practicum.agents.formats import FORMATS
from practicum.config.base import read_config
from practicum.config.eval import EvalConfig
from practicum.envs import registry
from practicum.envs.contract import check_env
from practicum.evaluate import runner

every_env = pytest.mark.parametrize("env_id", registry.entries())


@every_env
async def test_every_environment_keeps_its_promises(env_id: str) -> None:
    require_env(env_id)
    environment = registry.load_env(env_id)
    try:
        for result in await check_env(environment):
            assert result.is_kept, f"{result.name}: {result.detail}"
    finally:
        await environment.aclose()


@every_env
@pytest.mark.parametrize("name", FORMATS)
async def test_the_expert_wins_in_every_format(tmp_path: Path, env_id: str, name: str) -> None:
    """What it wants is rendered, parsed and carried out like a model's answer."""
    require_env(env_id)
    config = read_config(
        EvalConfig,
        values={"env": env_id, "policy": "expert", "panel": "dev", "format": name, "max_tasks": 3},
    )
    evaluation = runner.prepare(config)
    try:
        run = runner.start_run(evaluation, tmp_path / "run")
        report = await runner.run_evaluation(evaluation, run, lambda _: None)
    finally:
        await evaluation.aclose()
    assert report["success"]["mean"] == 1.0
    assert report["format_errors"]["total"] == 0
