"""One task, one transcript: 64 sessions at once, hash seeds, file orders, three transports."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product

PROGRAM = """
import asyncio, os, sys
from pathlib import Path

flip = sys.argv[1] == "reversed"
real_glob, real_listdir = Path.glob, os.listdir
Path.glob = lambda self, pattern: sorted(real_glob(self, pattern), reverse=flip)
os.listdir = lambda path=".": sorted(real_listdir(path), reverse=flip)

from practicum.envs.contract import transcript, transcript_hash
from practicum.envs.http.app import Terms
from practicum.envs.http.remote import create
from practicum.envs.http.server import running
from practicum.envs.registry import load_env

async def hashes(env, task):
    played = [transcript(env, task, env.scripts["random"]) for _ in range(64)]
    return {transcript_hash(*one) for one in await asyncio.gather(*played)}

async def main():
    local = load_env("textcraft")
    task = local.panel("test").tasks[7]
    found = await hashes(local, task)
    for dialect in ("agentgym", "native"):
        async with running({"textcraft": local}, Terms(dialect)) as (url, _):
            remote = create(url, "textcraft")
            found |= await hashes(remote, task)
            await remote.aclose()
    print(*found)

asyncio.run(main())
"""


def test_a_task_has_one_transcript_hash_everywhere() -> None:
    found = set()
    for hash_seed, order in product("01", ("sorted", "reversed")):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, order],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found |= set(done.stdout.split())
    assert len(found) == 1, found
