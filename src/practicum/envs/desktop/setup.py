"""Brings a desktop into a task's first state. A step that does not work is an `EnvError`.

No step is ever skipped: an episode from another first state would be another task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from practicum.core.errors import EnvError, EpisodeError
from practicum.desktops.apps import get_app
from practicum.desktops.computer import Computer
from practicum.envs.desktop import spec
from practicum.envs.desktop.actions import Performed, RefusedError, read_action
from practicum.envs.desktop.observe import elements
from practicum.envs.desktop.targets import read_target
from practicum.envs.desktop.verdict import SETUP

POLL_S = 0.1


async def set_up(task: spec.TaskSpec, computer: Computer) -> None:
    """Carry out all set-up steps in order."""
    for number, step in enumerate(task.setup, start=1):
        try:
            await _DO[type(step)](step, computer)
        except EpisodeError:
            raise
        except (OSError, ValueError, RefusedError) as error:
            raise EnvError(f"set-up step {number} ({step.do}): {error}", kind=SETUP) from error
    await computer.settle()


async def _write(step: spec.WriteStep, computer: Computer) -> None:
    await computer.write_file(step.path, step.text.encode())


async def _run(step: spec.RunStep, computer: Computer) -> None:
    result = await computer.run(step.command, timeout_s=step.timeout_s)
    if result.exit_code != 0:
        raise EnvError(
            f"the set-up command {step.command!r} ended with {result.exit_code}: "
            f"{(result.error or result.output).strip()[:300]}",
            kind=SETUP,
        )


async def _launch(step: spec.LaunchStep, computer: Computer) -> None:
    if step.command is not None:
        command = step.command
    else:
        assert step.app is not None
        home = str(computer.home)
        files = [a.replace("~", home, 1) if a.startswith("~") else a for a in step.arguments]
        command = get_app(step.app).argv(*(a.replace("file://~", f"file://{home}") for a in files))
    await computer.launch(command)
    await wait_for_window(computer, step.window, step.timeout_s)


async def wait_for_window(computer: Computer, title: str, timeout_s: float) -> None:
    """Wait until a window whose title holds a text is there and has the keyboard."""

    async def is_there() -> bool:
        found = [w for w in await computer.windows() if title in w.title]
        if found and not found[-1].is_active:
            await computer.activate_window(found[-1].id)
            return False
        return bool(found)

    await wait_until(is_there, timeout_s, f"no window with {title!r} in its title is active")


async def _await(step: spec.AwaitStep, computer: Computer) -> None:
    wanted = read_target(step.shows)

    async def is_there() -> bool:
        shown = elements(await computer.accessibility(), computer.screen)
        return any(e.role == wanted.role and wanted.fits(e.name) for e in shown)

    await wait_until(is_there, step.timeout_s, f"no {step.shows} is shown")


async def wait_until(
    is_so: Callable[[], Awaitable[bool]], timeout_s: float, otherwise: str
) -> None:
    """Ask again and again, within a limit; what does not come about is a set-up error."""
    deadline = time.monotonic() + timeout_s
    while not await is_so():
        if time.monotonic() > deadline:
            raise EnvError(f"{otherwise} after {timeout_s:g} s", kind=SETUP)
        await asyncio.sleep(POLL_S)


async def _clipboard(step: spec.ClipboardStep, computer: Computer) -> None:
    await computer.set_clipboard(step.text)


async def _act(step: spec.ActStep, computer: Computer) -> None:
    meaning = read_action(step.action, "pixels", computer.screen)
    if not isinstance(meaning, Performed):
        raise ValueError(f"{step.action!r} is nothing to do")
    await computer.perform(meaning.inputs)
    await computer.settle()


_DO: dict[type, Callable[[Any, Computer], Awaitable[None]]] = {
    spec.WriteStep: _write,
    spec.RunStep: _run,
    spec.LaunchStep: _launch,
    spec.AwaitStep: _await,
    spec.ClipboardStep: _clipboard,
    spec.ActStep: _act,
}
