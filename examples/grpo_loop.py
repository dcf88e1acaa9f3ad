"""The whole of GRPO in one file: a tiny model learns to press the right buttons.

python examples/grpo_loop.py        (half a minute on one CPU core, from random weights)

Read it from top to bottom: a world, a model, an update, the loop. What `practicum rl` adds to
this is scale: real models, batched sampling, packing, checkpoints, evaluation.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from practicum import (
    Action,
    ChatAgent,
    Command,
    Completion,
    EnvError,
    Episode,
    Group,
    Limits,
    Observation,
    Panel,
    Prompt,
    Sampling,
    Script,
    StepResult,
    Table,
    Task,
    get_format,
    judge_outcome,
    play_group,
)

# 1. A world ------------------------------------------------------------------------------
#
# Each task names two buttons, to be pressed in order. The names are shown once, at the start:
# to press the second button is to remember it.

COLOURS = ("red", "green", "blue")
FAULT_RATE = 0.01


class ButtonsEpisode:
    """One attempt at a task."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self.wanted = wanted
        self.num_pressed = 0

    async def start(self) -> Observation:
        """Name the buttons."""
        return Observation(" then ".join(self.wanted))

    async def step(self, action: Action) -> StepResult:
        """Press a button; the wrong one ends the episode, each right one earns its share."""
        if random.random() < FAULT_RATE:
            raise EnvError("a wire came loose")  # not the model's fault: see `group_samples`
        if action.text != f"press {self.wanted[self.num_pressed]}":
            return StepResult(Observation("wrong"), is_done=True)
        self.num_pressed += 1
        is_done = self.num_pressed == len(self.wanted)
        return StepResult(Observation("next"), 1 / len(self.wanted), is_done, is_success=is_done)


class Buttons:
    """The kind of world: its rules, its actions, its tasks, and how to open an episode."""

    id = "buttons"
    rules = "Press the buttons named, in that order."
    commands = (Command("press", "press {colour}", "press a button"),)
    max_turns = 3
    scripts: Mapping[str, Script] = {}  # nobody plays this by a program

    def panel_names(self) -> Sequence[str]:
        """There is one panel."""
        return ("all",)

    def panel(self, name: str) -> Panel:
        """Every pair of colours is a task."""
        pairs = itertools.product(COLOURS, repeat=2)
        return Panel(name, tuple(Task.create(self.id, " ".join(p), {"wanted": p}) for p in pairs))

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[ButtonsEpisode]:
        """Open one episode; a costly world would be released after the yield."""
        yield ButtonsEpisode(task.data["wanted"])

    async def aclose(self) -> None:
        """Nothing is held."""


# 2. A model that acts, and keeps what it did -------------------------------------------------
#
# A small vocabulary and a recurrent network. What matters is what it records: the ids it read,
# the ids it said, and the log-probability of each. Training uses exactly these. Each token said
# is a line of the answer; the answer format reads the one line that starts with ">".

WORDS = ("<answer>", "<end>", "next", *COLOURS, *(f"> press {colour}" for colour in COLOURS))
ANSWER, END = WORDS.index("<answer>"), WORDS.index("<end>")


def tokenise(text: str) -> list[int]:
    """Ids of the words the model knows; it skips the rest."""
    return [WORDS.index(word) for word in re.findall(r"\w+", text) if word in WORDS]


class Model(nn.Module):
    """Reads ids, scores the next one."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), width)
        self.memory = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, len(WORDS))

    def forward(self, ids_B_T: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits after every id, and the state to go on from."""
        hidden_B_T_D, state = self.memory(self.embedding(ids_B_T), state)
        return self.head(hidden_B_T_D), state


class LocalPolicy:
    """Samples answers from the model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.version = 0

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        """Answer with recorded ids and log-probabilities."""
        situation = prompt.situation
        prompt_ids: list[int] = []
        if situation.history:
            # Append only: what was read and said before stays as it was, id by id.
            last = situation.history[-1].completion
            prompt_ids = [*last.prompt_token_ids, *last.token_ids]
        prompt_ids += [*tokenise(situation.observation.text), ANSWER]
        token_ids, logprobs = self._sample(prompt_ids, sampling, situation.seed)
        return Completion(
            text="\n".join(WORDS[token] for token in token_ids if token != END),
            finish="stop" if END in token_ids else "length",
            prompt_token_ids=tuple(prompt_ids),
            token_ids=tuple(token_ids),
            logprobs=tuple(logprobs),
            policy_version=self.version,
        )

    @torch.inference_mode()
    def _sample(
        self, prompt_ids: list[int], sampling: Sampling, seed: int
    ) -> tuple[list[int], list[float]]:
        dice = torch.Generator().manual_seed(seed)
        token_ids: list[int] = []
        logprobs: list[float] = []
        logits_1_T_V, state = self.model(torch.tensor([prompt_ids]))
        while len(token_ids) < sampling.max_tokens and END not in token_ids:
            logprobs_V = logits_1_T_V[0, -1].log_softmax(-1)
            token = int(torch.multinomial(logprobs_V.exp(), 1, generator=dice))
            token_ids.append(token)
            logprobs.append(float(logprobs_V[token]))
            logits_1_T_V, state = self.model(torch.tensor([[token]]), state)
        return token_ids, logprobs

    async def aclose(self) -> None:
        """Nothing is held."""


# 3. The update -------------------------------------------------------------------------------


@dataclass
class Sample:
    """One episode as one sequence: what the model read and said, and what that was worth."""

    token_ids: list[int]
    is_trained: list[bool]
    logprobs: list[float]
    advantage: float


def episode_sample(episode: Episode, advantage: float) -> Sample:
    """Join the turns; only what the model said is trained on, not what the world said."""
    sample = Sample([], [], [], advantage)
    for turn in episode.turns:
        said = turn.completion
        seen = len(sample.token_ids)
        assert list(said.prompt_token_ids[:seen]) == sample.token_ids, "history was rewritten"
        new = said.prompt_token_ids[seen:]
        sample.token_ids += [*new, *said.token_ids]
        sample.is_trained += [False] * len(new) + [True] * len(said.token_ids)
        sample.logprobs += [0.0] * len(new) + list(said.logprobs)
    return sample


def group_samples(group: Group) -> list[Sample]:
    """Compare the episodes of one task with each other: advantage = reward - mean reward.

    A broken episode has no reward. It is no failure of the model: it moves no mean and is not
    trained on. A group whose rewards are all equal says nothing about which answer is better.
    """
    judged = group.judged
    rewards = [episode.reward.value for episode in judged]
    if len(set(rewards)) < 2:
        return []
    mean = sum(rewards) / len(rewards)
    return [episode_sample(e, r - mean) for e, r in zip(judged, rewards, strict=True)]


def pad(rows: Sequence[Sequence[float]], dtype: torch.dtype) -> Tensor:
    """Rows of one length; zeros at the end."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], dtype=dtype)


def update(
    model: Model,
    optimiser: torch.optim.Optimizer,
    samples: list[Sample],
    clip: float = 0.2,
    num_passes: int = 2,
) -> None:
    """Make good answers likelier and bad ones less likely, but no more than `clip` at once."""
    ids_B_T = pad([s.token_ids for s in samples], torch.long)
    is_trained_B_T = pad([s.is_trained for s in samples], torch.bool)[:, 1:]
    old_logprobs_B_T = pad([s.logprobs for s in samples], torch.float)[:, 1:]
    advantages_B_1 = torch.tensor([[s.advantage] for s in samples])
    for _ in range(num_passes):
        logits_B_T_V, _ = model(ids_B_T[:, :-1])
        all_logprobs_B_T_V = logits_B_T_V.log_softmax(-1)
        logprobs_B_T = all_logprobs_B_T_V.gather(-1, ids_B_T[:, 1:, None]).squeeze(-1)

        # How much likelier each token is now than when it was sampled.
        ratio_B_T = (logprobs_B_T - old_logprobs_B_T).exp()
        clipped_B_T = ratio_B_T.clamp(1 - clip, 1 + clip)
        loss_B_T = -torch.minimum(ratio_B_T * advantages_B_1, clipped_B_T * advantages_B_1)
        # Every token counts the same, whatever the length of its episode.
        loss = loss_B_T[is_trained_B_T].mean()

        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()


# 4. The loop ---------------------------------------------------------------------------------


async def main(num_updates: int = 40, group_size: int = 16, seed: int = 0) -> list[float]:
    """Train, print how it goes, and return the mean reward before each update."""
    random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # the network is so small that threads only wait for each other
    world, model = Buttons(), Model()
    optimiser = torch.optim.Adam(model.parameters(), lr=6e-3)
    policy = LocalPolicy(model)
    agent = ChatAgent(world, get_format("adapt"), policy, Sampling(max_tokens=2))
    table = Table(world, agent, judge_outcome, Limits(world.max_turns))
    curve: list[float] = []
    for number in range(num_updates):
        groups = [
            await play_group(table, task, group_size, seed=number) for task in world.panel("all")
        ]
        samples = [sample for group in groups for sample in group_samples(group)]
        if samples:
            update(model, optimiser, samples)
            policy.version += 1

        episodes = [episode for group in groups for episode in group.episodes]
        judged = [episode for group in groups for episode in group.judged]
        curve.append(sum(episode.reward.value for episode in judged) / len(judged))
        if number % 5 == 0 or number == num_updates - 1:
            print(
                f"update {number:3}  reward {curve[-1]:.2f}  "
                f"solved {sum(e.is_success for e in judged)}/{len(judged)}  "
                f"broken {len(episodes) - len(judged)}  trained on {len(samples)}"
            )
    return curve


if __name__ == "__main__":
    asyncio.run(main())
