"""Agent workflows: episodes through AReaL's proxy, which records what its engine sampled.

AReaL calls `run` in its own process with the proxy's address (`inline`), or in a process of a pool
with the address in the environment (`subproc`). The reward is a `float`; an episode that broke
raises, so that AReaL rejects it. Messages only ever grow, so that with `chat_template_type` and
`export_style` set to `concat` an episode is one sequence.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import openai

from practicum.adapters.areal.episodes import (
    WithdrawnError,
    kept_environment,
    own_environment,
    play_once,
    play_with_retries,
    read_task,
)
from practicum.adapters.areal.settings import (
    OSWORLD_DEFAULTS,
    OSWORLD_OPTIONS,
    WAA_DEFAULTS,
    WAA_OPTIONS,
    WorkflowSettings,
)
from practicum.config.base import read_config
from practicum.core.agent import Prompt, Sampling
from practicum.core.env import Environment
from practicum.core.episode import Completion, Episode
from practicum.core.errors import ConfigError, PolicyError
from practicum.policies.openai_endpoint import Endpoint, OpenAIPolicy

MODEL = "areal"
"""The proxy serves one model and reads no name."""
PICTURES_SINCE = (2, 0)
"""Earlier proxies send pictures to the engine and leave them out of what is trained on."""


class PracticumWorkflow:
    """Episodes of any of our environments, for AReaL's agents."""

    defaults: ClassVar[Mapping[str, Any]] = {}
    default_options: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **settings: Any) -> None:
        """Take the keys of `WorkflowSettings`; one it does not know is a `ConfigError`."""
        self.settings = read_config(
            WorkflowSettings, values=with_defaults(self.defaults, self.default_options, settings)
        )

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        """Play the task of a row; the reward, or an error that makes AReaL reject the episode."""
        is_inline = "base_url" in extra_kwargs
        proxy = _Proxy(self.settings, extra_kwargs)
        opened = kept_environment if is_inline else own_environment
        try:
            async with opened(self.settings) as environment:
                episode = await self._play(proxy, environment, data)
        finally:
            await proxy.aclose()
        assert episode.reward is not None
        reward = float(episode.reward.value)
        if not math.isfinite(reward):
            raise WithdrawnError(f"{episode.task_id} was judged {reward}", kind="reward/not-finite")
        return reward

    async def _play(
        self, proxy: _Proxy, environment: Environment, data: Mapping[str, Any]
    ) -> Episode:
        task = read_task(data, environment)

        async def play(attempt: int) -> Episode:
            return await play_once(self.settings, environment, proxy, task, seed=attempt)

        # What was answered cannot be taken back from the session: AReaL would train on it with
        # the reward of the next attempt. So only what broke before anything was asked is repeated.
        return await play_with_retries(play, self.settings.retries, lambda: proxy.num_asked == 0)


class WAADesktopWorkflow(PracticumWorkflow):
    """Windows Agent Arena's desktops: JSON actions on screenshots, paid for milestones.

    `options.body` names its servers, as in `waa+http://10.0.0.5:5000`.
    """

    defaults = WAA_DEFAULTS
    default_options = WAA_OPTIONS


class OSWorldWorkflow(PracticumWorkflow):
    """OSWorld's tasks: pyautogui actions on desktops here or behind a gateway or bridge.

    `options.view` set to `tree` is the text-only mode: the accessibility tree in place of pictures.
    """

    defaults = OSWORLD_DEFAULTS
    default_options = OSWORLD_OPTIONS


def with_defaults(
    defaults: Mapping[str, Any], options: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """What was given on top of defaults; limits and options key by key."""
    merged = {**defaults, **given}
    for key, below in (("limits", defaults.get("limits", {})), ("options", options)):
        above = given.get(key, {})
        if isinstance(above, Mapping) and (below or above):
            merged[key] = {**below, **above}
    return merged


class _Proxy:
    """The policy of one session: AReaL's proxy, asked through the `openai` SDK."""

    def __init__(self, settings: WorkflowSettings, given: Mapping[str, Any]) -> None:
        base_url = given.get("base_url") or os.environ.get("OPENAI_BASE_URL")
        if not base_url or base_url == "none":  # AReaL's client writes "none" where nothing is set
            raise ConfigError(
                "there is no proxy to ask: AReaL gives base_url, or OPENAI_BASE_URL in a subprocess"
            )
        endpoint = Endpoint(
            MODEL,
            base_url,
            given.get("api_key") or os.environ.get("OPENAI_API_KEY"),
            request_timeout_s=settings.limits.answer_timeout_s,
            repeats_unanswered=False,
        )
        client = given.get("http_client")
        self._policy = OpenAIPolicy(endpoint, client if _fits_sdk(client) else None)
        self._keeps_pictures = _is_eval() if "base_url" in given else False
        self._keeps_pictures |= _areal_version() >= PICTURES_SINCE
        self.num_asked = 0

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        """Ask for one answer."""
        if not self._keeps_pictures and any(message.images for message in prompt.messages):
            raise PolicyError(
                "this version of AReaL trains without the pictures that went through its proxy: "
                "use the workflow of practicum.adapters.areal.rollout, or the option view=tree",
                kind="pictures",
            )
        self.num_asked += 1
        return await self._policy.complete(prompt, sampling)

    async def aclose(self) -> None:
        """Close the connections that are ours."""
        await self._policy.aclose()


def _fits_sdk(client: Any) -> bool:
    """Whether a client is one of the HTTP library that the installed SDK is built on."""
    return isinstance(client, openai.DefaultAsyncHttpxClient.__mro__[1])


def _is_eval() -> bool:
    from areal.infra import workflow_context

    return bool(workflow_context.get().is_eval)


def _areal_version() -> tuple[int, ...]:
    try:
        parts = version("areal").split(".")[:2]
    except PackageNotFoundError:
        return (0,)
    return tuple(int(part) for part in parts if part.isdecimal())
