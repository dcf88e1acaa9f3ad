"""Routes that look: pictures, the accessibility tree, sizes, the pointer, recordings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from aiohttp import web

from practicum.desktops import tree_xml
from practicum.desktops.computer import Computer, Node, PictureFormat
from practicum.desktops.server.desk import BadRequestError, Desk, answer, complain
from practicum.desktops.server.stand_ins import StandIns

PLATFORM = "Linux"
FRAMES_PER_SECOND = 10
RECORDING_START_S = 5.0
RECORDING_END_S = 15.0

_KINDS: dict[str, PictureFormat] = {"png": "png", "jpeg": "jpeg"}


class ScreenRoutes:
    """`/screenshot`, `/accessibility` and the like."""

    def __init__(self, desk: Desk, stand_ins: StandIns) -> None:
        self._desk = desk
        self._stand_ins = stand_ins
        self._recording: tuple[Computer, str] | None = None
        """The computer that is recorded, and the folder it is recorded into."""

    def routes(self) -> list[web.RouteDef]:
        """The routes."""
        return [
            web.get("/screenshot", self._screenshot),
            web.get("/accessibility", self._accessibility),
            web.get("/terminal", self._terminal),
            web.get("/cursor_position", self._cursor_position),
            web.get("/platform", self._platform),
            web.post("/screen_size", self._screen_size),
            web.post("/window_size", self._window_size),
            web.post("/start_recording", self._start_recording),
            web.post("/end_recording", self._end_recording),
        ]

    async def _screenshot(self, request: web.Request) -> web.Response:
        kind = _KINDS.get(request.query.get("kind", "png"))
        cursor = request.query.get("cursor", "1")
        if kind is None or cursor not in ("0", "1"):
            raise BadRequestError("kind is png or jpeg, cursor is 0 or 1")
        image = await self._desk.computer.screenshot(kind, cursor=cursor == "1")
        return web.Response(body=image.data, content_type=image.media_type)

    async def _accessibility(self, _: web.Request) -> web.Response:
        tree = await self._stand_ins.tree(await self._desk.computer.accessibility())
        return answer({"AT": await asyncio.to_thread(tree_xml.write, tree)})

    async def _terminal(self, _: web.Request) -> web.Response:
        """What a terminal shows that has an accessibility tree; xterm has none."""
        terminals = [
            node
            for node in _walk(await self._desk.computer.accessibility())
            if node.role == "terminal" and "showing" in node.states
        ]
        focused = [node for node in terminals if "focused" in node.states]
        found = (focused or terminals)[:1]
        output = found[0].text.rstrip() if found else None
        return answer({"output": output, "status": "success"})

    async def _cursor_position(self, _: web.Request) -> web.Response:
        return answer(list(await self._desk.computer.pointer()))

    async def _platform(self, _: web.Request) -> web.Response:
        return web.Response(text=PLATFORM)

    async def _screen_size(self, _: web.Request) -> web.Response:
        screen = self._desk.computer.screen
        return answer({"width": screen.width, "height": screen.height})

    async def _window_size(self, request: web.Request) -> web.Response:
        name = (await request.post()).get("app_class_name")
        if not isinstance(name, str) or not name:
            raise BadRequestError("the form field 'app_class_name' is required")
        for window in reversed(await self._desk.computer.windows()):
            if name in (window.class_name, *window.class_name.rpartition(".")[::2]):
                return answer({"width": window.width, "height": window.height})
        return complain(f"there is no window of class {name!r}", 404)

    async def _start_recording(self, _: web.Request) -> web.Response:
        computer = self._desk.computer
        if self._folder_of(computer) is not None:
            return complain("Recording is already in progress.", 400)
        screen = computer.screen
        made = await computer.run(["mktemp", "-d"], timeout_s=10)
        folder = made.output.strip()
        if made.exit_code != 0 or not folder:
            return complain(f"no place for a recording: {made.error.strip()}", 500)
        found = await computer.run(["sh", "-c", "command -v ffmpeg"], timeout_s=10)
        if found.exit_code != 0:
            return complain("recording needs ffmpeg: apt-get install ffmpeg", 501)
        await computer.launch(
            "exec ffmpeg -nostdin -loglevel error -y -f x11grab -draw_mouse 1 "
            f"-framerate {FRAMES_PER_SECOND} -video_size {screen.width}x{screen.height} "
            '-i "$DISPLAY" -c:v libx264 -preset ultrafast -pix_fmt yuv420p '
            f"-vf 'pad=ceil(iw/2)*2:ceil(ih/2)*2' {folder}/screen.mp4 2>{folder}/log & "
            f"echo $! >{folder}/pid; wait"
        )
        begun = await computer.run(
            f"for _ in $(seq 100); do test -s {folder}/screen.mp4 && exit 0; "
            f"test -s {folder}/log && break; sleep 0.05; done; cat {folder}/log >&2; exit 1",
            timeout_s=RECORDING_START_S * 2,
        )
        if begun.exit_code != 0:
            return complain(f"Failed to start recording: {begun.error.strip()}", 500)
        self._recording = (computer, folder)
        return answer({"status": "success", "message": "Started recording."})

    async def _end_recording(self, _: web.Request) -> web.Response:
        computer = self._desk.computer
        folder, self._recording = self._folder_of(computer), None
        if folder is None:
            return complain("No recording in progress to stop.", 400)
        # ffmpeg writes the index of the film when it is interrupted, not when it is killed.
        await computer.run(
            f"p=$(cat {folder}/pid); kill -INT $p; "
            "for _ in $(seq 200); do kill -0 $p 2>/dev/null || exit 0; sleep 0.05; done; kill $p",
            timeout_s=RECORDING_END_S,
        )
        film = await computer.read_file(f"{folder}/screen.mp4")
        await computer.run(["rm", "-rf", "--", folder], timeout_s=10)
        return web.Response(body=film, content_type="video/mp4")

    def _folder_of(self, computer: Computer) -> str | None:
        """Where it is recorded into; a reset ends a recording."""
        if self._recording is None or self._recording[0] is not computer:
            return None
        return self._recording[1]


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk(child)
