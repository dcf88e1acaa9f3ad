"""Reading the tags of Search-R1 out of a text, in time linear in its length."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(/?)(search|answer)>")


def read_tags(text: str) -> list[tuple[str, str]]:
    """Find `<search>…</search>` and `<answer>…</answer>`: names with their contents.

    Tags inside a thought do not count, nor those in a thought that never ends.
    """
    spoken = _without_thoughts(text)
    last_end = {name: spoken.rfind(f"</{name}>") for name in ("search", "answer")}
    found: list[tuple[str, str]] = []
    is_open, name, start = False, "", 0
    for tag in _TAG.finditer(spoken):
        if is_open and tag[1] and tag[2] == name:
            found.append((name, spoken[start : tag.start()].strip()))
            is_open = False
        elif not is_open and not tag[1] and last_end[tag[2]] > tag.start():
            is_open, name, start = True, tag[2], tag.end()
    return found


def _without_thoughts(text: str) -> str:
    *closed, rest = text.split("</think>")
    spoken = [part.partition("<think>")[0] for part in closed]
    if closed and "<think>" not in closed[0]:
        spoken[0] = ""  # a chat template opened this thought in the prompt
    return "".join([*spoken, rest.partition("<think>")[0]])
