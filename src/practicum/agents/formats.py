"""The action formats by name."""

from __future__ import annotations

from practicum.agents.adapt import AdaptFormat
from practicum.agents.bracket import BracketFormat
from practicum.agents.code import CodeFormat
from practicum.agents.format import ActionFormat
from practicum.agents.function_call import FunctionCallFormat
from practicum.agents.json_action import JsonFormat
from practicum.agents.react import ReactFormat
from practicum.agents.tag import TagFormat
from practicum.core.errors import unknown_name

FORMATS: dict[str, ActionFormat] = {
    action_format.name: action_format
    for action_format in (
        ReactFormat(),
        AdaptFormat(),
        TagFormat(),
        BracketFormat(),
        FunctionCallFormat(),
        JsonFormat(),
        CodeFormat(),
    )
}


def get_format(name: str) -> ActionFormat:
    """Look a format up; an unknown name is a `ConfigError`."""
    if name not in FORMATS:
        raise unknown_name("action format", name, FORMATS)
    return FORMATS[name]
