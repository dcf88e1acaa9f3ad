"""Routes that run commands, and the pyautogui code that clients wrap in them.

Commands run as the desktop's user in the desktop's surroundings. A `python -c` command that
uses pyautogui is never run: it is read (`practicum.desktops.dialect`) and done in-process, and
what cannot be read is answered as Python answers an error, with exit code 1 and a message.
"""

from __future__ import annotations

import asyncio
import shlex
from typing import Any

from aiohttp import web

from practicum.core.errors import MachineError
from practicum.desktops import dialect
from practicum.desktops.computer import CommandResult
from practicum.desktops.dialect import DialectError, Plan, PointerNeededError
from practicum.desktops.server.desk import (
    BadRequestError,
    Desk,
    answer,
    body_of,
    flag_in,
    seconds_in,
    text_in,
)
from practicum.desktops.server.stand_ins import StandIns

EXECUTE_TIMEOUT_S = 120.0
PYTHON_TIMEOUT_S = 30.0
BASH_TIMEOUT_S = 100.0
LONGEST_S = 600.0
MAX_SCRIPT_BYTES = 100_000
"""A single argument of a program holds 128 KiB."""


class CommandRoutes:
    """`/execute` and its kin."""

    def __init__(self, desk: Desk, stand_ins: StandIns) -> None:
        self._desk = desk
        self._stand_ins = stand_ins

    def routes(self) -> list[web.RouteDef]:
        """The routes."""
        return [
            web.post("/execute", self._execute),
            web.post("/setup/execute", self._execute),
            web.post("/execute_with_verification", self._verify),
            web.post("/setup/execute_with_verification", self._verify),
            web.post("/setup/launch", self._launch),
            web.post("/run_python", self._run_python),
            web.post("/run_bash_script", self._run_bash),
        ]

    async def _execute(self, request: web.Request) -> web.Response:
        result = await self._carry_out(await body_of(request))
        return answer({"status": "success", **_fields(result)})

    async def _verify(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        verification = body.get("verification") or {}
        if not isinstance(verification, dict):
            raise BadRequestError("'verification' is an object")
        if unknown := set(verification) - {"window_exists", "command_success"}:
            raise BadRequestError(f"cannot verify {', '.join(sorted(unknown))}")
        most_s = seconds_in(body, "max_wait_time", 10, LONGEST_S)
        every_s = max(0.05, seconds_in(body, "check_interval", 1, LONGEST_S))
        result = await self._carry_out(body)
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        while not await self._holds(verification):
            if loop.time() - start_s + every_s > most_s:
                return answer(
                    {
                        "status": "verification_failed",
                        "message": f"not verified within {most_s:g} s: {verification}",
                        **_fields(result),
                        "verification": "failed",
                        "wait_time": loop.time() - start_s,
                    },
                    500,
                )
            await asyncio.sleep(every_s)
        return answer(
            {
                "status": "success",
                **_fields(result),
                "verification": "passed",
                "wait_time": loop.time() - start_s,
            }
        )

    async def _holds(self, verification: dict[str, Any]) -> bool:
        computer = self._desk.computer
        if title := verification.get("window_exists"):
            wanted = str(title).lower()
            if not any(wanted in window.title.lower() for window in await computer.windows()):
                return False
        if command := verification.get("command_success"):
            done = await computer.run(str(command), timeout_s=PYTHON_TIMEOUT_S)
            return done.exit_code == 0
        return True

    async def _launch(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        command = await self._stand_ins.command(self._command(body))
        await self._desk.computer.launch(command)
        shown = command if isinstance(command, str) else " ".join(command)
        return web.Response(text=f"{shown} launched successfully")

    async def _run_python(self, request: web.Request) -> web.Response:
        code = text_in(await body_of(request), "code")
        if len(code.encode()) > MAX_SCRIPT_BYTES:
            raise BadRequestError(f"the code is longer than {MAX_SCRIPT_BYTES} bytes", 413)
        done = await self._desk.computer.run(["python3", "-c", code], timeout_s=PYTHON_TIMEOUT_S)
        is_fine = done.exit_code == 0
        return answer(
            {
                "status": "success" if is_fine else "error",
                "message": "Code executed successfully" if is_fine else done.error,
                "need_more": False,
                "output": done.output,
                "error": done.error,
                "return_code": done.exit_code,
            }
        )

    async def _run_bash(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        script = text_in(body, "script")
        if len(script.encode()) > MAX_SCRIPT_BYTES:
            raise BadRequestError(f"the script is longer than {MAX_SCRIPT_BYTES} bytes", 413)
        folder = body.get("working_dir")
        if folder is not None and not isinstance(folder, str):
            raise BadRequestError("'working_dir' is a path")
        timeout_s = seconds_in(body, "timeout", BASH_TIMEOUT_S, LONGEST_S)
        try:
            done = await self._desk.computer.run(
                ["bash", "-c", f"exec 2>&1\n{script}"],
                timeout_s=timeout_s,
                cwd=self._desk.expand(folder) if folder else None,
            )
        except MachineError as error:
            if error.kind != "timeout":
                raise
            said = f"Script execution timed out after {timeout_s:g} seconds"
            done = CommandResult(-1, said, "")
        return answer(
            {
                "status": "success" if done.exit_code == 0 else "error",
                "output": done.output,
                "error": "",
                "returncode": done.exit_code,
            }
        )

    async def _carry_out(self, body: dict[str, Any]) -> CommandResult:
        command = self._command(body)
        code = dialect.code_of(command)
        if code is not None:
            done = await self._act(code)
            if done is not None:
                return done
            # A program that was only given the usual beginning, as evaluators of OSWorld do.
            command = ["python3", "-c", f"import time\n{code}"]
        command = await self._stand_ins.command(command)
        return await self._desk.computer.run(command, timeout_s=EXECUTE_TIMEOUT_S)

    async def _act(self, code: str) -> CommandResult | None:
        """Do what pyautogui code says; None if it is other code."""
        computer = self._desk.computer
        async with self._desk.hand:
            try:
                plan = await self._read(code)
                await dialect.perform(plan, computer)
            except ValueError as error:
                if isinstance(error, DialectError) and "pyautogui" not in code:
                    return None
                return CommandResult(1, "", f"{error}\n")
        return CommandResult(0, plan.output, "")

    async def _read(self, code: str) -> Plan:
        computer = self._desk.computer
        try:
            return dialect.read(code, computer.screen, None, can_copy=True)
        except PointerNeededError:
            # Rarely, so it is not asked for beforehand: that would take as long as the action.
            pointer = await computer.pointer()
            return dialect.read(code, computer.screen, pointer, can_copy=True)

    def _command(self, body: dict[str, Any]) -> list[str] | str:
        """What to run, as Python's subprocess would understand `command` and `shell`."""
        command, has_shell = body.get("command"), flag_in(body, "shell")
        if not command:
            raise BadRequestError("'command' is required: a text or a list of texts")
        if isinstance(command, str):
            if has_shell:
                return command
            try:
                command = shlex.split(command)
            except ValueError as error:
                raise BadRequestError(f"'command': {error}") from error
        if not isinstance(command, list) or not all(isinstance(part, str) for part in command):
            raise BadRequestError("'command' is a text or a list of texts")
        command = [self._desk.expand(part) if part[:2] == "~/" else part for part in command]
        return ["/bin/sh", "-c", *command] if has_shell else command


def _fields(result: CommandResult) -> dict[str, Any]:
    return {"output": result.output, "error": result.error, "returncode": result.exit_code}
