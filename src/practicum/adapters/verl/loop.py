"""Our episodes as an agent loop of verl 0.9: what is trained is what was sampled.

A broken episode is played again, and if it stays broken it is left out: the trainer with a
replay buffer (verl's `use_v1`) takes an empty list for "this member has nothing to learn from",
so neither the loss nor the group's baseline sees it. A group with too few judged members fails as
a whole, by the mark verl has for that. The older trainer needs a sequence from everyone: there it
gets one without a single trained token, and its baseline counts a reward of 0; see docs/verl.md.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopMetrics,
    AgentLoopOutput,
    register,
)

from practicum.adapters.verl.groups import Groups
from practicum.adapters.verl.policy import Room, ServerPolicy
from practicum.adapters.verl.rows import AGENT_NAME, SPEC, EpisodeSpec, written
from practicum.adapters.verl.tokens import disagreement
from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.core.agent import Sampling
from practicum.core.canonical import stable_seed
from practicum.core.env import Environment
from practicum.core.episode import Episode
from practicum.core.errors import ConfigError, EpisodeError
from practicum.core.message import Message
from practicum.data.recorded import recorded_sequences
from practicum.envs.registry import load_env
from practicum.policies.rendering import Renderer
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Table, play_episode
from practicum.train.batch import turn_rewards

logger = logging.getLogger(__name__)

_groups = Groups()
_renderers: WeakKeyDictionary[Any, Renderer] = WeakKeyDictionary()


class GroupDroppedError(EpisodeError):
    """Too few members of a group were judged to compare them."""

    boundary = "group"


@dataclass(frozen=True)
class Played:
    """An episode and what playing it took."""

    episode: Episode
    policy: ServerPolicy
    num_faults: int
    """Tries that broke, the last one included if it did."""
    seconds: float


@register(AGENT_NAME)
class PracticumAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """Plays the episode a row describes, against verl's inference servers."""

    def __init__(self, *args: Any, hf_model_type: str | None = None, **kwargs: Any) -> None:
        try:
            super().__init__(*args, hf_model_type=hf_model_type, **kwargs)
        except ValueError:
            # verl goes by the model's family; a model can have a chat template of its own.
            super().__init__(*args, hf_model_type=None, **kwargs)
        self._renderer = self._make_renderer()

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        """Play; an `AgentLoopOutput`, or an empty list for nothing to learn from."""
        spec = _spec(row)
        if "session_id" not in row:
            played = await self._play(spec, sampling_params, row)
            if played.episode.is_broken:
                return self._nothing(row, played)
            return self._output(played, num_broken=0)
        with _groups.join(str(row["uid"])) as member:
            await asyncio.sleep(0)  # the other members are about to join: let them
            played = await self._play(spec, sampling_params, row)
            member.leave(is_judged=not played.episode.is_broken)
            num_judged, num_broken = await member.outcome()
        if num_judged < spec.min_judged and not spec.is_held_out:
            raise GroupDroppedError(
                f"{num_judged} of {num_judged + num_broken} episodes of {spec.task.id} were "
                f"judged, fewer than {spec.min_judged}: the group is left out",
                kind="too-few-judged",
            )
        return [] if played.episode.is_broken else self._output(played, num_broken)

    async def _play(
        self, spec: EpisodeSpec, sampling_params: dict[str, Any], row: dict[str, Any]
    ) -> Played:
        """Play until an episode does not break, as often as the row allows."""
        task = spec.task.task()
        seed = stable_seed(int(row.get("global_steps", 0)), int(row.get("index", 0)), spec.part)
        began = perf_counter()
        num_faults = 0
        for retry in range(spec.retries + 1):
            policy = self._policy(sampling_params)
            attempt = Attempt(
                task, int(row.get("session_id", 0)), stable_seed(seed, "retry", retry)
            )
            episode = await play_episode(self._table(spec, policy, sampling_params), attempt)
            _check_prompt(episode, row)
            if not episode.is_broken:
                break
            num_faults += 1
            assert episode.error is not None
            logger.warning(
                "%s broke (%s, try %d of %d): %s",
                episode.id, episode.error.kind, retry + 1, spec.retries + 1, episode.error.message,
            )  # fmt: skip
        return Played(episode, policy, num_faults, perf_counter() - began)

    def _table(
        self, spec: EpisodeSpec, policy: ServerPolicy, sampling_params: dict[str, Any]
    ) -> Table:
        environment = _environment(spec.env, json.dumps(spec.options, sort_keys=True))
        sampling = Sampling(float(sampling_params["temperature"]), 1.0, spec.max_tokens)
        agent = ChatAgent(environment, get_format(spec.format), policy, sampling)
        assert spec.limits.max_turns is not None
        limits = Limits(
            spec.limits.max_turns,
            spec.limits.turn_timeout_s,
            spec.limits.answer_timeout_s,
            spec.limits.max_repeated_refusals,
        )
        return Table(environment, agent, judge_outcome, limits)

    def _policy(self, sampling_params: dict[str, Any]) -> ServerPolicy:
        rollout = self.rollout_config
        context = rollout.max_model_len or rollout.prompt_length + rollout.response_length
        room = Room(rollout.prompt_length, rollout.response_length, context)
        return ServerPolicy(
            self.server_manager, self._renderer, uuid4().hex, dict(sampling_params), room
        )

    def _output(self, played: Played, num_broken: int) -> AgentLoopOutput:
        episode, policy = played.episode, played.policy
        assert episode.reward is not None
        # Prompts only ever grow at their end, so an episode is one sequence.
        (sequence,) = recorded_sequences(episode)
        start = sequence.answers[0].start
        mask = [0] * len(sequence.ids)
        logprobs = [0.0] * len(sequence.ids)
        for number, first, stop in sequence.answers:
            mask[first:stop] = [1] * (stop - first)
            logprobs[first:stop] = episode.turns[number].completion.logprobs or ()
        return AgentLoopOutput(
            prompt_ids=sequence.ids[:start],
            response_ids=sequence.ids[start:],
            response_mask=mask[start:],
            response_logprobs=logprobs[start:],
            reward_score=episode.reward.value,
            num_turns=2 * len(episode.turns),
            metrics=_metrics(played),
            extra_fields=_extra_fields(played, num_broken)
            | {"turn_scores": turn_rewards(episode)}
            | _versions(policy),
        )

    def _nothing(self, row: dict[str, Any], played: Played) -> AgentLoopOutput:
        """A sequence without a trained token, for a trainer that needs one from everyone."""
        messages = [_message(m) for m in row["raw_prompt"]]
        ids, _ = self._renderer.conversation_ids(messages)
        return AgentLoopOutput(
            prompt_ids=list(ids),
            response_ids=[self._renderer.end_of_turn_id],
            response_mask=[0],
            response_logprobs=[0.0],
            reward_score=0.0,
            num_turns=0,
            metrics=_metrics(played),
            extra_fields=_extra_fields(played, 1) | {"turn_scores": []} | _versions(played.policy),
        )

    def _make_renderer(self) -> Renderer:
        """Once a process; says where verl would put other tokens between two answers."""
        if self.tokenizer not in _renderers:
            renderer = Renderer(self.tokenizer)
            if why := disagreement(renderer, self.continuous_token_builder):
                logger.warning("our tokens follow the chat template, verl's do not: %s", why)
            _renderers[self.tokenizer] = renderer
        return _renderers[self.tokenizer]


@cache
def _environment(env_id: str, options: str) -> Environment:
    """One of a kind in a process: it owns servers and pools, and lives as long as the worker."""
    return load_env(env_id, **json.loads(options))


def _spec(row: dict[str, Any]) -> EpisodeSpec:
    text = (row.get("extra_info") or {}).get(SPEC)
    if text is None:
        raise ConfigError(
            f"this row has no extra_info.{SPEC}: write the tables with `practicum export verl`"
        )
    return EpisodeSpec.model_validate_json(text)


def _message(body: dict[str, str]) -> Message:
    return Message(body["role"], body["content"])  # type: ignore[arg-type]


def _check_prompt(episode: Episode, row: dict[str, Any]) -> None:
    """See that the world shows what the table says: a task is its content."""
    first = episode.turns[0].observation if episode.turns else episode.final
    if first is None:
        return
    shown = written([Message("system", episode.system), Message("user", first.text)])
    asked = [{"role": m["role"], "content": m["content"]} for m in row["raw_prompt"]]
    if shown != asked:
        raise ConfigError(
            f"{episode.task_id} shows something else than the table says: the table was written "
            "with another version of the environment or the answer format; export again"
        )


def _metrics(played: Played) -> AgentLoopMetrics:
    policy = played.policy
    return AgentLoopMetrics(
        generate_sequences=policy.generate_s,
        tool_calls=max(0.0, played.seconds - policy.generate_s),
        num_preempted=policy.num_preempted,
    )


def _versions(policy: ServerPolicy) -> dict[str, Any]:
    return {
        "min_global_steps": min(policy.versions, default=None),
        "max_global_steps": max(policy.versions, default=None),
    }


def _extra_fields(played: Played, num_broken: int) -> dict[str, Any]:
    """What verl reports and what a reader of its records needs; the same keys every time."""
    episode = played.episode
    turns = episode.turns
    return {
        "tool_rewards": [],
        # Never `acc`: verl counts an episode that is missing as an `acc` of 0.
        "reward_extra_info": {
            "success": float(episode.is_success),
            "invalid_actions": sum(t.is_invalid for t in turns) / max(1, len(turns)),
            "broken_tries": float(played.num_faults),
            "broken_in_group": float(num_broken),
        },
        "practicum": {
            "episode_id": episode.id,
            "task_id": episode.task_id,
            "stop": episode.stop and str(episode.stop),
            "error": episode.error and episode.error.kind,
        },
    }
