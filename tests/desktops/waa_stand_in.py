"""Stands in for Windows Agent Arena's server, which runs on a Windows machine we have not here.

Routes, replies and quirks are those of its server; what is behind them is a folder, Python, and a
`pyautogui` that writes down what it is asked to do (`waa_guest`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PureWindowsPath
from typing import Any

from aiohttp import web
from PIL import Image as Picture

GUEST = Path(__file__).with_name("waa_guest")
HOME = PureWindowsPath(r"C:\Users\Docker")
COMMAND_S = 120
TREE = (
    '<desktop xmlns:st="uri:deskat:state.at-spi.gnome.org" '
    'xmlns:cp="uri:deskat:component.at-spi.gnome.org"><window name="Notepad" st:visible="true" '
    'cp:screencoord="(10, 20)" cp:size="(300, 200)"/></desktop>'
)


class WindowsStandIn:
    """A Windows machine made of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.copied = ""
        self.launched: list[Any] = []
        self.requests: list[str] = []

    def place(self, path: str) -> Path:
        """Where a path of Windows is in the folder."""
        plain = PureWindowsPath(path)
        return self.folder.joinpath(*plain.parts[1:] if plain.drive else plain.parts)

    @property
    def calls(self) -> list[list[Any]]:
        """What pyautogui was asked to do."""
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def build(self) -> web.Application:
        """Its server."""
        app = web.Application(middlewares=[self._note])
        app.add_routes(
            [
                web.get("/probe", self._probe),
                web.get("/screenshot", self._screenshot),
                web.get("/accessibility", self._accessibility),
                web.get("/platform", self._platform),
                web.get("/cursor_position", self._cursor_position),
                web.get("/terminal", self._fail),
                web.get("/obs_winagent", self._obs_winagent),
                web.post("/execute", self._execute),
                web.post("/setup/execute", self._execute),
                web.post("/execute_windows", self._execute_windows),
                web.post("/update_computer", self._update_computer),
                web.post("/screen_size", self._screen_size),
                web.post("/desktop_path", self._desktop_path),
                web.post("/documents_path", self._documents_path),
                web.post("/file", self._file),
                web.post("/file_exists", self._file_exists),
                web.post("/folder_exists", self._file_exists),
                web.post("/setup/upload", self._upload),
                web.post("/setup/launch", self._launch),
                web.post("/setup/create_folder", self._create_folder),
                web.post("/setup/create_file", self._create_file),
                web.post("/setup/close_all", self._done),
                web.post("/setup/clear_task_files", self._clear),
                web.post("/save_state", self._fail),
                web.post("/revert_to_snapshot", self._no_snapshot),
            ]
        )
        return app

    @web.middleware
    async def _note(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        response: web.StreamResponse = await handler(request)
        return response

    async def _probe(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"status": "Probe successful", "message": "Service is operational"}
        )

    async def _screenshot(self, _: web.Request) -> web.Response:
        data = io.BytesIO()
        Picture.new("RGB", (1280, 720)).save(data, "png")
        return web.Response(body=data.getvalue(), content_type="image/png")

    async def _accessibility(self, request: web.Request) -> web.Response:
        backend = request.query.get("backend", "win32")
        return web.json_response({"AT": TREE if backend == "uia" else "<desktop/>"})

    async def _platform(self, _: web.Request) -> web.Response:
        return web.Response(text="Windows")

    async def _cursor_position(self, _: web.Request) -> web.Response:
        moves = [args for name, args, _ in self.calls if name == "moveTo"]
        return web.json_response(moves[-1] if moves else [0, 0])

    async def _screen_size(self, _: web.Request) -> web.Response:
        return web.json_response({"width": 1280, "height": 720})

    async def _desktop_path(self, _: web.Request) -> web.Response:
        return web.json_response({"desktop_path": str(HOME / "Desktop")})

    async def _documents_path(self, _: web.Request) -> web.Response:
        return web.json_response({"documents_path": str(HOME / "Documents")})

    async def _execute(self, request: web.Request) -> web.Response:
        body = await request.json()
        command, has_shell = body["command"], body.get("shell", False)
        if isinstance(command, str):
            # The quirk: POSIX rules on Windows, which eat backslashes.
            command = ["sh", "-c", command] if has_shell else shlex.split(command)
        if "expanduser" in command[-1]:
            return _said(0, f"{HOME}\r\n")
        if command[0] == "powershell":
            return self._powershell(command[-1])
        if command[0] == "python":
            command[0] = sys.executable
        try:
            code, output, error = await self._run(command)
        except (OSError, TimeoutError) as problem:
            return web.json_response({"status": "error", "message": str(problem)}, status=500)
        return _said(code, output, error)

    async def _run(self, command: list[str]) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(GUEST), "WAA_GUEST": str(self.folder)},
        )
        async with asyncio.timeout(COMMAND_S):
            output, error = await process.communicate()
        return process.returncode or 0, output.decode(), error.decode()

    def _powershell(self, script: str) -> web.Response:
        if script.startswith("Get-Clipboard"):
            return _said(0, f"{self.copied}\r\n")
        found = re.search(r"FromBase64String\('(.*?)'\)", script)
        if not script.startswith("Set-Clipboard") or not found:
            return _said(1, "", f"unknown to the stand-in: {script}")
        self.copied = base64.b64decode(found[1]).decode()
        return _said(0, "")

    async def _execute_windows(self, request: web.Request) -> web.Response:
        source = (await request.json())["command"]
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                exec(source, {"computer": self, "human": None})
        except Exception as error:  # noqa: BLE001 - whatever it raises is answered
            return web.json_response({"status": "error", "message": str(error)}, status=500)
        # The quirk: the word is enough, and what was printed is not told.
        if "error" in said.getvalue().lower():
            return web.json_response({"status": "error", "message": said.getvalue()}, status=500)
        return web.json_response({"status": "success"})

    async def _update_computer(self, request: web.Request) -> web.Response:
        await request.json()
        return web.json_response({"success": True})

    async def _obs_winagent(self, _: web.Request) -> web.Response:
        return web.json_response({"window_title": "Notepad", "computer_clipboard": self.copied})

    async def _file(self, request: web.Request) -> web.Response:
        path = (await request.post()).get("file_path")
        if not isinstance(path, str):
            return web.json_response({"error": "file_path is required"}, status=400)
        place = self.place(path)
        if not place.is_file():
            return web.json_response({"error": "File not found"}, status=404)
        return web.Response(body=place.read_bytes())

    async def _file_exists(self, request: web.Request) -> web.Response:
        body = await request.json()
        is_there = self.place(body.get("path", "")).exists()
        return web.json_response({"exists": is_there}, status=200 if is_there else 400)

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        path, data = form["file_path"], form["file_data"]
        assert isinstance(path, str) and isinstance(data, web.FileField)
        place = self.place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.file.read())
        return web.Response(text="File Uploaded")

    async def _launch(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.launched.append(body["command"])
        return web.Response(text=f"{body['command']} launched successfully")

    async def _create_folder(self, request: web.Request) -> web.Response:
        self.place((await request.json())["path"]).mkdir(parents=True, exist_ok=True)
        return web.Response(text="Folder created successfully")

    async def _create_file(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.place(body["path"]).write_text(body.get("content", ""))
        return web.Response(text="File created successfully")

    async def _clear(self, _: web.Request) -> web.Response:
        for path in self.place(str(HOME / "Downloads")).glob("*"):
            path.unlink()
        return web.Response(text="Task files cleared")

    async def _done(self, _: web.Request) -> web.Response:
        return web.Response(text="All windows closed successfully.")

    async def _no_snapshot(self, _: web.Request) -> web.Response:
        return web.Response(status=501)

    async def _fail(self, _: web.Request) -> web.Response:
        return web.Response(status=500, text="<html>500</html>", content_type="text/html")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve it; gives the URL."""
        runner = web.AppRunner(self.build())
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


def _said(code: int, output: str, error: str = "") -> web.Response:
    return web.json_response(
        {"status": "success", "output": output, "error": error, "returncode": code}
    )
