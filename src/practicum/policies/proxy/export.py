"""Sessions as training samples: sequences of the ids that were sampled, merged by prefix.

Calls form a tree: one goes on from another when its prompt is the other's prompt and answer and
something more, id by id. A sequence runs from a root to a leaf. Where conversations part, the
answers before are context in all sequences but the first: every sampled token is trained once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from practicum.core.message import Image
from practicum.policies.proxy.conversation import RefusedError
from practicum.policies.proxy.sessions import Call, Session

Style = Literal["concat", "individual"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """Where the answer of a call lies in a sequence."""

    call: Call
    start: int
    stop: int
    is_trained: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """One sequence of a session."""

    id: str
    """Of its last call."""
    token_ids: tuple[int, ...]
    spans: tuple[Span, ...]
    images: tuple[Image, ...]
    """Those in its messages, in order."""
    reward: float | None
    """None: nothing in the session was judged."""

    @property
    def is_trained(self) -> list[bool]:
        """Which tokens were sampled, and are trained here."""
        return self._spread(False, lambda span: [span.is_trained] * (span.stop - span.start))

    @property
    def logprobs(self) -> list[float]:
        """Of the sampled tokens; 0 elsewhere."""
        return self._spread(0.0, lambda span: span.call.answer.completion.logprobs or ())

    @property
    def versions(self) -> list[int]:
        """Of the weights that sampled a token; -1 elsewhere."""

        def of(span: Span) -> Sequence[int]:
            version = span.call.answer.completion.policy_version or 0
            return [version] * (span.stop - span.start)

        return self._spread(-1, of)

    def _spread(self, blank: T, values: Callable[[Span], Sequence[T]]) -> list[T]:
        spread = [blank] * len(self.token_ids)
        for span in self.spans:
            spread[span.start : span.stop] = values(span)
        return spread


def require_whole(session: Session) -> None:
    """Refuse what says nothing about the policy, or cannot be trained on."""
    fault = session.fault
    if fault is not None:
        raise RefusedError(
            f"session {session.id} broke and was not judged: {fault.kind} after {fault.num_calls} "
            f"calls: {fault.message}",
            kind=fault.kind,
            status=409,
        )
    if not session.calls:
        raise RefusedError(f"session {session.id} made no call", kind="no-calls", status=409)
    if all(call.reward is None for call in session.calls.values()):
        raise RefusedError(
            f"session {session.id} was given no reward: set one before it ends",
            kind="no-reward",
            status=409,
        )
    require_ids(session)


def has_ids(call: Call) -> bool:
    """Whether ids and log-probabilities of what was sampled are there."""
    said = call.answer.completion
    return None not in (said.prompt_token_ids, said.token_ids, said.logprobs)


def require_ids(session: Session) -> None:
    """Refuse a session without the ids and log-probabilities of what was sampled."""
    for call in session.calls.values():
        if not has_ids(call):
            raise RefusedError(
                f"call {call.id} has no token ids or log-probabilities: the upstream server did "
                "not send them; endpoint.token_ids=true and endpoint.logprobs=true ask for them",
                kind="no-token-ids",
                status=409,
            )


def make_samples(session: Session, style: Style = "concat", discount: float = 1.0) -> list[Sample]:
    """The sequences of a session: merged by prefix, or one for each call."""
    require_ids(session)
    calls = list(session.calls.values())
    returns = _returns(calls, discount)
    if style == "individual":
        return [_sample([call], returns[n], set()) for n, call in enumerate(calls)]
    bases = {call.id: _base(call) for call in calls}
    inner = {base.id for base in bases.values() if base is not None}
    samples: list[Sample] = []
    trained: set[str] = set()
    for number, call in enumerate(calls):
        if call.id in inner:
            continue
        path = [call]
        while (base := bases[path[0].id]) is not None:
            path.insert(0, base)
        reward = returns[number]
        if reward is not None:
            reward += sum(earlier.reward or 0.0 for earlier in path[:-1])
        samples.append(_sample(path, reward, trained))
        trained |= {one.id for one in path}
    return samples


def _base(call: Call) -> Call | None:
    """The call whose ids this one's begin with: its parent, if the ids say so, too."""
    parent = call.parent
    if parent is None:
        return None
    before, after = parent.answer.completion, call.answer.completion
    known = (before.prompt_token_ids or ()) + (before.token_ids or ())
    is_longer = len(after.prompt_token_ids or ()) > len(known)
    return parent if is_longer and (after.prompt_token_ids or ())[: len(known)] == known else None


def _returns(calls: Sequence[Call], discount: float) -> list[float | None]:
    """What a call earned and, discounted, what was earned after it; in the order of the calls."""
    if all(call.reward is None for call in calls):
        return [None] * len(calls)
    returns: list[float | None] = []
    value = 0.0
    for call in reversed(calls):
        value = (call.reward or 0.0) + discount * value
        returns.insert(0, value)
    return returns


def _sample(path: Sequence[Call], reward: float | None, trained: set[str]) -> Sample:
    spans = []
    ids: tuple[int, ...] = ()
    for call in path:
        said = call.answer.completion
        assert said.prompt_token_ids is not None and said.token_ids is not None
        start = len(said.prompt_token_ids)
        ids = said.prompt_token_ids + said.token_ids
        spans.append(Span(call, start, len(ids), call.id not in trained))
    images = tuple(image for said in path[-1].ask.messages for image in said.images)
    return Sample(path[-1].id, ids, tuple(spans), images, reward)
