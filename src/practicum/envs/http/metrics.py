"""Counters of a server, written as Prometheus reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

PREFIX = "practicum_"

_HELP = {
    "opened_total": "Sessions opened.",
    "closed_total": "Sessions closed, also by running out.",
    "expired_total": "Sessions that ran out.",
    "busy_total": "Requests turned away because every place was taken.",
    "steps_total": "Steps carried out.",
    "step_seconds_total": "Time spent in steps.",
    "repeated_total": "Steps answered from the record because they were sent again.",
    "errors_total": "Broken episodes by boundary and kind.",
    "forwarded_total": "Requests passed on to the worker that has the session.",
    "sessions": "Sessions held.",
    "capacity": "Sessions that can be held.",
}

Sample = tuple[str, dict[str, str], float]


class Metrics:
    """Counts by name and labels."""

    def __init__(self) -> None:
        self._values: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float]
        self._values = defaultdict(float)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._values[name, tuple(sorted(labels.items()))] += amount

    def observe_step(self, env_id: str, seconds: float) -> None:
        """Count a step and its time."""
        labels = (("env", env_id),)
        self._values["steps_total", labels] += 1
        self._values["step_seconds_total", labels] += seconds

    def samples(self, gauges: Mapping[str, float], worker: int) -> list[Sample]:
        """All values with their labels."""
        counted = [(name, dict(labels), value) for (name, labels), value in self._values.items()]
        held: list[Sample] = [(name, {}, value) for name, value in gauges.items()]
        return [(n, {**labels, "worker": str(worker)}, v) for n, labels, v in [*counted, *held]]


def render(samples: Iterable[Sample]) -> str:
    """Write samples in Prometheus' text format."""
    by_name: dict[str, list[str]] = {}
    for name, labels, value in samples:
        inner = ",".join(f'{key}="{_escape(text)}"' for key, text in sorted(labels.items()))
        by_name.setdefault(name, []).append(f"{PREFIX}{name}{{{inner}}} {value}")
    lines = []
    for name in sorted(by_name):
        kind = "counter" if name.endswith("_total") else "gauge"
        lines.append(f"# HELP {PREFIX}{name} {_HELP.get(name, name)}")
        lines.append(f"# TYPE {PREFIX}{name} {kind}")
        lines.extend(by_name[name])
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
