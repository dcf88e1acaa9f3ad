"""ScienceWorld's own engine in a Java process: many worlds side by side, steps in order.

The engine was made for one world per process. What changes during play and is not part of
a world lies in four singletons: the random generator, the counter of object ids, the list
of simplifications and the path finder's memory. Here every world has its own four objects,
and they are put in the singletons' place before anything is done in that world, so worlds
cannot disturb each other. The engine also lists things in the order of their identity
hashes, which differ from run to run. Java is told to give every object the same hash, and
the order becomes that of insertion. That doubles the cost of a step, and it is what makes
one task one text.

`tests/envs/text/sciworld` holds the engine to this: one transcript per task, whatever
else goes on in the process. Importing this module needs `py4j` and `scienceworld`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from practicum.core.errors import ConfigError, EnvError
from practicum.envs.text.sciworld.jvm import Jvm
from practicum.envs.text.sciworld.tasks import INSTALL

PINNED_JAR_SHA256 = "f4e1fdce0cdabe1bab7128a7e78ea820210d9db3c28d7272bcbbc3f3a1c5f0d7"
"""Of `scienceworld.jar` in scienceworld 1.2.3; the shipped panels stand on it."""

HEAP_MB = 320
"""Most that the worlds of one process may take; one takes a third of a megabyte."""
MAX_WORLDS = 256
"""In one process; keeps the heap half empty."""

NOT_UNDERSTOOD = "No known action matches that input."

_SINGLETONS = (
    "scala.util.Random$",
    "util.UniqueIdentifier$",
    "main.scala.scienceworld.runtime.SimplifierProcessor$",
    # Remembers ways through the house that it drew at random; only gold paths need it.
    "scienceworld.goldagent.PathFinder$",
)


@dataclass(frozen=True, slots=True)
class Spec:
    """Which world: one variation of one task, made easier or not."""

    task: str
    variation: int
    simplifications: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """The engine's answer to one input."""

    text: str
    score: int
    """0 to 100 so far, or -100: something was done that rules the goal out."""
    is_completed: bool


@dataclass(eq=False)
class World:
    """One episode's world in an `Engine`: handles on Java objects, nothing else."""

    spec: Spec
    singletons: list[Any] = field(default_factory=list)
    agent: Any = None
    """The engine's interface for the player, once loaded."""
    description: str = ""
    """The task in words."""


class Engine:
    """One Java process with ScienceWorld in it. Use from one event loop."""

    def __init__(self, *, heap_mb: int = HEAP_MB) -> None:
        self.jvm = Jvm(
            engine_jar(),
            options=(
                f"-Xmx{heap_mb}m",
                "-Xss8m",
                "-XX:+UseSerialGC",
                "-XX:+ExitOnOutOfMemoryError",
                "-XX:+UnlockExperimentalVMOptions",
                "-XX:hashCode=2",
            ),
        )
        self.num_worlds = 0
        self._parts: _Parts | None = None
        # Only the process's thread reads and writes it.
        self._active: World | None = None

    def reserve(self, spec: Spec) -> World:
        """Make room for a world; every one reserved must be released."""
        self.num_worlds += 1
        return World(spec)

    def release(self, world: World) -> None:
        """Let go of a world, loaded or not."""
        self.num_worlds -= 1
        self.jvm.post(lambda gateway: self._drop(gateway, world))

    async def load(self, world: World) -> None:
        """Build the world, as it is before the first action."""
        await self.jvm.run(lambda gateway: self._load(gateway, world))

    async def step(self, world: World, text: str) -> Reply:
        """Do what a player typed."""
        return await self.jvm.run(lambda gateway: self._step(gateway, world, text))

    async def valid_actions(self, world: World) -> list[str]:
        """List every action that can be done now: slow."""
        return sorted(await self._list(world, "getValidActionObjectCombinations"))

    async def action_forms(self, world: World) -> list[str]:
        """List the forms an action can have, such as `open OBJ`."""
        return await self._list(world, "getPossibleActions")

    async def object_names(self, world: World) -> list[str]:
        """List the names under which things in sight can be spoken of."""
        return await self._list(world, "getPossibleObjects")

    async def _list(self, world: World, method: str) -> list[str]:
        joined = await self.jvm.run(lambda gateway: self._joined(gateway, world, method))
        return joined.split("\n")

    async def gold_path(self, spec: Spec) -> list[str]:
        """Let the engine solve a task; empty if it knows no way."""

        def work(gateway: Any) -> str:
            parts = self._prepare(gateway)
            self._active = None
            singletons = parts.new_singletons()
            parts.loader.load(spec.task, spec.variation, spec.simplifications, True)
            path = parts.loader.getGoldActionSequence()
            joined = str(gateway.jvm.java.lang.String.join("\n", path))
            for handle in (*singletons, path):
                gateway.detach(handle)
            return joined

        joined = await self.jvm.run(work)
        return joined.split("\n") if joined else []

    async def variations(self, task: str) -> dict[str, list[int]]:
        """The engine's own division of a task's variations."""

        def work(gateway: Any) -> dict[str, list[int]]:
            loader = self._prepare(gateway).loader
            self._active = None
            loader.load(task, 0, "", False)
            return {
                "train": list(loader.getVariationsTrain()),
                "dev": list(loader.getVariationsDev()),
                "test": list(loader.getVariationsTest()),
            }

        return await self.jvm.run(work)

    async def stop(self) -> None:
        """End the process; idempotent."""
        await self.jvm.stop()

    def _prepare(self, gateway: Any) -> _Parts:
        if self._parts is None:
            self._parts = _Parts(gateway)
        return self._parts

    def _load(self, gateway: Any, world: World) -> None:
        parts = self._prepare(gateway)
        spec = world.spec
        world.singletons = parts.new_singletons()
        self._active = world
        try:
            problem = parts.loader.load(spec.task, spec.variation, spec.simplifications, False)
        except Py4JJavaError as error:
            raise EnvError(
                f"ScienceWorld cannot load {spec}: {_brief(error)}", kind="engine"
            ) from error
        if problem:
            raise EnvError(f"ScienceWorld has no {spec}: {problem}", kind="no-such-task")
        option = parts.loader.agentInterface()
        world.agent = option.get()
        gateway.detach(option)
        world.description = world.agent.getTaskDescription()

    def _step(self, gateway: Any, world: World, text: str) -> Reply:
        self._activate(world)
        try:
            pair = world.agent.step(text)
        except Py4JJavaError as error:
            raise EnvError(
                f"ScienceWorld broke on {text!r}: {_brief(error)}", kind="engine"
            ) from error
        # Written out as `(text,score,completed)` in one call, instead of asked for in three.
        said, score, completed = pair.toString()[1:-1].rsplit(",", 2)
        gateway.detach(pair)
        reply = Reply(said, round(100 * float(score)), completed == "true")
        if reply.score < 0 and world.agent.isInErrorState():
            message = world.agent.getErrorStateMessage()
            raise EnvError(f"ScienceWorld broke before {text!r}: {message}", kind="engine")
        return reply

    def _joined(self, gateway: Any, world: World, method: str) -> str:
        self._activate(world)
        # Finding names for objects may draw random numbers, and the world must not notice.
        parts = self._prepare(gateway)
        spare = parts.makers[0].newInstance(parts.no_arguments)
        parts.seats[0].set(None, spare)
        spare.setSeed(0)
        try:
            array = getattr(world.agent, method)()
            joined = parts.join(gateway, array)
            gateway.detach(array)
        finally:
            parts.seats[0].set(None, world.singletons[0])
            gateway.detach(spare)
        return joined

    def _activate(self, world: World) -> None:
        if self._active is world:
            return
        assert self._parts is not None
        for seat, occupant in zip(self._parts.seats, world.singletons, strict=True):
            seat.set(None, occupant)
        self._active = world

    def _drop(self, gateway: Any, world: World) -> None:
        if self._active is world:
            self._active = None
        for handle in (*world.singletons, world.agent):
            if handle is not None:
                gateway.detach(handle)


class _Parts:
    """What an engine needs from a fresh process: its loader and its singletons' seats."""

    def __init__(self, gateway: Any) -> None:
        java = gateway.jvm.java
        self.no_arguments = gateway.new_array(java.lang.Object, 0)
        if java.lang.System.identityHashCode(self.no_arguments) != 1:
            raise ConfigError(
                "this Java gives objects hashes of its own choice, and ScienceWorld would "
                "list things in another order each time: use OpenJDK's HotSpot"
            )
        self.loader = gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
        self.seats = []
        self.makers = []
        for name in _SINGLETONS:
            scala_object = java.lang.Class.forName(name)
            self.seats.append(scala_object.getField("MODULE$"))
            maker = scala_object.getDeclaredConstructor(gateway.new_array(java.lang.Class, 0))
            maker.setAccessible(True)
            self.makers.append(maker)

        # py4j finds no method that takes an array of strings as one of objects.
        classes = gateway.new_array(java.lang.Class, 1)
        classes[0] = java.lang.Class.forName("[Ljava.lang.Object;")
        self._as_list = java.lang.Class.forName("java.util.Arrays").getMethod("asList", classes)

    def join(self, gateway: Any, array: Any) -> str:
        """Write an array of strings as lines, in a few calls instead of one per string."""
        arguments = gateway.new_array(gateway.jvm.java.lang.Object, 1)
        arguments[0] = array
        listed = self._as_list.invoke(None, arguments)
        joined = str(gateway.jvm.java.lang.String.join("\n", listed))
        for handle in (arguments, listed):
            gateway.detach(handle)
        return joined

    def new_singletons(self) -> list[Any]:
        """Make new ones; making one also seats it."""
        return [maker.newInstance(self.no_arguments) for maker in self.makers]


def _brief(error: Py4JJavaError) -> str:
    """The Java exception without its stack."""
    return str(error).split("\n\tat ", 1)[0].replace("\n", " ")


@cache
def engine_jar() -> Path:
    """Find the engine in the `scienceworld` package and refuse any other content."""
    spec = find_spec("scienceworld")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"ScienceWorld is not installed: {INSTALL}")
    jar = Path(spec.submodule_search_locations[0]) / "scienceworld.jar"
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    if digest != PINNED_JAR_SHA256:
        raise ConfigError(
            f"{jar} is not that of scienceworld 1.2.3 (sha256 {digest[:12]}…): "
            "pip install --force-reinstall scienceworld==1.2.3"
        )
    return jar
