"""Runs an evaluation: every task of a panel, some samples each, into a run folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.agents.policy_spec import make_policy
from practicum.config.eval import EvalConfig
from practicum.core.agent import Policy, Sampling
from practicum.core.env import Environment
from practicum.core.episode import Episode
from practicum.core.errors import ConfigError
from practicum.core.task import Panel
from practicum.envs import registry
from practicum.evaluate.contract import evaluation_contract
from practicum.evaluate.overlap import check_overlap
from practicum.evaluate.report import latest, summarise
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Slots, Table, play_many
from practicum.store.run import Run

Json = dict[str, Any]

SERVER_TOKEN_VARIABLE = "PRACTICUM_SERVER_TOKEN"
"""The bearer token of an environment server, if it wants one."""


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that is ready to run: everything looked up, nothing played yet."""

    config: EvalConfig
    environment: Environment
    panel: Panel
    policy: Policy
    agent: ChatAgent
    max_turns: int
    contract: Mapping[str, Any]
    overlap: Mapping[str, Any]

    @property
    def num_episodes(self) -> int:
        """How many episodes it takes."""
        return len(self.panel) * self.config.samples

    async def aclose(self) -> None:
        """Release the policy and the environment."""
        await self.policy.aclose()
        await self.environment.aclose()


def prepare(
    config: EvalConfig, policy: Policy | None = None, environment: Environment | None = None
) -> Evaluation:
    """Look everything up; whatever does not exist or does not fit is a `ConfigError`.

    A policy that is there already, such as a model in training, stands for `config.policy`, and
    an environment that is open for `config.env`.
    """
    action_format = get_format(config.format)
    environment = environment or _environment(config)
    panel = _panel(environment, config)
    sampling = Sampling(
        config.sampling.temperature, config.sampling.top_p, config.sampling.max_tokens
    )
    max_turns = config.limits.max_turns or environment.max_turns
    overlap = check_overlap(environment, panel, config.policy, config.trained_on)
    if policy is None:
        policy = make_policy(
            config.policy,
            environment,
            action_format,
            config.endpoint,
            config.hf,
            config.vllm,
            config.concurrency,
        )
    agent = ChatAgent(environment, action_format, policy, sampling, max_images=config.max_images)
    contract = evaluation_contract(
        environment,
        panel,
        options=config.options,
        system=agent.system,
        action_format=action_format,
        max_turns=max_turns,
        max_repeated_refusals=config.limits.max_repeated_refusals,
        max_images=config.max_images,
        sampling=sampling,
    )
    return Evaluation(config, environment, panel, policy, agent, max_turns, contract, overlap)


def start_run(evaluation: Evaluation, path: Path) -> Run:
    """Make the run folder of a new evaluation."""
    header = {
        "config": evaluation.config.model_dump(mode="json"),
        "contract": dict(evaluation.contract),
    }
    return Run.create(path, "eval", header, evaluation.panel)


def resume_run(evaluation: Evaluation, path: Path) -> Run:
    """Open the run folder of an evaluation that was cut short; it must be the same one."""
    run = Run.open(path)
    if run.kind != "eval":
        raise ConfigError(f"{path} is a run of kind {run.kind!r}, not an evaluation")
    recorded = run.header["contract"]
    if recorded["hash"] != evaluation.contract["hash"]:
        parts = [name for name in recorded if recorded[name] != evaluation.contract.get(name)]
        differ = ", ".join(part for part in parts if part != "hash")
        raise ConfigError(
            f"{path} was started under another contract ({differ} differ): "
            "the package or its data changed in between; start a new run"
        )
    return run


async def run_evaluation(
    evaluation: Evaluation,
    run: Run,
    on_episode: Callable[[Episode], None],
    slots: Slots | None = None,
) -> Json:
    """Play what is not on record yet, then write and return the report.

    Evaluations that run beside each other share `slots`.
    """
    config = evaluation.config
    done = {key for key, episode in latest(run.episodes()).items() if not episode.is_broken}
    todo = [
        Attempt(task, sample, config.seed)
        for sample in range(config.samples)
        for task in evaluation.panel
        if (task.id, sample) not in done
    ]
    table = Table(
        evaluation.environment,
        evaluation.agent,
        judge_outcome,
        Limits(
            evaluation.max_turns,
            config.limits.turn_timeout_s,
            config.limits.answer_timeout_s,
            config.limits.max_repeated_refusals,
        ),
        slots or Slots(config.concurrency),
    )
    with run.recording() as record:

        def keep(episode: Episode) -> None:
            record(episode)
            on_episode(episode)

        await play_many(table, todo, keep)
    report = {
        "env": config.env,
        "panel": evaluation.panel.name,
        "panel_hash": evaluation.panel.hash,
        "contract": evaluation.contract["hash"],
        "policy": config.policy,
        **summarise(evaluation.panel.tasks, run.episodes(), config.samples),
        "overlap": dict(evaluation.overlap),
        "run": ".",  # where the report lies: a copied run says the same
    }
    run.write_report(report)
    return report


def _environment(config: EvalConfig) -> Environment:
    if config.server is None:
        return registry.load_env(config.env, **config.options)
    from practicum.envs.http.remote import create

    token = os.environ.get(SERVER_TOKEN_VARIABLE)
    return create(config.server, config.env, token=token, options=config.options)


def _panel(environment: Environment, config: EvalConfig) -> Panel:
    panel = environment.panel(config.panel)
    if config.max_tasks is None or config.max_tasks >= len(panel):
        return panel
    return Panel(f"{panel.name}[:{config.max_tasks}]", panel.tasks[: config.max_tasks])
