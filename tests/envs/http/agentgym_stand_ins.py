"""Stand-ins for AgentGym's servers, which cannot be installed here.

Each speaks its server's HTTP as it was observed, mistakes included: ids from 0, errors at
200 or a 500 that drops the connection, sessions that cannot be closed or are handed out
twice, rewards that go on after the end. The game behind most of them is the same small one:
task number i is won by the action `win i`.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from practicum.envs.text.textcraft.env import TextCraftGame
from practicum.envs.text.textcraft.tasks import first_observation, make_task
from practicum.envs.text.textcraft.versions import load_world
from practicum.envs.text.textcraft.world import DEFAULT_WORLD


@dataclass
class Game:
    """One session on a server."""

    index: int | None = None
    score: float = 0.0
    is_done: bool = False
    steps: list[str] = field(default_factory=list)
    textcraft: TextCraftGame | None = None


class StandIn:
    """What the servers have in common: a table of games and a log."""

    env_id = ""
    path = ""
    session_key = "id"
    index_key = "data_idx"
    error_style = "body"

    def __init__(self) -> None:
        self.games: dict[int, Game] = {}
        self.calls: list[tuple[str, Any]] = []
        self.num_closed = 0
        self.delay_s = 0.0
        self.in_use: dict[int, int] = {}

    def app(self) -> web.Application:
        app = web.Application()
        for route in ("create", "reset", "step", *(("close",) if self.has_close else ())):
            app.router.add_post(f"{self.path}/{route}", self.handler(route))
        app.router.add_get(f"{self.path}/observation", self.handler("observation"))
        if hasattr(self, "list_envs"):
            app.router.add_get("/list_envs", self.handler("list_envs"))
        return app

    has_close = False

    def handler(self, route: str) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            content = await request.read()
            body = json.loads(content) if content else dict(request.query)
            self.calls.append((route, body))
            missing = [key for key in self.needs(route) if key not in body]
            if missing:
                return web.json_response({"detail": f"field required: {missing}"}, status=422)
            await asyncio.sleep(self.delay_s)
            try:
                return web.json_response(getattr(self, route)(body))
            except Exception as error:  # noqa: BLE001 - as those servers do
                if self.error_style == "body":
                    return web.json_response({"error": str(error)})
                return await drop(request)

        return handle

    def needs(self, route: str) -> tuple[str, ...]:
        return {
            "reset": (self.session_key, self.index_key),
            "step": (self.session_key, "action"),
            "close": (self.session_key,),
        }.get(route, ())

    def new_id(self) -> int:
        return len(self.games) + self.num_closed

    def create(self, body: dict[str, Any]) -> Any:
        session_id = self.new_id()
        self.games[session_id] = Game()
        return {"id": session_id}

    def game(self, body: dict[str, Any]) -> Game:
        session_id = int(body[self.session_key])
        if session_id not in self.games:
            raise ValueError(f"The id {session_id} is not valid.")
        return self.games[session_id]

    def reset(self, body: dict[str, Any]) -> Any:
        game = self.game(body)
        game.__init__(body[self.index_key])  # type: ignore[misc]
        return self.first(game, body)

    def first(self, game: Game, body: dict[str, Any]) -> Any:
        return {"observation": self.text(game)}

    def text(self, game: Game) -> str:
        return f"Task {game.index}. Say win {game.index}."

    def play(self, body: dict[str, Any]) -> tuple[Game, bool]:
        game = self.game(body)
        if game.index is None:
            raise KeyError(body[self.session_key])
        game.steps.append(body["action"])
        return game, body["action"] == f"win {game.index}"

    def step(self, body: dict[str, Any]) -> Any:
        _game, is_win = self.play(body)
        return {"observation": "You look.", "reward": float(is_win), "done": is_win}

    def observation(self, body: dict[str, Any]) -> Any:
        return self.text(self.game(body))

    def close(self, body: dict[str, Any]) -> Any:
        self.num_closed += 1
        return self.games.pop(int(body[self.session_key]), None) is not None


async def drop(request: web.Request) -> web.StreamResponse:
    """Answer 500 and hang up without a word of it, as uvicorn does."""
    response = web.Response(status=500, text="Internal Server Error")
    await response.prepare(request)
    await response.write_eof()
    assert request.transport is not None
    request.transport.close()
    return response


class TextCraft(StandIn):
    """Real games; goals in the order of this machine's directory, which `order` stands for."""

    env_id = "textcraft"
    has_close = True

    def __init__(self, order: int = 0, num_goals: int = 12) -> None:
        super().__init__()
        self.world = load_world(DEFAULT_WORLD)
        goals = sorted(self.world.goals)
        random.Random(order).shuffle(goals)
        self.goals = goals[:num_goals]
        self.lies = False

    def needs(self, route: str) -> tuple[str, ...]:
        return ("id",) if route == "reset" else super().needs(route)

    def create(self, body: dict[str, Any]) -> Any:
        session_id = super().create(body)["id"]
        # The task of a new session is whatever the counter says.
        return self.reset({"id": session_id, "data_idx": session_id})

    def reset(self, body: dict[str, Any]) -> Any:
        game = self.game(body)
        index = body.get("data_idx", 0) % len(self.goals)
        game.__init__(index)  # type: ignore[misc]
        goal = self.goals[index - 1 if self.lies else index]
        game.textcraft = TextCraftGame(self.world, goal)
        # Other distractors in another order than ours.
        text = first_observation(make_task(self.world, goal, variant=7))
        return {"id": body["id"], "observation": text, "done": False, "reward": 0}

    def step(self, body: dict[str, Any]) -> Any:
        game = self.game(body)
        assert game.textcraft is not None
        game.steps.append(body["action"])
        result = game.textcraft.step(body["action"])
        text, done = result.observation.text, result.is_done
        return {"observation": text, "reward": int(result.reward), "done": done}


class BabyAI(StandIn):
    """A win worth half or less does not end the episode, and can be had again."""

    env_id = "babyai"
    has_close = True
    worth = 0.4

    def text(self, game: Game) -> str:
        return f"Your goal: win {game.index}\nYou see nothing.\nAvailable actions: ['look']"

    def first(self, game: Game, body: dict[str, Any]) -> Any:
        text = self.text(game)
        return {"observation": text, "reward": 0, "score": 0, "deleted": False, "done": False}

    def step(self, body: dict[str, Any]) -> Any:
        game, is_win = self.play(body)
        if game.is_done:
            raise ValueError("The task has finished.")
        reward = self.worth if is_win else -0.125
        game.score += max(reward, 0)
        game.is_done = is_win and reward > 0.5
        return {"observation": "…", "reward": reward, "score": game.score, "done": game.is_done}


class SciWorld(StandIn):
    """A running score; `focus` on the wrong thing is -100; closing twice is a 500."""

    env_id = "sciworld"
    has_close = True
    blocks = (("boil", 1000), ("melt", 7), ("grow", 1), ("find", 3631))

    def __init__(self) -> None:
        super().__init__()
        self.names = [(name, place) for name, count in self.blocks for place in range(count)]

    def first(self, game: Game, body: dict[str, Any]) -> Any:
        name, place = self.names[game.index or 0]
        return {
            "task_name": name,
            "var_num": place,
            "task_description": f"Your task is to win {game.index}.",
            "observation": "This room is called the hallway.",
            "reward": 0,
            "score": 0,
            "deleted": False,
            "done": False,
        }

    def step(self, body: dict[str, Any]) -> Any:
        game, is_win = self.play(body)
        before = game.score
        if body["action"] == "focus":
            game.score, game.is_done = -100, True
        else:
            game.score = 100 if is_win else min(game.score + 7, 60)
            game.is_done = is_win
        reward = game.score - before
        return {"observation": "…", "reward": reward, "score": game.score, "done": game.is_done}

    def close(self, body: dict[str, Any]) -> Any:
        self.num_closed += 1
        del self.games[body["id"]]
        return True


class ALFWorld(StandIn):
    """No way to close; wants a world type; lists the actions beside the text."""

    env_id = "alfworld"
    index_key = "game"

    def needs(self, route: str) -> tuple[str, ...]:
        return (*super().needs(route), "world_type") if route == "reset" else super().needs(route)

    def text(self, game: Game) -> str:
        return f"You are in a room.\nYour task is to: win {game.index}."

    def first(self, game: Game, body: dict[str, Any]) -> Any:
        actions = ["look", f"win {game.index}"]
        return {
            "id": body["id"],
            "observation": self.text(game),
            "available_actions": actions,
            "task_type": "pick/trial",
        }

    def step(self, body: dict[str, Any]) -> Any:
        game, is_win = self.play(body)
        if game.is_done:
            raise NameError("The task with environment has finished.")
        game.is_done = is_win
        text = "You look." if body["action"] == "look" else "Nothing happens."
        actions = ["look", "win"]
        reward = float(is_win)
        return {
            "observation": text,
            "reward": reward,
            "available_actions": actions,
            "done": is_win,
        }


class Indexed(StandIn):
    """The second family: bare numbers, pairs and strings; 500 and a dropped connection."""

    session_key = "env_idx"
    error_style = "status"

    def create(self, body: dict[str, Any]) -> Any:
        return super().create(body)["id"]

    def list_envs(self, body: dict[str, Any]) -> Any:
        return list(self.games)


class WebShop(Indexed):
    env_id = "webshop"
    index_key = "session_id"

    def new_id(self) -> int:
        return random.randrange(48_950_076)

    def text(self, game: Game) -> str:
        return f"WebShop [SEP] Instruction: [SEP] win {game.index} [SEP] Search"

    def first(self, game: Game, body: dict[str, Any]) -> Any:
        return [self.text(game), None]

    def step(self, body: dict[str, Any]) -> Any:
        _game, is_win = self.play(body)
        reward = 1.0 if is_win else 0.25 if body["action"] == "buy" else 0.0
        done = is_win or body["action"] == "buy"
        return {"state": "page", "reward": reward, "done": done, "info": None}


class SQLGym(WebShop):
    """Eight slots; the ninth client is handed the first one's session. Gold leaks."""

    env_id = "sqlgym"
    index_key = "item_id"
    num_slots = 8

    def __init__(self) -> None:
        super().__init__()
        self.next_slot = -1

    def create(self, body: dict[str, Any]) -> Any:
        if len(self.games) == self.num_slots:
            self.next_slot = (self.next_slot + 1) % self.num_slots
            return list(self.games)[self.next_slot]
        return super().create(body)

    def text(self, game: Game) -> str:
        return f"There is a table.\nHow do you win {game.index}?"

    def step(self, body: dict[str, Any]) -> Any:
        _, is_win = self.play(body)
        info = {"ground_truth": "SELECT gold"}
        return {"state": "[(1,)]", "reward": float(is_win), "done": True, "info": info}


class SearchQA(Indexed):
    """A wrong answer does not end the episode there."""

    env_id = "searchqa"
    index_key = "id"
    has_close = True

    def needs(self, route: str) -> tuple[str, ...]:
        return ("id",) if route == "create" else super().needs(route)

    def text(self, game: Game) -> str:
        return f"Answer the given question.\nQuestion: how to win {game.index}?"

    def first(self, game: Game, body: dict[str, Any]) -> Any:
        return self.text(game)

    def step(self, body: dict[str, Any]) -> Any:
        game = self.game(body)
        game.steps.append(body["action"])
        is_win = body["action"] == f"<answer>win {game.index}</answer>"
        return {"observation": "…", "reward": float(is_win), "done": is_win, "info": None}


class Tool(Indexed):
    index_key = "id"

    def __init__(self, env_id: str) -> None:
        super().__init__()
        self.env_id = env_id

    def needs(self, route: str) -> tuple[str, ...]:
        return ("id",) if route == "create" else super().needs(route)

    def first(self, game: Game, body: dict[str, Any]) -> Any:
        return self.text(game)


class Maze(StandIn):
    env_id, path, index_key = "maze", "/maze", "game"


class Wordle(StandIn):
    env_id, path, index_key = "wordle", "/wordle", "seed"


class WebArena(Indexed):
    env_id = "webarena"
    index_key = "idx"
    has_close = True

    def needs(self, route: str) -> tuple[str, ...]:
        return (*super().needs(route), "seed") if route == "reset" else super().needs(route)

    def create(self, body: dict[str, Any]) -> Any:
        return {"env_idx": super().create(body)}

    def first(self, game: Game, body: dict[str, Any]) -> Any:
        return {"observation": self.text(game), "sites": [], "object": None}

    def step(self, body: dict[str, Any]) -> Any:
        _, is_win = self.play(body)
        return {
            "observation": "tree",
            "reward": float(is_win),
            "terminated": is_win,
            "truncated": False,
            "info": {},
        }


def every_stand_in() -> list[StandIn]:
    """One of each, but for TextCraft, whose tasks are real."""
    tools = [Tool(env_id) for env_id in ("weather", "movie", "todo", "academia", "sheet")]
    others = [BabyAI(), SciWorld(), ALFWorld(), WebShop(), SQLGym(), SearchQA()]
    return [*others, Maze(), Wordle(), *tools, WebArena()]


@asynccontextmanager
async def serving(app: web.Application, port: int = 0) -> AsyncIterator[str]:
    """Serve an application on a port of this machine."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port, reuse_address=True)
        await site.start()
        assert site._server is not None
        yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    finally:
        await runner.cleanup()
