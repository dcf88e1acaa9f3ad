"""One TextCraft episode that every trainer must record alike: messages, ids, mask and reward.

The answers are tokenised once, here, and every sampler is replaced by something that gives back
these ids: `answers()` in this order. What the embedded trainer collects is the reference; its
digest is written down, so that environments which cannot import each other compare with it too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.config.algorithms import GrpoConfig
from practicum.config.train import GroupsConfig
from practicum.core.agent import Prompt, Sampling
from practicum.core.episode import Completion, Episode
from practicum.core.task import Task
from practicum.data.recorded import recorded_sequences
from practicum.envs.registry import load_env
from practicum.policies.local.weights import find_model
from practicum.policies.rendering import Renderer
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Limits, Table
from practicum.train.algorithms import make_algorithm
from practicum.train.collect import Collector
from practicum.train.mixture import Mixture, Part

MODEL = find_model("craft-base")
FORMAT = "react"
MAX_TURNS = 12
PANEL = "dev"
TASK_ID = "textcraft-9a561ff486aa8848"
DIGEST = "25696ba8da535ccb265a21e5f31a43008ae7548792f33f2541eefa40814bae2b"
"""Of the reference: a change of prompt, format, rules or tokenizer changes it."""

# A misformed answer and a refused action first: their feedback is part of what must agree.
TEXTS = (
    "I will craft a book.",
    "Thought: Let me try.\nAction: craft 1 book using 3 paper, 1 leather",
    "Thought: I have nothing. 1 book needs 3 paper, 1 leather.\nAction: get 3 sugar cane",
    "Thought: 1 leather needs 4 rabbit hide.\nAction: get 4 rabbit hide",
    "Thought: I have 3 sugar cane.\nAction: craft 3 paper using 3 sugar cane",
    "Thought: I have 4 rabbit hide.\nAction: craft 1 leather using 4 rabbit hide",
    "Thought: I have it all.\nAction: craft 1 book using 3 paper, 1 leather",
)


@dataclass(frozen=True)
class Answer:
    """What the sampler says at one turn."""

    text: str
    token_ids: tuple[int, ...]
    """With the token that ends it."""
    logprobs: tuple[float, ...]


@dataclass(frozen=True)
class Recorded:
    """An episode as a trainer sees it."""

    messages: Sequence[Mapping[str, str]]
    """`role` and `content`, from the system's to the last answer."""
    token_ids: Sequence[int]
    """From the first token of the prompt to the last of the last answer."""
    mask: Sequence[int]
    """1 for sampled tokens; as long as `token_ids`."""
    reward: float

    @property
    def digest(self) -> str:
        return digest(self.messages, self.token_ids, self.mask, self.reward)


def digest(
    messages: Sequence[Mapping[str, str]],
    token_ids: Sequence[int],
    mask: Sequence[int],
    reward: float,
) -> str:
    """One hash over what must agree."""
    said = [{"role": m["role"], "content": m["content"]} for m in messages]
    document = [said, list(map(int, token_ids)), list(map(int, mask)), float(reward)]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def task() -> Task:
    """The task that is played."""
    return next(t for t in load_env("textcraft").panel(PANEL) if t.id == TASK_ID)


@cache
def renderer() -> Renderer:
    """That of the base model."""
    return Renderer.load(MODEL)


@cache
def answers() -> tuple[Answer, ...]:
    """All answers of the episode; the log-probabilities are made up and all different."""
    found = []
    count = 0
    for text in TEXTS:
        ids = renderer().answer_ids(text)
        # Sixteenths: exact in every floating-point type, so that they can be compared exactly.
        logprobs = tuple(-(count + n) / 16 for n in range(len(ids)))
        count += len(ids)
        found.append(Answer(text, ids, logprobs))
    return tuple(found)


class TokenScript:
    """A policy that says the answers, on top of the prompt ids our renderer makes."""

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        said = answers()[len(prompt.situation.history)]
        return Completion(
            said.text,
            prompt_token_ids=renderer().prompt_ids(prompt),
            token_ids=said.token_ids,
            logprobs=said.logprobs,
            policy_version=0,
        )

    async def aclose(self) -> None:
        pass


async def collected_episode() -> Episode:
    """The episode as the embedded trainer collects it."""
    environment = load_env("textcraft")
    agent = ChatAgent(environment, get_format(FORMAT), TokenScript(), Sampling())
    table = Table(environment, agent, judge_outcome, Limits(MAX_TURNS))
    episodes: list[Episode] = []
    collector = Collector(
        Mixture([Part("textcraft", table, [task()])], seed=0),
        num_slots=2,
        groups=GroupsConfig(size=2, per_update=1, max_per_update=1),
        algorithm=make_algorithm(GrpoConfig()),
        record=episodes.append,
    )
    await collector.collect()
    return episodes[0]


def record(episode: Episode) -> Recorded:
    """An episode of ours as a trainer sees it."""
    assert episode.reward is not None, episode.error
    (sequence,) = recorded_sequences(episode)
    mask = [0] * len(sequence.ids)
    for _, start, stop in sequence.answers:
        mask[start:stop] = [1] * (stop - start)
    messages = [{"role": "system", "content": episode.system}]
    for turn in episode.turns:
        messages.append({"role": "user", "content": turn.observation.text})
        messages.append({"role": "assistant", "content": turn.completion.text})
    return Recorded(messages, sequence.ids, mask, episode.reward.value)


async def reference() -> Recorded:
    """What every trainer must record."""
    return record(await collected_episode())
