"""Writes configs/verl/: our run configs in verl's words, for every text environment.

python -m tools.verl_configs
"""

from __future__ import annotations

from pathlib import Path

from practicum.adapters.verl.export import settings_text
from practicum.adapters.verl.settings import verl_settings
from practicum.config.base import read_config
from practicum.config.train import RlConfig

CONFIGS = Path(__file__).parents[1] / "configs"
FOLDER = CONFIGS / "verl"
ENVS = ("alfworld", "babyai", "sciworld", "searchqa", "sqlgym", "textcraft", "webshop", "joint")
COMMON = (
    # What verl would ignore is put back; what it does otherwise is left to it.
    *("max_minutes=null", "groups.carry_over=false", "groups.max_per_update=null"),
    *("num_updates=200", "checkpoints.every=20", "evaluate.every=20"),
)
OWN = {
    "joint": ("mixture.normalise=false", "mixture.adaptive=null"),
    "textcraft": ("curriculum=null",),
}
ALGORITHMS = {
    "grpo": ("algorithm.negative_weight=1",),
    "ppo": ("algorithm={name: ppo, level: token, minibatches: 4, clip_high: 0.28}",),
}
HEADER = """\
# An export measures its prompts; half of the context is a guess. These settings with data:
#   practicum export verl configs/{source} --out DIR \\
{overrides}
"""


def shipped() -> dict[str, str]:
    """The files by name."""
    return {f"{env}_{name}.yaml": _write(env, name) for env in ENVS for name in ALGORITHMS}


def _write(env: str, algorithm: str) -> str:
    source = f"rl_{env}_smollm2.yaml"
    overrides = (*COMMON, *ALGORITHMS[algorithm], *OWN.get(env, ()))
    config = read_config(RlConfig, path=CONFIGS / source, overrides=overrides)
    settings = verl_settings(config, config.model.max_context // 2, f"{env}_{algorithm}")
    lines = [f"#     {' '.join(_quoted(o) for o in part)}" for part in _by(3, overrides)]
    header = HEADER.format(source=source, overrides=" \\\n".join(lines))
    return header + settings_text(settings)


def _quoted(override: str) -> str:
    return f"'{override}'" if " " in override else override


def _by(size: int, parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [parts[n : n + size] for n in range(0, len(parts), size)]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in shipped().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
