"""Worker processes of a parent that is interrupted, then killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

PARENT = """
import os, signal, time
from practicum.core.spawned import spawned

if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda *_: None)
    pool = spawned(1)
    worker = pool.submit(os.getpid).result()
    os.killpg(0, signal.SIGINT)
    print(worker == pool.submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""


def test_workers_outlive_ctrl_c_and_not_their_parent(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "parent.py"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "True\n"
    parent.send_signal(signal.SIGKILL)
    # The worker has the pipe too: it ends when both are gone.
    assert parent.communicate(timeout=60) == ("", None)
