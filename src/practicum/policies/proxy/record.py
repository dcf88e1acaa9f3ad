"""What is on record of a session, as JSON: for people and for trainers."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np

from practicum.core.message import Image
from practicum.policies.proxy.conversation import Ask, Said
from practicum.policies.proxy.endpoint import write_message
from practicum.policies.proxy.export import Sample, has_ids, make_samples
from practicum.policies.proxy.sessions import Call, Session

Json = dict[str, Any]


def summarise(session: Session) -> Json:
    """A session in a line."""
    fault = session.fault
    return {
        "session_id": session.id,
        "task_id": session.task_id,
        "is_ended": session.is_ended,
        "num_calls": len(session.calls),
        "error": None if fault is None else {"kind": fault.kind, "message": fault.message},
    }


def describe(session: Session) -> Json:
    """All of a session: calls, faults, pictures, and the sequences they merge into."""
    calls = session.calls.values()
    images = {i.hash: i for call in calls for said in call.ask.messages for i in said.images}
    return {
        **summarise(session),
        "faults": [
            {
                "kind": fault.kind,
                "message": fault.message,
                "num_calls": fault.num_calls,
                "is_healed": fault.is_healed,
            }
            for fault in session.faults
        ],
        "calls": [_call(call) for call in calls],
        "images": write_images(images.values()),
        "samples": (
            [_sample(sample) for sample in make_samples(session)]
            if all(map(has_ids, calls))
            else None
        ),
    }


def write_interaction(sample: Sample) -> Json:
    """A sequence as AReaL's client reads it, and its pictures, which that client leaves."""
    body: Json = {
        "tensor_dict": {
            "input_ids": _tensor([sample.token_ids], np.int64),
            "loss_mask": _tensor([sample.is_trained], np.int64),
            "logprobs": _tensor([sample.logprobs], np.float32),
            "versions": _tensor([sample.versions], np.int64),
            "attention_mask": _tensor([[True] * len(sample.token_ids)], np.bool_),
            "rewards": _tensor([sample.reward], np.float32),
        },
        "reward": sample.reward,
        "interaction_id": sample.id,
    }
    if sample.images:
        body["images"] = write_images(sample.images)
    return body


def write_images(images: Iterable[Image]) -> list[Json]:
    """Pictures with their bytes."""
    return [
        {
            "sha256": image.hash,
            "media_type": image.media_type,
            "data": base64.b64encode(image.data).decode(),
        }
        for image in images
    ]


def _tensor(values: Any, dtype: Any) -> Json:
    array = np.array(values, dtype)
    return {
        "type": "tensor",
        "data": base64.b64encode(array.tobytes()).decode(),
        "shape": list(array.shape),
        "dtype": f"torch.{array.dtype.name}",
    }


def _call(call: Call) -> Json:
    completion = call.answer.completion
    return {
        "id": call.id,
        "parent": None if call.parent is None else call.parent.id,
        "created_s": call.created_s,
        "asked": _ask(call.ask),
        "answer": _message(call.answer.said),
        "ending": call.answer.ending,
        "text": completion.text,
        "prompt_token_ids": completion.prompt_token_ids,
        "token_ids": completion.token_ids,
        "logprobs": completion.logprobs,
        "policy_version": completion.policy_version,
        "reward": call.reward,
    }


def _ask(ask: Ask) -> Json:
    return {
        "messages": [_message(said) for said in ask.messages],
        "tools": [tool.to_json() for tool in ask.tools],
        "temperature": ask.temperature,
        "top_p": ask.top_p,
        "max_tokens": ask.max_tokens,
        "seed": ask.seed,
        "stop": list(ask.stop),
        "options": dict(ask.options),
        "labels": dict(ask.labels),
    }


def _message(said: Said) -> Json:
    """A chat message whose pictures are named by hash."""
    message = write_message(said)
    if said.images:
        message["content"] = [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "image", "sha256": part.image.hash}
            for part in said.parts
        ]
    return message


def _sample(sample: Sample) -> Json:
    return {
        "id": sample.id,
        "token_ids": sample.token_ids,
        "is_trained": sample.is_trained,
        "logprobs": sample.logprobs,
        "versions": sample.versions,
        "reward": sample.reward,
        "images": [image.hash for image in sample.images],
        "calls": [
            {
                "id": span.call.id,
                "start": span.start,
                "stop": span.stop,
                "is_trained": span.is_trained,
                "reward": span.call.reward,
            }
            for span in sample.spans
        ],
    }
