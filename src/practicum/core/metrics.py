"""Counters of a server, written as Prometheus reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

PREFIX = "practicum_"

Sample = tuple[str, dict[str, str], float]


class Metrics:
    """Counts by name and labels."""

    def __init__(self) -> None:
        self._values: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float]
        self._values = defaultdict(float)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._values[name, tuple(sorted(labels.items()))] += amount

    def value(self, name: str, **labels: str) -> float:
        """What a counter stands at."""
        return self._values.get((name, tuple(sorted(labels.items()))), 0.0)

    def samples(self) -> list[Sample]:
        """All values with their labels."""
        return [(name, dict(labels), value) for (name, labels), value in self._values.items()]


def render(samples: Iterable[Sample], sentences: Mapping[str, str]) -> str:
    """Write samples in Prometheus' text format, with a sentence on each name."""
    by_name: dict[str, list[str]] = {}
    for name, labels, value in samples:
        inner = ",".join(f'{key}="{_escape(text)}"' for key, text in sorted(labels.items()))
        by_name.setdefault(name, []).append(f"{PREFIX}{name}{{{inner}}} {value}")
    lines = []
    for name in sorted(by_name):
        kind = "counter" if name.endswith("_total") else "gauge"
        lines.append(f"# HELP {PREFIX}{name} {sentences.get(name, name)}")
        lines.append(f"# TYPE {PREFIX}{name} {kind}")
        lines.extend(by_name[name])
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
