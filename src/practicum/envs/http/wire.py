"""Observations, results and tasks as JSON: the one place that knows how they are written.

Text is escaped to ASCII and pictures travel as base64, so both arrive byte for byte, lone
surrogates included. Numbers are written as Python writes them and read back equal.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from practicum.core.env import StepResult
from practicum.core.errors import EnvError, EpisodeError, MachineError
from practicum.core.message import Image, Observation
from practicum.core.task import Task

EXTRA = "practicum"
"""The one key our server adds to AgentGym's replies; its clients do not look at it."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def write(value: Any) -> str:
    """Write a JSON value as compact ASCII."""
    return _encode(value)


def write_observation(observation: Observation) -> dict[str, Any]:
    """Write an observation; no pictures, no key for them."""
    if not observation.images:
        return {"text": observation.text}
    return {"text": observation.text, "images": write_images(observation)}


def write_images(observation: Observation) -> list[dict[str, str]]:
    """Write the pictures of an observation."""
    return [
        {"media_type": image.media_type, "data": base64.b64encode(image.data).decode()}
        for image in observation.images
    ]


def read_observation(value: Any) -> Observation:
    """Read an observation, or raise `EnvError`."""
    if not isinstance(value, Mapping) or not isinstance(value.get("text"), str):
        raise bad_reply("an observation", value)
    images = value.get("images")
    return Observation(value["text"], read_images(images) if images else ())


def read_images(value: Any) -> tuple[Image, ...]:
    """Read pictures, or raise `EnvError`."""
    try:
        return tuple(
            Image(base64.b64decode(item["data"], validate=True), item["media_type"])
            for item in value
        )
    except (TypeError, KeyError, binascii.Error, ValueError) as error:
        raise bad_reply("pictures", value) from error


def write_result(result: StepResult, state: str | None) -> dict[str, Any]:
    """Write a result; what is false or empty is left out."""
    written: dict[str, Any] = {"observation": write_observation(result.observation)}
    written |= write_verdict(result, state)
    return written


def write_verdict(result: StepResult, state: str | None) -> dict[str, Any]:
    """Write a result without its observation, and what the world is like after it."""
    verdict: dict[str, Any] = {"reward": result.reward}
    if state is not None:
        verdict["state"] = state
    if result.is_done:
        verdict["done"] = True
    if result.is_success:
        verdict["success"] = True
    if result.is_refused:
        verdict["refused"] = True
    if result.info:
        verdict["info"] = dict(result.info)
    return verdict


def read_result(value: Mapping[str, Any], observation: Observation | None = None) -> StepResult:
    """Read a result, or raise `EnvError`; `observation` when it travelled elsewhere."""
    reward = value.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise bad_reply("a result", value)
    return StepResult(
        observation or read_observation(value.get("observation")),
        float(reward),
        value.get("done", False) is True,
        value.get("success", False) is True,
        value.get("refused", False) is True,
        value.get("info") or {},
    )


def read_state(value: Any) -> str | None:
    """Read the hash of a state, where one was told."""
    state = value.get("state") if isinstance(value, Mapping) else None
    return state if isinstance(state, str) else None


def write_task(task: Task) -> dict[str, Any]:
    """Write a task with all its content."""
    return asdict(task)


def read_task(value: Any) -> Task:
    """Read a task and check it against its id; raises `ConfigError` or `EnvError`."""
    try:
        task = Task(**value)
    except TypeError as error:
        raise EnvError(f"not a task: {_shorten(value)}", kind="bad-request") from error
    task.verify()
    return task


def write_error(error: EpisodeError) -> dict[str, str]:
    """Write an error so that the other side can raise it again."""
    return {"error": str(error), "kind": error.kind, "boundary": error.boundary}


def read_error(value: Mapping[str, Any]) -> EpisodeError:
    """Make the error that the other side had."""
    error_type = MachineError if value.get("boundary") == "machine" else EnvError
    return error_type(str(value.get("error", "")), kind=str(value.get("kind", "server-error")))


def bad_reply(what: str, value: Any) -> EnvError:
    """Build the error for a reply that does not have the form it should have."""
    return EnvError(f"expected {what} and got {_shorten(value)}", kind="bad-reply")


def _shorten(value: Any, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "…"
