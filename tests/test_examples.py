"""The examples do what they say."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


async def test_the_grpo_loop_learns_and_leaves_broken_episodes_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = load("grpo_loop", monkeypatch)
    curve = await example.main(num_updates=16)
    assert sum(curve[-3:]) / 3 > sum(curve[:3]) / 3 + 0.3
    # Every fault is drawn from the same seed: the first batch of 144 has at least one.
    first = capsys.readouterr().out.splitlines()[0]
    assert "broken 0" not in first and "/144" not in first


def test_the_grpo_loop_stays_readable_in_one_sitting() -> None:
    assert len((EXAMPLES / "grpo_loop.py").read_text().splitlines()) < 300
