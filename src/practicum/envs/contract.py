"""The promises every environment keeps, as checks anyone can run: `practicum check ENV`.

Each check opens real episodes. A check that fails says what was seen and with which task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from practicum.core.agent import Situation
from practicum.core.canonical import canonical_json, content_hash, stable_seed
from practicum.core.env import Environment, Live, Script, StepResult
from practicum.core.episode import Completion, Turn
from practicum.core.message import Action
from practicum.core.task import Task

NUM_TASKS = 8
"""Tasks drawn from a panel for the checks that play; a quarter of them where worlds are live."""
NUM_CONCURRENT = 8
SPLITS = ("train", "dev", "test")

HOSTILE_ACTIONS = (
    "",
    " ",
    "\n\n",
    "\x00",
    "x" * 50_000,
    "9" * 5_000,
    "get " + "9" * 5_000 + " stick",
    "[[[[[[[[",
    "{" * 1_000,
    "'; DROP TABLE tasks; --",
    "../../etc/passwd",
    "${HOME} $(id) `id`",
    "\u202eright to left \U0001f600 \ud7ff",
    "<action></action>",
)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One promise, and whether it was kept."""

    name: str
    is_kept: bool
    detail: str


class PromiseBrokenError(Exception):
    """A check saw something the contract rules out."""


async def check_env(environment: Environment) -> list[CheckResult]:
    """Run every check; a check that raises counts as a broken promise."""
    results = []
    for check in _CHECKS:
        name = check.__name__.removeprefix("_").replace("_", " ")
        try:
            detail = await check(environment)
            results.append(CheckResult(name, True, detail))
        except PromiseBrokenError as broken:
            results.append(CheckResult(name, False, str(broken)))
        except Exception as error:  # noqa: BLE001 - any crash of a stranger's code is a finding
            results.append(CheckResult(name, False, f"{type(error).__name__}: {error}"))
    return results


async def transcript(
    environment: Environment, task: Task, script: Script, seed: int = 0
) -> tuple[list[Turn], StepResult | None]:
    """Play one episode with a script; return the turns and the last result."""
    turns: list[Turn] = []
    result: StepResult | None = None
    async with environment.open(task) as env:
        observation = await env.start()
        while len(turns) < environment.max_turns and not (result and result.is_done):
            turn_seed = stable_seed(seed, task.id, len(turns))
            decision = script(Situation(task, 0, turns, observation, turn_seed))
            result = await env.step(decision.action)
            said = Completion(decision.action.text)
            turns.append(
                Turn(observation, said, decision.action, None, result.reward, result.is_refused)
            )
            observation = result.observation
    return turns, result


def outcome_hash(environment: Environment, turns: Sequence[Turn], last: StepResult | None) -> str:
    """Hash all of an episode, or what a live world makes of it: actions, reward and end."""
    if not isinstance(environment, Live):
        return transcript_hash(turns, last)
    said = [turn.completion.text for turn in turns]
    end = [last.is_done, last.is_success] if last else []
    return content_hash([said, sum(turn.reward for turn in turns), end])


def transcript_hash(turns: Sequence[Turn], last: StepResult | None) -> str:
    """Hash what was shown, done and earned."""
    shown = [
        [t.observation.text, [i.hash for i in t.observation.images], t.completion.text, t.reward]
        for t in turns
    ]
    end = [last.observation.text, last.is_done, last.is_success] if last else []
    return content_hash([shown, end])


async def _describes_itself(environment: Environment) -> str:
    _expect(bool(environment.rules.strip()), "rules are empty")
    _expect(len(environment.commands) > 0, "there are no commands")
    _expect(environment.max_turns >= 1, f"max_turns is {environment.max_turns}")
    for name in ("expert", "random"):
        _expect(name in environment.scripts, f"there is no {name!r} script")
    return f"{len(environment.commands)} commands, horizon {environment.max_turns}"


async def _tasks_are_their_content(environment: Environment) -> str:
    names = environment.panel_names()
    for split in SPLITS:
        _expect(split in names, f"there is no {split!r} panel")
    for name in names:
        for task in environment.panel(name):
            task.verify()
            _expect(task.env_id == environment.id, f"{task.id} is of {task.env_id!r}")
            canonical_json(dict(task.data))
    return ", ".join(f"{name} {len(environment.panel(name))}" for name in names)


async def _splits_do_not_overlap(environment: Environment) -> str:
    seen_ids: dict[str, str] = {}
    seen_families: dict[str, str] = {}
    for split in SPLITS:
        for task in environment.panel(split):
            other = seen_ids.setdefault(task.id, split)
            _expect(other == split, f"{task.id} is in {other} and in {split}")
            other = seen_families.setdefault(task.family, split)
            _expect(other == split, f"family {task.family!r} is in {other} and in {split}")
    return f"{len(seen_families)} families"


async def _same_task_same_episode(environment: Environment) -> str:
    tasks = _some(environment, NUM_TASKS // 2)
    # What random clicks do on a live desktop depends on when they come.
    names = ("expert",) if isinstance(environment, Live) else ("expert", "random")
    for script_name in names:
        script = environment.scripts[script_name]
        for task in tasks:
            played = [await transcript(environment, task, script) for _ in "ab"]
            hashes = {outcome_hash(environment, *episode) for episode in played}
            _expect(len(hashes) == 1, f"{task.id}: two {script_name} episodes differ")
    return f"{len(tasks)} tasks, twice each"


async def _concurrent_episodes_do_not_mix(environment: Environment) -> str:
    tasks = _some(environment, 2)
    script = environment.scripts["expert"]
    alone = {
        t.id: outcome_hash(environment, *await transcript(environment, t, script)) for t in tasks
    }
    num_mixed = NUM_CONCURRENT // 2 if isinstance(environment, Live) else NUM_CONCURRENT
    mixed = [tasks[i % len(tasks)] for i in range(num_mixed)]
    played = await asyncio.gather(*(transcript(environment, t, script) for t in mixed))
    for task, (turns, last) in zip(mixed, played, strict=True):
        _expect(
            outcome_hash(environment, turns, last) == alone[task.id],
            f"{task.id} goes differently beside other episodes",
        )
    return f"{num_mixed} at once"


async def _expert_succeeds(environment: Environment) -> str:
    tasks = _some(environment, NUM_TASKS)
    script = environment.scripts["expert"]
    for task in tasks:
        turns, last = await transcript(environment, task, script)
        total = sum(turn.reward for turn in turns)
        _expect(last is not None and last.is_success, f"{task.id}: no success in {len(turns)}")
        _expect(0.0 < total <= 1.0 + 1e-9, f"{task.id}: a success earned {total}")
    return f"{len(tasks)} of {len(tasks)} dev tasks"


async def _rewards_and_ends_are_sane(environment: Environment) -> str:
    tasks = _some(environment, NUM_TASKS)
    for task in tasks:
        turns, last = await transcript(environment, task, environment.scripts["random"])
        total = sum(turn.reward for turn in turns)
        _expect(-1e-9 <= total <= 1.0 + 1e-9, f"{task.id}: a random episode earned {total}")
        if last is not None and last.is_success:
            _expect(last.is_done, f"{task.id}: success did not end the episode")
    return f"{len(tasks)} random episodes"


async def _nonsense_is_refused(environment: Environment) -> str:
    task = _some(environment, 1)[0]
    for text in HOSTILE_ACTIONS:
        async with environment.open(task) as env:
            await env.start()
            result = await env.step(Action(text))
            _expect(
                not result.is_success and result.reward <= 0,
                f"{text[:40]!r} earned {result.reward}",
            )
    return f"{len(HOSTILE_ACTIONS)} strings"


async def _episodes_can_be_left(environment: Environment) -> str:
    for task in _some(environment, 3):
        async with environment.open(task):
            pass
        async with environment.open(task) as env:
            await env.start()
    return "before and after the start"


def _some(environment: Environment, count: int) -> list[Task]:
    """Take tasks spread evenly over the dev panel."""
    tasks = environment.panel("dev").tasks
    if isinstance(environment, Live):
        count = max(1, count // 4)
    stride = max(1, len(tasks) // count)
    return list(tasks[::stride][:count])


def _expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise PromiseBrokenError(otherwise)


_CHECKS: tuple[Callable[[Environment], Awaitable[str]], ...] = (
    _describes_itself,
    _tasks_are_their_content,
    _splits_do_not_overlap,
    _same_task_same_episode,
    _concurrent_episodes_do_not_mix,
    _expert_succeeds,
    _rewards_and_ends_are_sane,
    _nonsense_is_refused,
    _episodes_can_be_left,
)
