"""Plays TextCraft with a model: many episodes side by side, one token per step in each.

Deliberately simple: prompts are fed token by token like everything else, and a finished
episode's slot is only given up when half of all are free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from transformers import PreTrainedTokenizerFast

from practicum.core.env import Decision
from practicum.core.task import Task
from practicum.envs.text.textcraft.env import COMMANDS, TextCraftGame
from practicum.envs.text.textcraft.tasks import first_observation
from practicum.envs.text.textcraft.world import World
from tools.base_model.corpus import FORMAT, SYSTEM_TEXT
from tools.base_model.model import Cache, CraftModel
from tools.base_model.tokenizer import ASSISTANT, END, SYSTEM, USER

MAX_LENGTH = 1024
MAX_ANSWER = 160
MAX_TURNS = 24
MAX_REPEATS = 3
"""An episode that was refused so often in a row is over."""
_LENGTH_STEP = 64


@dataclass
class Played:
    """One episode in tokens."""

    task: Task
    ids: list[int] = field(default_factory=list)
    is_sampled: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    num_turns: int = 0
    is_success: bool = False


class _Slot:
    """One episode under way."""

    def __init__(self, task: Task, world: World, tokenizer: PreTrainedTokenizerFast) -> None:
        self.played = Played(task)
        self._tokenizer = tokenizer
        self._game = TextCraftGame(world, task.data["goal"])
        self._answer: list[int] = []
        self._refusals = 0
        self.is_over = False
        first = first_observation(task)
        self.forced = self._encode(f"{SYSTEM}{SYSTEM_TEXT}{END}{USER}{first}{END}{ASSISTANT}")

    def next_token(self, sampled: int, logprob: float, end: int) -> int:
        """Take the sampled token, unless one is still to be fed."""
        played = self.played
        if self.forced:
            token = self.forced.pop(0)
            played.is_sampled.append(False)
            played.logprobs.append(0.0)
        else:
            token = sampled
            played.is_sampled.append(True)
            played.logprobs.append(logprob)
            self._answer.append(token)
            if token == end or len(self._answer) == MAX_ANSWER:
                self._finish_answer(end)
        played.ids.append(token)
        if len(played.ids) == MAX_LENGTH:
            self.is_over = True
        return token

    def _finish_answer(self, end: int) -> None:
        is_cut = self._answer[-1] != end
        text = str(self._tokenizer.decode(self._answer if is_cut else self._answer[:-1]))
        self._answer = []
        self.played.num_turns += 1
        parsed = FORMAT.parse(text, COMMANDS)
        if isinstance(parsed, Decision):
            result = self._game.step(parsed.action.text)
            reply, is_refused = result.observation.text, result.is_refused
            self.played.is_success = result.is_success
            self.is_over = result.is_done
        else:
            reply, is_refused = parsed.feedback, True
        self._refusals = self._refusals + 1 if is_refused else 0
        if self._refusals == MAX_REPEATS or self.played.num_turns == MAX_TURNS:
            self.is_over = True
        closing = END if is_cut else ""
        self.forced = self._encode(f"{closing}{USER}{reply}{END}{ASSISTANT}")

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids


@torch.no_grad()
def play_all(
    model: CraftModel,
    tokenizer: PreTrainedTokenizerFast,
    tasks: Sequence[tuple[Task, World]],
    seed: int,
    temperature: float = 1.0,
) -> list[Played]:
    """Play one episode of each task and return them in order."""
    device = model.cos.device
    generator = torch.Generator(device).manual_seed(seed)
    slots = [_Slot(task, world, tokenizer) for task, world in tasks]
    played = [slot.played for slot in slots]
    end = tokenizer.eos_token_id
    assert isinstance(end, int)
    cache = Cache(model.size, len(slots), MAX_LENGTH, device)
    sampled, logprobs = [0] * len(slots), [0.0] * len(slots)
    positions = [0] * len(slots)
    while slots:
        tokens = [
            0 if slot.is_over else slot.next_token(sampled[i], logprobs[i], end)
            for i, slot in enumerate(slots)
        ]
        going = [i for i, slot in enumerate(slots) if not slot.is_over]
        if len(going) * 2 <= len(slots):
            cache.keep(torch.tensor(going, device=device, dtype=torch.long))
            slots, tokens = [slots[i] for i in going], [tokens[i] for i in going]
            positions = [positions[i] for i in going]
            if not slots:
                break
        length = min(MAX_LENGTH, (max(positions) // _LENGTH_STEP + 1) * _LENGTH_STEP)
        logits = model.step(
            torch.tensor(tokens, device=device),
            torch.tensor(positions, device=device),
            cache,
            length,
        )
        scores = torch.log_softmax(logits / temperature, dim=-1)
        drawn = torch.multinomial(scores.exp(), 1, generator=generator)
        sampled = drawn[:, 0].tolist()
        logprobs = scores.gather(1, drawn)[:, 0].tolist()
        positions = [p if s.is_over else p + 1 for p, s in zip(positions, slots, strict=True)]
    return played


@dataclass(frozen=True, slots=True)
class Score:
    """Success of sampled episodes over tasks."""

    num_tasks: int
    num_samples: int
    success: float
    any_success: float
    """Share of tasks with at least one success among the samples."""
    by_depth: dict[str, float]
    mean_turns: float
    mean_tokens: float

    def __str__(self) -> str:
        depths = ", ".join(f"{name} {value:.0%}" for name, value in self.by_depth.items())
        return (
            f"success {self.success:.1%}, pass@{self.num_samples} {self.any_success:.1%} "
            f"({self.num_tasks} tasks; {depths}; {self.mean_turns:.1f} turns, "
            f"{self.mean_tokens:.0f} sampled tokens)"
        )


def score(played: Sequence[Played]) -> Score:
    """Summarise episodes; those of one task count as its samples."""
    by_task: dict[str, list[bool]] = {}
    by_depth: dict[str, list[bool]] = {}
    for one in played:
        by_task.setdefault(one.task.id, []).append(one.is_success)
        by_depth.setdefault(one.task.difficulty, []).append(one.is_success)
    return Score(
        num_tasks=len(by_task),
        num_samples=max(map(len, by_task.values())),
        success=_mean([one.is_success for one in played]),
        any_success=_mean([any(results) for results in by_task.values()]),
        by_depth={name: _mean(by_depth[name]) for name in sorted(by_depth)},
        mean_turns=_mean([one.num_turns for one in played]),
        mean_tokens=_mean([sum(one.is_sampled) for one in played]),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
