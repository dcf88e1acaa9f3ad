"""Worker processes that end with the process that started them."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from threading import Thread


def spawned(count: int) -> ProcessPoolExecutor:
    """So many processes, none of them a fork: a copy of a process with threads or a GPU may hang.

    Ctrl-C goes to all processes of a terminal; what it ends is for the one that started them to
    decide. Killed, it leaves none of them behind.
    """
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_attach)


def _attach() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None, "a spawned process has a parent"
    Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
