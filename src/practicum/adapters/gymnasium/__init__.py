"""Our environments in Gymnasium: importing this registers `practicum/TextCraft-v1` and so on."""

from __future__ import annotations

from practicum.core.errors import ConfigError
from practicum.envs.registry import entries

try:
    import gymnasium
except ImportError as error:
    raise ConfigError("this needs Gymnasium: pip install 'practicum[gymnasium]'") from error

_NAMES = {
    "textcraft": "TextCraft",
    "babyai": "BabyAI",
    "sciworld": "SciWorld",
    "alfworld": "ALFWorld",
    "webshop": "WebShop",
    "sqlgym": "SQLGym",
    "searchqa": "SearchQA",
    "desktop": "Desktop",
}
_LIVE = ("desktop",)


def gym_id(env_id: str) -> str:
    """The name an environment has in Gymnasium; others keep theirs."""
    return f"practicum/{_NAMES.get(env_id, env_id)}-v1"


for _env_id in entries():
    if gym_id(_env_id) not in gymnasium.registry:
        gymnasium.register(
            gym_id(_env_id),
            "practicum.adapters.gymnasium.env:PracticumEnv",
            kwargs={"env_id": _env_id},
            nondeterministic=_env_id in _LIVE,
        )
