"""SearchQA: search a collection of passages, then answer, in the form of Search-R1.

`<search>query</search>` is answered with `<information>Doc 1(Title: "…") …</information>`
and `<answer>text</answer>` ends the episode, right or wrong. Whatever stands around the one
tag is ignored, as AgentGym's clients send the whole text of the model. The reward is exact
match (or F1, on request); success is exact match. Golden answers are never shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from practicum.core.commands import Command
from practicum.core.env import Script, StepResult
from practicum.core.errors import ConfigError, unknown_name
from practicum.core.message import Action, Observation
from practicum.core.task import Panel, Task
from practicum.envs.text.searchqa import expert, scoring, tasks
from practicum.envs.text.searchqa.actions import read_tags
from practicum.envs.text.searchqa.lands.passages import CORPUS_ID, load_passages
from practicum.envs.text.searchqa.retriever import Bm25Retriever, Document, Retriever
from practicum.envs.text.searchqa.user_data import SERVICE_CORPUS_ID, UserData

RULES = """\
You answer a question with the help of a search engine over a collection of passages. The \
first message holds the question.

- A search shows the three passages that suit the query best. Search as often as you need; \
what one passage says may be what you have to search for next.
- Your answer ends the task, right or wrong. Give only what is asked for, such as a name or \
a year, in as few words as possible and spelled as in the passages."""

COMMANDS = (
    Command("search", "<search>{query}</search>", "search the passages", is_multiline=True),
    Command("answer", "<answer>{text}</answer>", "give the final answer", is_multiline=True),
)

MAX_TURNS = 8
"""Three facts and an answer take four turns; the rest is room for searches that miss."""

NUM_RESULTS = 3
MAX_QUERY_CHARS = 1_000
MAX_ANSWER_CHARS = 1_000
MAX_PASSAGE_CHARS = 2_000
"""Longer passages of a user's collection are shown cut off."""

Score = Callable[[str, Sequence[str]], float]

REWARDS: Mapping[str, Score] = {"exact_match": scoring.exact_match, "f1": scoring.f1}

_HINT = (
    "Write <search>your query</search> to search, or <answer>your answer</answer> to answer; "
    "exactly one of them."
)


class SearchQAEnv:
    """One episode of one question."""

    def __init__(self, task: Task, retriever: Retriever, reward: Score) -> None:
        self._task = task
        self._retriever = retriever
        self._reward = reward
        self._is_done = False

    async def start(self) -> Observation:
        """Show the question."""
        return Observation(tasks.first_observation(self._task))

    async def step(self, action: Action) -> StepResult:
        """Search, or answer and end the episode."""
        if self._is_done:
            return _refuse("The question has been answered; the episode is over.", is_done=True)
        tags = read_tags(action.text)
        if len(tags) != 1:
            what = "found no action" if not tags else f"found {len(tags)} actions"
            return _refuse(f"I {what}. {_HINT}")
        name, text = tags[0]
        limit = MAX_QUERY_CHARS if name == "search" else MAX_ANSWER_CHARS
        if not text:
            return _refuse(f"The {name} was empty. {_HINT}")
        if len(text) > limit:
            return _refuse(f"The {name} has {len(text)} characters; at most {limit} are taken.")
        return await self._search(text) if name == "search" else self._answer(text)

    async def _search(self, query: str) -> StepResult:
        documents = await self._retriever.retrieve(query, NUM_RESULTS)
        return StepResult(Observation(show(documents)), info={"num_results": len(documents)})

    def _answer(self, text: str) -> StepResult:
        golden = self._task.data["golden_answers"]
        is_right = scoring.exact_match(text, golden)
        self._is_done = True
        return StepResult(
            Observation("The answer is right." if is_right else "The answer is wrong."),
            reward=float(self._reward(text, golden)),
            is_done=True,
            is_success=is_right,
            info={"exact_match": float(is_right), "f1": scoring.f1(text, golden)},
        )


def show(documents: Sequence[Document]) -> str:
    """Write search results as Search-R1 does."""
    if not documents:
        return "<information>No passage matches.</information>"
    lines = (
        f'Doc {i}(Title: "{document.title}") {_cut(document.text)}'
        for i, document in enumerate(documents, start=1)
    )
    return f"<information>{chr(10).join(lines)}</information>"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_PASSAGE_CHARS else f"{text[:MAX_PASSAGE_CHARS]}…"


def _refuse(text: str, *, is_done: bool = False) -> StepResult:
    return StepResult(Observation(text), is_done=is_done, is_refused=True)


class SearchQA:
    """Questions and the collection they are asked about. Holds one retriever for all."""

    id = tasks.ENV_ID
    rules = RULES
    commands: Sequence[Command] = COMMANDS
    max_turns = MAX_TURNS
    scripts: Mapping[str, Script] = {
        "expert": expert.play_expertly,
        "random": expert.play_randomly,
    }

    def __init__(self, retriever: Retriever, reward: Score, user_data: UserData | None) -> None:
        self._retriever = retriever
        self._reward = reward
        self._user_data = user_data

    @property
    def corpus_id(self) -> str:
        """The collection that is searched; tasks name the one they need."""
        return self._user_data.corpus_id if self._user_data else CORPUS_ID

    def panel_names(self) -> Sequence[str]:
        """Names of the shipped panels, or of those in the user's file."""
        return tuple(self._user_data.panels) if self._user_data else tasks.PANELS.names()

    def panel(self, name: str) -> Panel:
        """Load a panel."""
        if self._user_data is None:
            return tasks.PANELS.load(name)
        if name not in self._user_data.panels:
            raise unknown_name("panel", name, self._user_data.panels)
        return self._user_data.panels[name]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[SearchQAEnv]:
        """Open one episode; it holds nothing that needs releasing."""
        if task.data["corpus"] != self.corpus_id:
            raise ConfigError(
                f"task {task.id} asks about collection {task.data['corpus']!r}, but this "
                f"environment searches {self.corpus_id!r}: create it with that collection"
            )
        yield SearchQAEnv(task, self._retriever, self._reward)

    async def aclose(self) -> None:
        """Close the connections of a remote retriever."""
        await self._retriever.aclose()


def create(
    *,
    reward: str = "exact_match",
    corpus: str | Path | None = None,
    questions: str | Path | None = None,
    retriever_url: str | None = None,
) -> SearchQA:
    """Make the environment; called by the registry.

    Without paths it is the bundled collection. `corpus` and `questions` are JSON-lines files
    of the user's own; `retriever_url` is a Search-R1 retrieval service in place of `corpus`.
    """
    if reward not in REWARDS:
        raise unknown_name("reward", reward, REWARDS)
    score = REWARDS[reward]
    if corpus is None and questions is None and retriever_url is None:
        return SearchQA(_bundled_retriever(), score, None)
    if questions is None or (corpus is None) == (retriever_url is None):
        raise ConfigError(
            "your own SearchQA data takes questions=FILE.jsonl together with either "
            "corpus=FILE.jsonl or retriever_url=http://HOST:PORT/retrieve"
        )
    if retriever_url is not None:
        from practicum.envs.text.searchqa.retriever_http import HttpRetriever

        service = UserData(Path(questions), SERVICE_CORPUS_ID)
        return SearchQA(HttpRetriever(retriever_url), score, service)
    assert corpus is not None
    own = UserData.with_corpus(Path(questions), Path(corpus))
    return SearchQA(Bm25Retriever(own.load_corpus), score, own)


@cache
def _bundled_retriever() -> Bm25Retriever:
    """One index per process, however many environments are made."""
    return Bm25Retriever(load_passages)
