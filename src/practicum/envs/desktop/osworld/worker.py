"""Grades one OSWorld task with OSWorld's own getters and metrics; run as a program.

It runs under the interpreter that has `desktop-env`, so it imports nothing of this package. It
reads a request from standard input and writes one JSON object to the file descriptor that was
its standard output: `{"score": …}`, or `{"error": …}` for what cannot be evaluated.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from types import SimpleNamespace
from typing import Any


def grade(request: dict[str, Any]) -> float:
    """Evaluate all metrics; `and` is 0 at the first 0 and else the mean, `or` the highest."""
    from desktop_env.controllers.python import PythonController
    from desktop_env.evaluators import getters, metrics

    controller = PythonController(vm_ip=request["host"], server_port=request["server_port"])
    platform = controller.get_vm_platform()
    if not platform:
        raise RuntimeError("the desktop's server does not answer")
    env = SimpleNamespace(
        vm_ip=request["host"],
        server_port=request["server_port"],
        chromium_port=request["chromium_port"],
        vlc_port=request["vlc_port"],
        cache_dir=request["cache_dir"],
        controller=controller,
        vm_platform=platform,
        current_use_proxy=False,
    )
    evaluator = request["evaluator"]
    conj = evaluator.get("conj", "and")
    scores: list[float] = []
    for func, result, expected, options in _rows(evaluator):
        try:
            state = getattr(getters, f"get_{result['type']}")(env, result) if result else None
        except FileNotFoundError:
            score = 0.0
        else:
            wanted = (
                [getattr(getters, f"get_{expected['type']}")(env, expected)] if expected else []
            )
            score = float(getattr(metrics, func)(state, *wanted, **options))
        scores.append(score)
        if (conj == "and" and score == 0.0) or (conj == "or" and score == 1.0):
            break
    # Getters turn a lost connection into a value; a desktop that is gone now was perhaps gone then.
    if controller.get_vm_platform() != platform:
        raise RuntimeError("the desktop's server was lost while grading")
    if conj == "or":
        return max(scores)
    return 0.0 if 0.0 in scores else sum(scores) / len(scores)


def _rows(evaluator: dict[str, Any]) -> list[tuple[str, Any, Any, dict[str, Any]]]:
    """One row per metric: its name, what it looks at, what it expects, its options."""
    funcs = evaluator["func"]
    if not isinstance(funcs, list):
        options = evaluator.get("options") or {}
        return [(funcs, evaluator.get("result"), evaluator.get("expected"), options)]
    nothing = [None] * len(funcs)
    results = evaluator.get("result") or nothing
    expected = evaluator.get("expected") or nothing
    options = [row or {} for row in evaluator.get("options") or nothing]
    return list(zip(funcs, results, expected, options, strict=True))


def main() -> None:
    """Read the request, answer, and exit without waiting for threads of libraries."""
    request = json.load(sys.stdin)
    # Evaluators print; only the verdict may reach whoever waits for it.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        answer: dict[str, Any] = {"score": grade(request)}
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        traceback.print_exc()
        answer = {"error": f"{type(error).__name__}: {error}"}
    out.write(json.dumps(answer))
    out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
