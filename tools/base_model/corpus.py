"""Documents for the base model: episodes really played in invented worlds, by fallible crafters.

Each document is the conversation an agent would see: the same instructions, first message
and replies, and answers in the `react` format. The player is the environment's own expert,
shown a first message that it may have misread and a history it may have forgotten a turn
of; so its mistakes are consistent with its thoughts, the world answers them, and it may or
may not look again. How skilled the crafters are is the corpus's main setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from practicum.agents.react import ReactFormat
from practicum.core.agent import Situation
from practicum.core.env import Decision
from practicum.core.episode import Completion, Turn
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs.text.textcraft.env import COMMANDS, RULES, TextCraftGame
from practicum.envs.text.textcraft.expert import Puzzle, make_plan, play_expertly, read_puzzle
from practicum.envs.text.textcraft.tasks import first_observation, make_task
from practicum.envs.text.textcraft.world import World, to_key
from tools.base_model.worlds import Shape, check_apart, make_world

FORMAT = ReactFormat()
SYSTEM_TEXT = f"{RULES}\n\n{FORMAT.instructions(COMMANDS)}"
"""What `ChatAgent` puts in front of the first observation."""

MAX_COMMANDS = 30
MAX_EXPERT_TURNS = 18
GOALS_PER_WORLD = 6
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
    notices: float = 0.7
    """After a refusal: reads the commands again."""
    terse: float = 0.0
    """Per document: writes no thoughts."""


@dataclass(frozen=True, slots=True)
class CorpusConfig:
    """Which worlds, which goals, which crafters."""

    crafters: tuple[Crafter, ...]
    shape: Shape = field(default_factory=Shape)
    depth_weights: tuple[float, ...] = (0.2, 0.5, 0.25, 0.05)
    """How often a goal of depth 1, 2, … is drawn, where the world has any."""


EXPERT = Crafter(weight=1.0)
_MIXED = (
    Crafter(weight=0.3, misreads=0.05, forgets=0.02, strays=0.02),
    Crafter(weight=0.4, misreads=0.25, forgets=0.05, strays=0.05, terse=0.1),
    Crafter(weight=0.3, misreads=0.5, forgets=0.1, strays=0.1, notices=0.4, terse=0.3),
)

RECIPES: dict[str, CorpusConfig] = {
    "expert": CorpusConfig((EXPERT,)),
    "mixed": CorpusConfig(_MIXED),
    "poor": CorpusConfig(
        (Crafter(weight=1.0, misreads=0.5, forgets=0.1, strays=0.1, notices=0.0),)
    ),
    "shallow": CorpusConfig(
        (Crafter(weight=1.0, misreads=0.1, forgets=0.03, strays=0.03),),
        Shape(max_depth=2),
        (0.7, 0.3),
    ),
    "terse": CorpusConfig(
        (Crafter(weight=1.0, misreads=0.15, forgets=0.05, strays=0.05, terse=0.9),)
    ),
}

Conversation = list[tuple[str, str]]
"""Role and text, without the system message."""

_NUMBER = re.compile(r"\d+")


def make_documents(config: CorpusConfig, seed: int) -> Iterator[Conversation]:
    """Play the documents of one world."""
    rng = Random(f"corpus/{seed}")
    for task, world in make_tasks(config, seed):
        crafter = rng.choices(config.crafters, [c.weight for c in config.crafters])[0]
        yield play(task, world, crafter, rng)


def make_tasks(config: CorpusConfig, seed: int) -> Iterator[tuple[Task, World]]:
    """Draw the tasks of one world, without those that are too long or misleading."""
    world = make_world(seed, config.shape)
    check_apart(world)
    rng = Random(f"tasks/{seed}")
    for goal in _draw_goals(config, world, rng):
        task = make_task(world, goal, variant=rng.randrange(1000))
        if len(task.data["commands"]) > MAX_COMMANDS or misleads(task, world):
            continue
        if _expert_turns(task) <= MAX_EXPERT_TURNS:
            yield task, world


def misleads(task: Task, world: World) -> bool:
    """Whether names make something seem a kind that is none, or of a kind that it is not of."""
    puzzle = read_puzzle(first_observation(task))
    asked = {key for made in puzzle.recipes.values() for r in made for key, _ in r.inputs}
    return any(
        world.generic_of.get(to_key(member)) != to_key(key)
        for key in asked
        for member in puzzle.members(key)
    )


def _draw_goals(config: CorpusConfig, world: World, rng: Random) -> Iterator[str]:
    """Different goals; the depth is drawn first, as deep goals are few in a world."""
    by_depth: dict[int, list[str]] = {}
    for goal in world.goals:
        if world.depths[goal] <= len(config.depth_weights):
            by_depth.setdefault(world.depths[goal], []).append(goal)
    weights = {depth: config.depth_weights[depth - 1] for depth in by_depth}
    drawn = rng.choices(list(weights), list(weights.values()), k=GOALS_PER_WORLD)
    yield from dict.fromkeys(rng.choice(by_depth[depth]) for depth in drawn)


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
        self._is_terse = rng.random() < crafter.terse
        self._history: list[Turn] = []

    def saw(self, turn: Turn) -> None:
        """Remember a turn; a refusal may make it look again."""
        self._history.append(turn)
        if turn.is_refused and self._rng.random() < self._crafter.notices:
            self._reading = self._first

    def decide(self, observation: Observation) -> Decision:
        """Take the next action of a plan made from what it believes."""
        rng, crafter = self._rng, self._crafter
        if rng.random() < crafter.misreads:
            self._reading = misread(self._first, rng)
        situation = self._situation(observation, rng.random() < crafter.forgets)
        try:
            decision = play_expertly(situation)
        except RecursionError:  # what it read goes in circles: it looks again
            self._reading = self._first
            decision = play_expertly(self._situation(observation, forgets=False))
        if rng.random() < crafter.strays:
            decision = replace(decision, action=self._stray())
        return replace(decision, thought="") if self._is_terse else decision

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


def _expert_turns(task: Task) -> int:
    plan = make_plan(read_puzzle(first_observation(task)), {}, frozenset())
    return len(plan.fetch) + len(plan.crafts)
