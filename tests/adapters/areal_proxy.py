"""Starts AReaL's own proxy server with the scripted engine, and plays workflows through it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from practicum.core.sockets import listen

TESTS = Path(__file__).parents[1]
START_S = 300
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{{ part['text'] if part['type'] == 'text' else '[picture]' }}{% endfor %}{% endif %}"
    "{{ '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
"""That of the base model, for messages with pictures too."""


class Stage:
    """A proxy, the folder its engine reads and writes, and its address."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def script(self, answers: dict[str, Sequence[str]]) -> None:
        """Write what the engine will say, and forget what it said before."""
        (self.folder / "script.json").write_text(json.dumps(answers))
        (self.folder / "log.jsonl").unlink(missing_ok=True)

    def said(self) -> list[dict[str, Any]]:
        """What the engine was asked and said, in order."""
        path = self.folder / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_tokenizer(model: Path, folder: Path) -> Path:
    """The tokenizer of a model with a template that knows pictures."""
    place = folder / "tokenizer"
    place.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        shutil.copy(model / name, place)
    (place / "chat_template.jinja").write_text(TEMPLATE)
    return place


@contextmanager
def serving(folder: Path) -> Iterator[Stage]:
    """Serve AReaL's proxy from a process of its own, and end that."""
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-W", "ignore", "-m"),
        "areal.experimental.openai.proxy.proxy_rollout_server",
        *("--host", "127.0.0.1", "--port", str(port), "--role", "proxy", "--worker-index", "0"),
        *("--experiment-name", "test", "--trial-name", "test", "--nfs-record-root", str(folder)),
    ]
    paths = [str(TESTS), str(TESTS.parent / "src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **OFFLINE}
    with (folder / "proxy.txt").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=env, cwd=folder)
    try:
        url = f"http://127.0.0.1:{port}"
        _await_health(url, process, folder)
        _post(
            f"{url}/create_engine",
            {
                "engine": "adapters.areal_engine.ScriptedEngine",
                "init_kwargs": {"folder": str(folder)},
            },
        )
        _post(f"{url}/call", {"method": "initialize"})
        yield Stage(url, folder)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HF_HUB_OFFLINE": "1"}


def _await_health(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise RuntimeError(f"the proxy did not start: {(folder / 'proxy.txt').read_text()[-3000:]}")


def _post(url: str, body: Any) -> Any:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)
