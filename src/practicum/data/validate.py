"""Checks of conversations before anything is trained on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from practicum.agents.format import ActionFormat
from practicum.core.canonical import content_hash
from practicum.core.env import Environment
from practicum.core.episode import FormatError
from practicum.core.task import Panel, Task
from practicum.data.tables import Conversation

Found = tuple[str, str]
"""The kind of an issue and its message."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing wrong with one conversation."""

    where: str
    kind: str
    """`format`, `duplicate`, `length`, `no-answer`, `outcome`, `overlap-task`, `overlap-family`."""
    message: str


@dataclass(frozen=True)
class Validation:
    """What was found, and how much of it was checked against what."""

    issues: list[Issue]
    checked_against: str | None
    num_unknown: int
    """Conversations that name no task of the environment: overlap cannot be told for them."""

    def counts(self) -> dict[str, int]:
        """How often each kind of issue was found."""
        return dict(sorted(Counter(issue.kind for issue in self.issues).items()))


@dataclass
class Checks:
    """What to check a table for."""

    environment: Environment
    action_format: ActionFormat
    against: Panel | None = None
    """A panel that the conversations must not be about."""
    max_length: int | None = None
    length: Callable[[Conversation], int] = field(
        default=lambda c: sum(len(message.text) for message in c.messages)
    )
    """Measured in characters, or in tokens where a tokenizer is at hand."""


def validate(conversations: Sequence[Conversation], checks: Checks) -> Validation:
    """Check every conversation; nothing is repaired."""
    issues: list[Issue] = []
    first_seen: dict[str, str] = {}
    known = _known_tasks(checks.environment)
    num_unknown = 0
    panel = checks.against or Panel("", ())
    held_out, held_out_families = {t.id for t in panel}, {t.family for t in panel}
    for conversation in conversations:
        found = [*_check_answers(conversation, checks), *_check_length(conversation, checks)]
        digest = content_hash([[m.role, m.text] for m in conversation.messages])
        if digest in first_seen:
            found.append(("duplicate", f"is the same as {first_seen[digest]}"))
        first_seen.setdefault(digest, conversation.source)
        task = known.get(conversation.task_id)
        family = conversation.family or (task.family if task else "")
        num_unknown += not family
        if conversation.task_id in held_out:
            found.append(("overlap-task", f"is about {conversation.task_id} of {panel.name}"))
        elif family in held_out_families:
            found.append(("overlap-family", f"is of the family {family}, as is {panel.name}"))
        issues += [Issue(conversation.source, kind, message) for kind, message in found]
    against = checks.against.name if checks.against is not None else None
    return Validation(issues, against, num_unknown)


def _check_answers(conversation: Conversation, checks: Checks) -> list[Found]:
    found: list[Found] = []
    if conversation.outcome in ("failed", "broken"):
        found.append(("outcome", f"the episode is {conversation.outcome}"))
    if not any(conversation.chosen):
        found.append(("no-answer", "no answer in it is marked for training"))
    for number, answer in enumerate(conversation.answers, start=1):
        parsed = checks.action_format.parse(answer, checks.environment.commands)
        if isinstance(parsed, FormatError):
            name = checks.action_format.name
            found.append(("format", f"answer {number} is not {name}: {parsed.kind.value}"))
    return found


def _check_length(conversation: Conversation, checks: Checks) -> list[Found]:
    length = checks.length(conversation) if checks.max_length is not None else 0
    if checks.max_length is None or length <= checks.max_length:
        return []
    return [("length", f"has a length of {length}, over {checks.max_length}")]


def _known_tasks(environment: Environment) -> Mapping[str, Task]:
    names = environment.panel_names()
    return {task.id: task for name in names for task in environment.panel(name)}
