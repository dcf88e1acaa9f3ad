"""Plays the rollout benchmark's episodes with `verifiers`; run by `rollout.py`, not by hand.

    python rollout_peer.py BASE_URL SCENARIO

Prints one line of JSON with the versions once it is warm, then plays one round for every
line it reads and prints what the round cost.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import verifiers.v1 as vf


def say(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


async def main(base_url: str, path: Path) -> None:
    scenario = json.loads(path.read_text())
    env: Any = vf.load_environment(
        vf.resolve_env_config(
            {
                "taskset": {"id": "verifiers_textcraft", "scenario": str(path)},
                "num_turns": scenario["num_turns"],
            }
        )
    )
    context = vf.ModelContext(
        model=scenario["model"],
        client=vf.EvalClientConfig(base_url=base_url, api_key_var="NO_SUCH_KEY"),
        sampling=vf.SamplingConfig(**scenario["sampling"]),
    )
    tasks = list(env.taskset)
    slots = asyncio.Semaphore(scenario["max_concurrent"])

    async def play_round() -> dict[str, Any]:
        before = resource.getrusage(resource.RUSAGE_SELF)
        begin = time.perf_counter()
        planned = [slot for task in tasks for slot in env.slots(task)]
        episodes = await asyncio.gather(*(env.run_slot(slot, context, slots) for slot in planned))
        wall_s = time.perf_counter() - begin
        after = resource.getrusage(resource.RUSAGE_SELF)
        assert all(episode.ok for episode in episodes), [e.errors for e in episodes]
        return {
            "num_turns": sum(trace.num_turns for e in episodes for trace in e.traces),
            "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "wall_s": wall_s,
        }

    async with env.serving():
        await play_round()
        say({"versions": {name: version(name) for name in ("verifiers", "openai", "httpx")}})
        while await asyncio.to_thread(sys.stdin.readline):
            say(await play_round())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
