"""The guard process: runs one query at a time under limits that the kernel enforces.

A query can eat memory or time in ways SQLite offers no handle on. Here it can only hurt
this process, which the parent replaces. The limits are set before each query: memory,
processor time (the kernel ends the process), and the size of files it may write. Requests
and replies are lines of JSON; the end of the input is the end of the process.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import sys
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from practicum.envs.text.sqlgym.matching import is_match
from practicum.envs.text.sqlgym.sandbox import Fault, Limits, OutOfMemory, Reader, Refused, show

Reply = dict[str, Any]


def main() -> None:
    """Answer requests until the input ends."""
    # The parent reads the error output only after this process has ended: a warning more than
    # the pipe holds must be lost, not waited for.
    os.set_blocking(sys.stderr.fileno(), False)
    images: dict[str, bytes] = {}
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request["image"] is not None:
            images[request["key"]] = base64.b64decode(request["image"])
        reply = _answer(request, images.get(request["key"]))
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()
        if reply.get("is_spent"):
            return


def _answer(request: Mapping[str, Any], image: bytes | None) -> Reply:
    limits = Limits(**request["limits"])
    _limit(resource.RLIMIT_AS, limits.max_memory_bytes)
    _limit(resource.RLIMIT_FSIZE, limits.max_temp_bytes)
    try:
        return _run(request, image, limits)
    except OutOfMemory as refusal:
        return {"outcome": "refused", "text": str(refusal), "is_spent": True}
    except MemoryError:
        text = "The query was stopped: it needed too much memory."
        return {"outcome": "refused", "text": text, "is_spent": True}
    except Refused as refusal:
        return {"outcome": "refused", "text": str(refusal)}
    except Fault as fault:
        return {"outcome": "fault", "text": str(fault), "kind": fault.kind}


def _run(request: Mapping[str, Any], image: bytes | None, limits: Limits) -> Reply:
    gold_rows = None
    if request["gold"] is not None:
        # On a connection of its own and before the clock runs: a slow reference query is
        # not the agent's doing, and `sqlite_stmt` must not list it.
        _limit(resource.RLIMIT_CPU, resource.RLIM_INFINITY)
        with closing(Reader(image=image, path=request["path"], limits=limits)) as trusted:
            gold_rows = trusted.read_trusted(request["gold"])
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + limits.max_cpu_s)
    with closing(Reader(image=image, path=request["path"], limits=limits)) as reader:
        columns, rows = reader.read(request["sql"], request["tables"])
        if gold_rows is None:
            return {"outcome": "shown", "text": show(columns, rows)}
        matches = is_match(rows, gold_rows, request["match"])
        return {"outcome": "judged", "text": "", "is_match": matches}


def _limit(what: int, value: int) -> None:
    """Set the soft limit, which can be raised again; never above a limit set from outside."""
    hard = resource.getrlimit(what)[1]
    if hard != resource.RLIM_INFINITY and (value == resource.RLIM_INFINITY or value > hard):
        value = hard
    resource.setrlimit(what, (value, hard))
