"""Routes for files. All of them are read and written by the desktop's user, and so are bounded
by what that user may touch, whatever a path says.
"""

from __future__ import annotations

import posixpath
import shlex
from typing import Any

from aiohttp import web
from aiohttp.multipart import BodyPartReader

from practicum.core.errors import MachineError
from practicum.desktops.server.desk import (
    BadRequestError,
    Desk,
    answer,
    body_of,
    complain,
    text_in,
)

MAX_ENTRIES = 20_000
MAX_DEPTH = 32
LIST_TIMEOUT_S = 30.0
DOWNLOAD_TIMEOUT_S = 300.0
DOWNLOAD_ATTEMPTS = 3

_LIST = 'cd -- "$1" && find . -mindepth 1 -maxdepth "$2" -printf "%d %y %f\\0" | head -z -n "$3"'
_DOWNLOAD = """
import os, shutil, sys, urllib.request
url, path, timeout_s, attempts = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
for attempt in range(attempts):
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as reply:
            with open(path + ".part", "wb") as file:
                shutil.copyfileobj(reply, file)
        os.replace(path + ".part", path)
        sys.exit(0)
    except OSError as error:
        last = error
sys.exit(f"{type(last).__name__}: {last}")
"""


class FileRoutes:
    """`/file`, `/setup/upload` and the like."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[web.RouteDef]:
        """The routes."""
        return [
            web.post("/file", self._file),
            web.post("/list_directory", self._list_directory),
            web.post("/desktop_path", self._desktop_path),
            web.post("/wallpaper", self._wallpaper),
            web.post("/setup/upload", self._upload),
            web.post("/setup/download_file", self._download),
            web.post("/setup/change_wallpaper", self._change_wallpaper),
        ]

    async def _file(self, request: web.Request) -> web.Response:
        path = (await request.post()).get("file_path")
        if not isinstance(path, str) or not path:
            raise BadRequestError("the form field 'file_path' is required")
        try:
            data = await self._desk.computer.read_file(self._desk.expand(path))
        except FileNotFoundError:
            return complain("File not found", 404)
        except IsADirectoryError as error:
            return complain(str(error), 400)
        return web.Response(
            body=data,
            content_type="application/octet-stream",
            headers={"Content-Disposition": "attachment"},
        )

    async def _upload(self, request: web.Request) -> web.Response:
        if not request.content_type.startswith("multipart/"):
            raise BadRequestError("an upload is multipart, with 'file_path' and 'file_data'")
        limit = self._desk.terms.max_upload_bytes
        path: str | None = None
        data: bytes | None = None
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader) or part.name not in ("file_path", "file_data"):
                raise BadRequestError("an upload has 'file_path' and 'file_data', and no more")
            content = await _read(part, limit)
            if part.name == "file_path":
                path = content.decode("utf-8", "replace")
            else:
                data = content
        if not path or data is None:
            raise BadRequestError("'file_path' and 'file_data' are required")
        await self._desk.computer.write_file(self._desk.expand(path), data)
        return web.Response(text=f"File Uploaded: {len(data)} bytes")

    async def _download(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        url, path = text_in(body, "url"), self._desk.expand(text_in(body, "path"))
        if not url.startswith(("http://", "https://")):
            raise BadRequestError(f"cannot download {url}: only http and https")
        # From inside the desktop: it may have another network than the server, or none.
        done = await self._desk.computer.run(
            [
                "python3",
                "-c",
                _DOWNLOAD,
                url,
                path,
                str(DOWNLOAD_TIMEOUT_S),
                str(DOWNLOAD_ATTEMPTS),
            ],
            timeout_s=DOWNLOAD_TIMEOUT_S * DOWNLOAD_ATTEMPTS,
        )
        if done.exit_code != 0:
            return complain(f"Failed to download {url}. {done.error.strip()}", 500)
        return web.Response(text="File downloaded successfully")

    async def _list_directory(self, request: web.Request) -> web.Response:
        path = self._desk.expand(text_in(await body_of(request), "path"))
        done = await self._desk.computer.run(
            ["sh", "-c", _LIST, "sh", path, str(MAX_DEPTH), str(MAX_ENTRIES + 1)],
            timeout_s=LIST_TIMEOUT_S,
        )
        if done.exit_code != 0:
            return complain(f"The provided path is not a directory: {path}", 400)
        entries = [entry.split(" ", 2) for entry in done.output.split("\0") if entry]
        if len(entries) > MAX_ENTRIES:
            return complain(
                f"{path} holds more than {MAX_ENTRIES} files and folders: ask for one inside it",
                413,
            )
        return answer({"directory_tree": _tree(path, entries)})

    async def _desktop_path(self, _: web.Request) -> web.Response:
        path = posixpath.join(str(self._desk.computer.home), "Desktop")
        found = await self._desk.computer.run(["test", "-d", path], timeout_s=10)
        if found.exit_code != 0:
            return complain("Desktop path not found", 404)
        return answer({"desktop_path": path})

    async def _change_wallpaper(self, request: web.Request) -> web.Response:
        path = self._desk.expand(text_in(await body_of(request), "path"))
        computer = self._desk.computer
        if (await computer.run(["test", "-r", path], timeout_s=10)).exit_code != 0:
            return complain("File not found", 404)
        try:
            done = await computer.run(["feh", "--bg-scale", path], timeout_s=20)
        except MachineError as error:
            if error.kind != "spawn":
                raise
            return complain("a wallpaper needs feh: apt-get install feh", 501)
        if done.exit_code != 0:
            return complain(f"Failed to change wallpaper: {done.error.strip()}", 500)
        return web.Response(text="Wallpaper changed successfully")

    async def _wallpaper(self, _: web.Request) -> web.Response:
        # feh writes down what it shows, as a script whose last word is the picture.
        try:
            script = await self._desk.computer.read_file("~/.fehbg")
            path = shlex.split(script.decode("utf-8", "replace"), comments=True)[-1]
            picture = await self._desk.computer.read_file(path)
        except (FileNotFoundError, IndexError):
            return complain("no wallpaper was set", 404)
        return web.Response(body=picture, content_type="application/octet-stream")


async def _read(part: BodyPartReader, limit: int) -> bytes:
    content = bytearray()
    while chunk := await part.read_chunk(2**16):
        content += chunk
        if len(content) > limit:
            raise BadRequestError(f"an upload has at most {limit} bytes", 413)
    return bytes(content)


def _tree(path: str, entries: list[list[str]]) -> dict[str, Any]:
    """Make a tree of entries that come depth first, each with its depth, type and name."""
    root: dict[str, Any] = {
        "type": "directory",
        "name": posixpath.basename(path.rstrip("/")),
        "children": [],
    }
    above = [root]
    for depth, kind, name in entries:
        entry: dict[str, Any] = {"type": "file", "name": name}
        if kind == "d":
            entry = {"type": "directory", "name": name, "children": []}
        del above[int(depth) :]
        above[-1]["children"].append(entry)
        if kind == "d":
            above.append(entry)
    return root
