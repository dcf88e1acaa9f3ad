"""What every export does alike: find the tasks, compare panels, refuse what would be ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from practicum.config.mixture import PartConfig
from practicum.config.train import RlConfig
from practicum.core.env import Environment
from practicum.core.errors import ConfigError
from practicum.core.task import Task
from practicum.data.draw import training_tasks
from practicum.envs.registry import load_env
from practicum.store.files import write_atomically
from practicum.train.checkpoint import read_manifest, training_manifest


@dataclass(frozen=True)
class TaskSet:
    """One environment of a run: what is trained on there, and what is judged."""

    name: str
    part: PartConfig
    environment: Environment
    train: Sequence[Task]
    held_out: Sequence[Task]
    """Empty where the run has no evaluation."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Held-out tasks that are training tasks too, with the denominators."""

    num_train: int
    num_held_out: int
    num_shared: int
    num_families: int
    num_shared_families: int

    def __str__(self) -> str:
        """A sentence for a person."""
        return (
            f"{self.num_shared} of {self.num_held_out} held-out tasks and "
            f"{self.num_shared_families} of their {self.num_families} families are among the "
            f"{self.num_train} training tasks"
        )


@dataclass(frozen=True)
class Exported:
    """What an export wrote."""

    files: Sequence[Path]
    launch: Path
    """The script that starts the training."""
    overlap: Overlap


def load_task_sets(config: RlConfig) -> list[TaskSet]:
    """The environments of a run, open, with their tasks; close them with `aclose`."""
    return [_task_set(config, name, part) for name, part in config.parts().items()]


def _task_set(config: RlConfig, name: str, part: PartConfig) -> TaskSet:
    environment = load_env(part.env, **part.options)
    held_out: list[Task] = []
    if config.evaluate is not None:
        panel = environment.panel(part.evaluate.panel or config.evaluate.panel)
        held_out = list(panel)[: part.evaluate.max_tasks or config.evaluate.max_tasks]
    train = training_tasks(environment, part, config.seed)
    return TaskSet(name, part, environment, train, held_out)


def compare_panels(sets: Sequence[TaskSet]) -> Overlap:
    """Count what is judged and also trained on, by content and by family."""
    train = [task for one in sets for task in one.train]
    held_out = [task for one in sets for task in one.held_out]
    families = {(task.env_id, task.family) for task in held_out}
    return Overlap(
        num_train=len(train),
        num_held_out=len(held_out),
        num_shared=len({t.id for t in train} & {t.id for t in held_out}),
        num_families=len(families),
        num_shared_families=len(families & {(task.env_id, task.family) for task in train}),
    )


def refuse_ignored(config: RlConfig, engine: str, used: Sequence[str]) -> None:
    """Raise for every setting that differs from its default and that the engine would ignore.

    `used` holds dotted keys, `*` for any name; a key stands for all that is below it.
    """
    ignored = [
        f"{key}={value!r}"
        for key, value in _flat(config.model_dump(mode="json", exclude_defaults=True))
        if not any(_covers(pattern, key, value) for pattern in used)
    ]
    if ignored:
        raise ConfigError(
            f"{engine} would ignore {', '.join(ignored)}: leave that out, or set it back to the "
            "default behind the config, as in groups.carry_over=false"
        )


def _covers(pattern: str, key: str, value: Any) -> bool:
    if value is None and pattern.startswith(f"{key}."):
        return True  # a part that is left out as a whole, as in evaluate=null
    return fnmatchcase(key, pattern) or fnmatchcase(key, f"{pattern}.*")


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def answer_room(config: RlConfig, prompt_tokens: int) -> int:
    """Tokens that the longest prompt leaves for an episode's answers and what is shown between."""
    left = config.model.max_context - prompt_tokens
    if left < config.sampling.max_tokens:
        raise ConfigError(
            f"the longest prompt has {prompt_tokens} tokens, and model.max_context="
            f"{config.model.max_context} leaves no room for an answer of sampling.max_tokens="
            f"{config.sampling.max_tokens}: raise model.max_context"
        )
    return left


def manifest_of(model: Path, sets: Sequence[TaskSet], engine: str) -> dict[str, Any]:
    """What a model will have been trained on, what it was trained on before included."""
    manifest = read_manifest(model)
    for one in sets:
        manifest = training_manifest(
            f"{one.part.env} with {engine}",
            (task.id for task in one.train),
            (task.family for task in one.train),
            manifest,
        )
    assert manifest is not None
    return manifest


def write_script(path: Path, text: str) -> Path:
    """Write a file that can be run."""
    write_atomically(path, text)
    path.chmod(0o755)
    return path
