"""Runs a task's Python check in a process of its own, within a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from practicum.core.errors import RewardError

_RUNNER = """
import json, os, sys
from pathlib import Path
given = json.load(sys.stdin)
# What the check prints must not be taken for its verdict.
out, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
space = {"__name__": "check"}
exec(compile(given["code"], "<check>", "exec"), space)
verdict = space["check"]({k: Path(v) for k, v in given["files"].items()}, given["answer"])
if not isinstance(verdict, bool):
    raise TypeError(f"check returned {verdict!r} and not a bool")
out.write(json.dumps(verdict))
"""


async def run_python_check(
    code: str, contents: Mapping[str, bytes], answer: str | None, timeout_s: float
) -> bool:
    """Call `check(files, answer)` of the code; anything but a bool is a `RewardError`."""
    with TemporaryDirectory(prefix="practicum-check-") as folder:
        files = {}
        for number, (name, data) in enumerate(contents.items()):
            path = Path(folder) / f"{number}-{Path(name).name}"
            path.write_bytes(data)
            files[name] = str(path)
        request = json.dumps({"code": code, "files": files, "answer": answer})
        output, error, exit_code = await run_isolated(
            [sys.executable, "-I", "-c", _RUNNER], request.encode(), timeout_s, "a Python check"
        )
    if exit_code != 0 or output not in ("true", "false"):
        last = error.strip().splitlines()[-1:] or ["nothing on its error output"]
        raise RewardError(f"a Python check failed (exit code {exit_code}): {last[0]}", kind="check")
    return output == "true"


async def run_isolated(
    command: list[str], request: bytes, timeout_s: float, what: str
) -> tuple[str, str, int]:
    """Run a program in its own process group; past the deadline the whole group is killed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout_s):
            output, error = await process.communicate(request)
    except TimeoutError as late:
        raise RewardError(f"{what} took longer than {timeout_s:g} s", kind="timeout") from late
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    assert process.returncode is not None
    return output.decode(errors="replace"), error.decode(errors="replace"), process.returncode
