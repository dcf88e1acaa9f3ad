"""Documents for the base model: episodes really played in invented worlds, by fallible crafters.

Each document is the conversation an agent would see: the same instructions, first message
and replies, and answers in the `react` format. The player is the environment's own expert,
shown a first message that it may have misread and a history it may have forgotten a turn
of; so its mistakes are consistent with its thoughts, and the world answers them. One that
looks again says so and then acts as the expert does. Who does that how often is the
corpus's main setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from practicum.agents.react import ReactFormat
from practicum.core.agent import Situation
from practicum.core.env import Decision
from practicum.core.episode import Completion, Turn
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs.text.textcraft.env import COMMANDS, RULES, TextCraftGame
from practicum.envs.text.textcraft.expert import Puzzle, follow_plan, make_plan, read_puzzle
from practicum.envs.text.textcraft.invented_tasks import MAX_EXPERT_TURNS, make_tasks
from practicum.envs.text.textcraft.tasks import first_observation
from practicum.envs.text.textcraft.world import World

FORMAT = ReactFormat()
SYSTEM_TEXT = f"{RULES}\n\n{FORMAT.instructions(COMMANDS)}"
"""What `ChatAgent` puts in front of the first observation."""

MAX_REFUSALS = 3
"""A crafter that was refused so often in a row gives up."""


@dataclass(frozen=True, slots=True)
class Crafter:
    """How one kind of player errs; probabilities are per turn unless said."""

    weight: float
    """Share of documents."""
    misreads: float = 0.0
    """Takes a needed command for a slightly different one, until it looks again."""
    forgets: float = 0.0
    """Does not remember the turn before."""
    strays: float = 0.0
    """Does something that serves no plan."""
    looks: float = 0.0
    """Looks at the commands again before it acts, and says so: it then errs in nothing."""
    notices: float = 0.7
    """Looks again after a refusal. Otherwise it does what was refused once more."""


EXPERT = Crafter(weight=1.0)
_HASTY = Crafter(0.75, misreads=0.7, forgets=0.05, strays=0.08, looks=0.03, notices=0.1)
_CAREFUL = replace(_HASTY, weight=0.25, looks=0.85, notices=0.9)

RECIPES: dict[str, tuple[Crafter, ...]] = {"expert": (EXPERT,), "mixed": (_HASTY, _CAREFUL)}
"""`mixed` leaves open whom the model takes after: to look before one acts is left to learn."""

LOOK = "I look again. "
"""How the thought of one who does begins."""

Conversation = list[tuple[str, str]]
"""Role and text, without the system message."""

_NUMBER = re.compile(r"\d+")


def make_documents(crafters: Sequence[Crafter], seed: int) -> Iterator[Conversation]:
    """Play the documents of one world."""
    rng = Random(f"corpus/{seed}")
    for task, world in make_tasks(seed):
        crafter = rng.choices(crafters, [c.weight for c in crafters])[0]
        yield play(task, world, crafter, rng)


def play(task: Task, world: World, crafter: Crafter, rng: Random) -> Conversation:
    """Play one episode and return the conversation."""
    first = first_observation(task)
    game = TextCraftGame(world, task.data["goal"])
    player = _Player(crafter, rng, task, first)
    observation = Observation(first)
    conversation: Conversation = []
    refusals = 0
    for _ in range(2 * MAX_EXPERT_TURNS):
        decision = player.decide(observation)
        answer = FORMAT.render(decision, COMMANDS)
        result = game.step(decision.action.text)
        conversation += [("user", observation.text), ("assistant", answer)]
        player.saw(
            Turn(observation, Completion(answer), decision.action, is_refused=result.is_refused)
        )
        observation = result.observation
        refusals = refusals + 1 if result.is_refused else 0
        if result.is_done or refusals == MAX_REFUSALS:
            break
    return conversation


class _Player:
    """The expert behind a pair of unreliable eyes."""

    def __init__(self, crafter: Crafter, rng: Random, task: Task, first: str) -> None:
        self._crafter = crafter
        self._rng = rng
        self._task = task
        self._first = first
        self._reading = first
        self._history: list[Turn] = []

    def saw(self, turn: Turn) -> None:
        """Remember a turn."""
        self._history.append(turn)

    def decide(self, observation: Observation) -> Decision:
        """Take the next action of a plan made from what it believes."""
        rng, crafter = self._rng, self._crafter
        refused = (
            self._history[-1].action if self._history and self._history[-1].is_refused else None
        )
        if rng.random() < (crafter.looks if refused is None else crafter.notices):
            self._reading = self._first
            decision = follow_plan(self._situation(observation, forgets=False))
            return replace(decision, thought=LOOK + decision.thought)
        if rng.random() < crafter.misreads:
            self._reading = misread(self._first, rng)
        try:
            decision = follow_plan(self._situation(observation, rng.random() < crafter.forgets))
        except RecursionError:  # what it read goes in circles
            self._reading = self._first
            decision = follow_plan(self._situation(observation, forgets=False))
        if refused is not None:
            return replace(decision, action=refused)
        if rng.random() < crafter.strays:
            return replace(decision, action=self._stray())
        return decision

    def _situation(self, observation: Observation, forgets: bool) -> Situation:
        history = list(self._history)
        if forgets and len(history) > 1:
            history.pop()
        if history:
            history[0] = replace(history[0], observation=Observation(self._reading))
        else:
            observation = Observation(self._reading)
        return Situation(self._task, 0, history, observation, 0)

    def _stray(self) -> Action:
        rng = self._rng
        puzzle = read_puzzle(self._first)
        kind = rng.randrange(4)
        if kind == 0:
            return Action("inventory")
        if kind == 1:
            return Action(f"get {rng.randint(1, 9)} {rng.choice(puzzle.fetchable)}")
        if kind == 2:
            return Action(f"get {rng.randint(1, 9)} {rng.choice(list(puzzle.recipes))}")
        return Action(puzzle.recipes[puzzle.goal][0].line)


def misread(first: str, rng: Random) -> str:
    """Change one command that the goal needs: a count, an ingredient, or the whole line."""
    puzzle = read_puzzle(first)
    plan = make_plan(puzzle, {}, frozenset())
    needed = {recipe.output for recipe in plan.crafts}
    lines = first.split("\n")
    spots = [i for i, line in enumerate(lines) if _output(line) in needed]
    spot = rng.choice(spots)
    head, _, inputs = lines[spot].partition(" using ")
    parts = inputs.split(", ")
    kind = rng.randrange(4)
    if kind == 0 and _output(lines[spot]) not in (puzzle.goal, *_endings(puzzle)):
        del lines[spot]  # now it seems that the thing can be fetched
    elif kind == 1 and len(parts) > 1:
        parts.pop(rng.randrange(len(parts)))
        lines[spot] = f"{head} using {', '.join(parts)}"
    elif kind == 2:
        # Makes it think that one crafting gives more or less than it does.
        lines[spot] = f"{_recount(head, rng)} using {inputs}"
    else:
        index = rng.randrange(len(parts))
        parts[index] = _recount(parts[index], rng)
        lines[spot] = f"{head} using {', '.join(parts)}"
    return "\n".join(lines)


def _endings(puzzle: Puzzle) -> set[str]:
    """What other names end in: without a recipe it would seem a kind of those."""
    words = [name.split(" ") for name in puzzle.recipes]
    return {" ".join(name[i:]) for name in words for i in range(1, len(name))}


def _recount(text: str, rng: Random) -> str:
    return _NUMBER.sub(lambda found: str(max(1, int(found[0]) + rng.choice((-2, -1, 1, 2)))), text)


def _output(line: str) -> str | None:
    head, using, _ = line.partition(" using ")
    return head.split(" ", 2)[2] if using else None
