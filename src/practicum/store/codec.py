"""Episodes as JSON and back. Defaults are left out; pictures are named, not embedded.

A conversation grows at its end, so a turn's prompt mostly repeats what came before: only
the ids after the last turn's prompt and answer are written (`prompt_new_ids`), and all of
them (`prompt_token_ids`) where a prompt does not go on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from practicum.core.episode import (
    Completion,
    Episode,
    FormatError,
    FormatErrorKind,
    StopReason,
    Turn,
)
from practicum.core.errors import ErrorInfo, StoreError
from practicum.core.message import Action, Image, Observation
from practicum.core.reward import Reward

Json = dict[str, Any]
Ids = tuple[int, ...]
PutImage = Callable[[Image], None]
GetImage = Callable[[str, str], Image]


def episode_to_json(episode: Episode, put_image: PutImage) -> Json:
    """Write an episode; every picture in it is handed to `put_image`."""
    body: Json = {
        "id": episode.id,
        "task_id": episode.task_id,
        "env_id": episode.env_id,
        "sample": episode.sample,
        "seed": episode.seed,
        "system": episode.system,
        "turns": _turns_to_json(episode.turns, put_image),
    }
    if episode.final is not None:
        body["final"] = _observation_to_json(episode.final, put_image)
    if episode.stop is not None:
        body["stop"] = episode.stop.value
    if episode.is_success:
        body["is_success"] = True
    if (reward := episode.reward) is not None:
        body["reward"] = {"value": reward.value, "is_success": reward.is_success}
        if reward.parts:
            body["reward"]["parts"] = dict(reward.parts)
        if reward.dense:
            body["reward"]["dense"] = list(reward.dense)
    if (error := episode.error) is not None:
        body["error"] = {"kind": error.kind, "message": error.message, "turn": error.turn}
    return body


def episode_from_json(body: Mapping[str, Any], get_image: GetImage) -> Episode:
    """Read an episode; pictures are fetched by hash and media type."""
    reward, error = body.get("reward"), body.get("error")
    return Episode(
        id=body["id"],
        task_id=body["task_id"],
        env_id=body["env_id"],
        sample=body["sample"],
        seed=body["seed"],
        system=body["system"],
        turns=_turns_from_json(body["turns"], get_image),
        final=_observation_from_json(body["final"], get_image) if "final" in body else None,
        stop=StopReason(body["stop"]) if "stop" in body else None,
        is_success=body.get("is_success", False),
        reward=_reward_from_json(reward) if reward is not None else None,
        error=ErrorInfo(**error) if error is not None else None,
    )


def _turns_to_json(turns: Sequence[Turn], put_image: PutImage) -> list[Json]:
    written, known = [], None
    for turn in turns:
        written.append(_turn_to_json(turn, known, put_image))
        known = _ids_so_far(turn.completion)
    return written


def _turns_from_json(bodies: Sequence[Json], get_image: GetImage) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for body in bodies:
        known = _ids_so_far(turns[-1].completion) if turns else None
        turns.append(_turn_from_json(body, known, get_image))
    return tuple(turns)


def _reward_from_json(body: Mapping[str, Any]) -> Reward:
    dense = tuple(body.get("dense", ()))
    return Reward(body["value"], body["is_success"], body.get("parts", {}), dense)


def _ids_so_far(completion: Completion) -> Ids | None:
    if completion.prompt_token_ids is None or completion.token_ids is None:
        return None
    return completion.prompt_token_ids + completion.token_ids


def _turn_to_json(turn: Turn, known: Ids | None, put_image: PutImage) -> Json:
    body: Json = {
        "observation": _observation_to_json(turn.observation, put_image),
        "completion": _completion_to_json(turn.completion, known),
    }
    if turn.action is not None:
        body["action"] = turn.action.text
    if (error := turn.format_error) is not None:
        body["format_error"] = {"kind": error.kind.value, "feedback": error.feedback}
    if turn.reward:
        body["reward"] = turn.reward
    if turn.is_refused:
        body["is_refused"] = True
    if turn.state is not None:
        body["state"] = turn.state
    if turn.progress is not None:
        body["progress"] = turn.progress
    return body


def _turn_from_json(body: Mapping[str, Any], known: Ids | None, get_image: GetImage) -> Turn:
    error = body.get("format_error")
    return Turn(
        observation=_observation_from_json(body["observation"], get_image),
        completion=_completion_from_json(body["completion"], known),
        action=Action(body["action"]) if "action" in body else None,
        format_error=(
            FormatError(FormatErrorKind(error["kind"]), error["feedback"]) if error else None
        ),
        reward=body.get("reward", 0.0),
        is_refused=body.get("is_refused", False),
        state=body.get("state"),
        progress=body.get("progress"),
    )


def _completion_to_json(completion: Completion, known: Ids | None) -> Json:
    body: Json = {"text": completion.text}
    if completion.finish != "stop":
        body["finish"] = completion.finish
    if (prompt := completion.prompt_token_ids) is not None:
        if known is not None and prompt[: len(known)] == known:
            body["prompt_new_ids"] = list(prompt[len(known) :])
        else:
            body["prompt_token_ids"] = list(prompt)
    for name in ("token_ids", "logprobs"):
        if (values := getattr(completion, name)) is not None:
            body[name] = list(values)
    if completion.policy_version is not None:
        body["policy_version"] = completion.policy_version
    return body


def _completion_from_json(body: Mapping[str, Any], known: Ids | None) -> Completion:
    sequences = {
        name: tuple(body[name])
        for name in ("prompt_token_ids", "token_ids", "logprobs")
        if name in body
    }
    if "prompt_new_ids" in body:
        if known is None:
            raise StoreError(
                "a turn's prompt_new_ids go on from a turn without token ids: "
                "the episode was edited; restore it from a copy"
            )
        sequences["prompt_token_ids"] = known + tuple(body["prompt_new_ids"])
    return Completion(
        text=body["text"],
        finish=body.get("finish", "stop"),
        policy_version=body.get("policy_version"),
        **sequences,
    )


def _observation_to_json(observation: Observation, put_image: PutImage) -> Json:
    body: Json = {"text": observation.text}
    if observation.images:
        for image in observation.images:
            put_image(image)
        body["images"] = [[image.hash, image.media_type] for image in observation.images]
    return body


def _observation_from_json(body: Mapping[str, Any], get_image: GetImage) -> Observation:
    images = tuple(get_image(digest, media_type) for digest, media_type in body.get("images", ()))
    return Observation(body["text"], images)
