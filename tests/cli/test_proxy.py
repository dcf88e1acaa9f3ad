"""`practicum proxy` as a user starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from practicum.cli.main import main


@contextmanager
def started(*arguments: str, **variables: str) -> Iterator[dict[str, Any]]:
    """A proxy in a process of its own, and what it said first."""
    process = subprocess.Popen(
        [sys.executable, "-m", "practicum", "proxy", *arguments, "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        assert said["pid"] == process.pid
        yield said
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stdout.read() == ""
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def post(url: str, body: Any, key: str) -> Any:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def test_a_proxy_serves_a_local_model_until_it_is_told_to_stop() -> None:
    key = "an-admin-key-in-a-variable"
    arguments = ["--upstream", "hf:craft-base", "--admin-key-env", "PROXY_KEY", "concurrency=1"]
    with started(*arguments, PROXY_KEY=key) as said:
        url = said["url"]
        assert url.startswith("http://127.0.0.1:")
        assert said["admin_key"] is None
        session = post(f"{url}/rl/start_session", {"task_id": "t"}, key)
        with openai.OpenAI(api_key=session["api_key"], base_url=f"{url}/v1") as client:
            assert [model.id for model in client.models.list()] == ["craft-base"]
            reply = client.chat.completions.create(
                model="any", messages=[{"role": "user", "content": "Go."}], max_tokens=4
            )
        assert reply.model == "craft-base"
        post(f"{url}/rl/set_reward", {"reward": 1}, session["api_key"])
        post(f"{url}/rl/end_session", {}, session["api_key"])
        export = {"session_id": session["session_id"], "style": "concat"}
        rows = post(f"{url}/export_trajectories", export, key)["interactions"]
        assert list(rows) == [reply.id]


def test_a_key_is_made_where_none_is_given() -> None:
    with started("--upstream", "openai:m@http://127.0.0.1:9/v1", "endpoint.attempts=1") as said:
        assert len(said["admin_key"]) == 43
        url, key = said["url"], said["admin_key"]
        session = post(f"{url}/rl/start_session", {"task_id": "t"}, key)
        hello = {"messages": [{"role": "user", "content": "Hello."}]}
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(f"{url}/v1/chat/completions", hello, session["api_key"])
        with caught.value as error:
            assert error.code == 502
            assert json.load(error)["error"]["code"] == "policy/unreachable"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--upstream", "expert"], "unknown upstream 'expert'"),
        (["--upstream", "openai:m"], "openai:MODEL@BASE_URL"),
        (["--upstream", "hf:nowhere"], "no model at nowhere"),
        (["--upstream", "hf:craft-base", "tokenizer=x"], "tokenizer: hf has its own"),
        (["--upstream", "openai:m@http://h/v1", "endpoint.seed=true"], "seeds that agents send"),
        (["--upstream", "hf:craft-base", "hf.max_contxt=9"], "did you mean 'max_context'"),
        (["--upstream", "hf:craft-base", "--admin-key-env", "ABSENT"], "ABSENT holds no token"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["proxy", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert complaint in err
    assert len(err.splitlines()) == 1
