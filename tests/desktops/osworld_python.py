"""Runs a script with OSWorld's own package, in the environment made for it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from support import require_file

ROOT = Path(__file__).parents[2]
_PYTHON = ROOT / ".venv-osworld/bin/python"
_HERE = Path(__file__).parent


def require_osworld() -> None:
    """Skip a user's run without that environment; in CI that is a failure."""
    require_file(_PYTHON, "make test-osworld")


async def run_osworld(
    script: str, given: dict[str, Any], folder: Path, limit_s: float, **env: str
) -> dict[str, Any]:
    """Give a script of this folder its input; what it leaves in `given["report"]`."""
    report = folder / "report.json"
    process = await asyncio.create_subprocess_exec(
        *(str(_PYTHON), "-W", "ignore", str(_HERE / script)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **env},
    )
    given = {**given, "folder": str(folder), "report": str(report)}
    try:
        async with asyncio.timeout(limit_s):
            said, _ = await process.communicate(json.dumps(given).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said.decode()[-4000:]
    answer: dict[str, Any] = json.loads(report.read_text())
    return answer
