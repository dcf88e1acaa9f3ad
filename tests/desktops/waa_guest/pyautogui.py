"""Stands in for pyautogui on a Windows machine: writes down what it is asked to do."""

import json
import os
from pathlib import Path

FAILSAFE = True
PAUSE = 0.1


def __getattr__(name):  # type: ignore[no-untyped-def]
    def call(*args, **kwargs):  # type: ignore[no-untyped-def]
        with Path(os.environ["WAA_GUEST"], "calls.jsonl").open("a") as file:
            file.write(json.dumps([name, args, kwargs]) + "\n")

    if name.startswith("__"):
        raise AttributeError(name)
    return call
