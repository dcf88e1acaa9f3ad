"""Desktops of a user who has no rights at all."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from pathlib import Path

import pytest
from desktops.machines import as_root, require_desktop

CODE = """
import asyncio, sys
from practicum.core.errors import MachineError
from practicum.desktops import xvfb

async def main():
    machine = getattr(xvfb, sys.argv[1])()
    try:
        await machine.start()
    except MachineError as error:
        print(f"refused by {error.kind}: {error}")
        return
    try:
        await machine.computer.launch("setsid nohup sleep 4716 >/dev/null 2>&1 &")
        await machine.computer.write_file("~/new", b"1")
        await machine.reset()
        result = await machine.computer.run("cat ~/new; pgrep -fx 'sleep 4716'; echo $?")
        picture = await machine.computer.screenshot()
        tree = await machine.computer.accessibility()
        print(result.output.strip(), picture.media_type, tree.role)
        await machine.computer.launch("setsid nohup sleep 4716 >/dev/null 2>&1 &")
    finally:
        await machine.stop()

asyncio.run(main())
"""


def as_nobody(*command: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(__file__).parents[2] / "src")
    path = os.pathsep.join([source, *site.getsitepackages()])
    return subprocess.run(
        [
            *("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"),
            *("env", "-i", "PATH=/usr/bin:/bin", f"PYTHONPATH={path}", *command),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        timeout=120,
    )


@as_root
@pytest.mark.parametrize("body", ["XvfbMachine", "NamespaceMachine"])
def test_a_user_without_rights_has_desktops_too(body: str) -> None:
    require_desktop("setpriv")
    for python in (sys.executable, "/usr/bin/python3"):
        if as_nobody(python, "-c", "import practicum.desktops.xvfb").returncode == 0:
            break
    else:
        pytest.skip("nobody may read this installation")
    done = as_nobody(python, "-c", CODE, body)
    assert done.returncode == 0, done.stderr
    if body == "NamespaceMachine" and done.stdout.startswith("refused by namespace"):
        pytest.skip(done.stdout)
    assert done.stdout.strip() == "1 image/png desktop frame"
    assert subprocess.run(["pgrep", "-fx", "sleep 4716"], check=False).returncode == 1
