"""Keys by pyautogui's names, and characters, as X keysyms."""

from __future__ import annotations

_NAMED = {
    "\t": "tab",
    "\n": "enter",
    "\r": "enter",
    " ": "space",
    "return": "enter",
    "esc": "escape",
    "del": "delete",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "ctrl": "ctrlleft",
    "control": "ctrlleft",
    "shift": "shiftleft",
    "alt": "altleft",
    "option": "altleft",
    "optionleft": "altleft",
    "optionright": "altright",
    "win": "winleft",
    "super": "winleft",
    "meta": "winleft",
    "command": "winleft",
    "print": "printscreen",
    "prntscrn": "printscreen",
    "prtsc": "printscreen",
    "prtscr": "printscreen",
}

_KEYSYMS = {
    "tab": 0xFF09,
    "enter": 0xFF0D,
    "space": 0x20,
    "backspace": 0xFF08,
    "escape": 0xFF1B,
    "delete": 0xFFFF,
    "insert": 0xFF63,
    "home": 0xFF50,
    "end": 0xFF57,
    "left": 0xFF51,
    "up": 0xFF52,
    "right": 0xFF53,
    "down": 0xFF54,
    "pageup": 0xFF55,
    "pagedown": 0xFF56,
    "shiftleft": 0xFFE1,
    "shiftright": 0xFFE2,
    "ctrlleft": 0xFFE3,
    "ctrlright": 0xFFE4,
    "altleft": 0xFFE9,
    "altright": 0xFFEA,
    "winleft": 0xFFEB,
    "winright": 0xFFEC,
    "apps": 0xFF67,
    "capslock": 0xFFE5,
    "numlock": 0xFF7F,
    "scrolllock": 0xFF14,
    "printscreen": 0xFF61,
    "pause": 0xFF13,
    "help": 0xFF6A,
    "clear": 0xFF0B,
    "select": 0xFF60,
    "execute": 0xFF62,
    "add": 0xFFAB,
    "subtract": 0xFFAD,
    "multiply": 0xFFAA,
    "divide": 0xFFAF,
    "decimal": 0xFFAE,
    "separator": 0xFFAC,
    "volumemute": 0x1008FF12,
    "volumedown": 0x1008FF11,
    "volumeup": 0x1008FF13,
    "playpause": 0x1008FF14,
    "stop": 0x1008FF15,
    "prevtrack": 0x1008FF16,
    "nexttrack": 0x1008FF17,
    "browserback": 0x1008FF26,
    "browserforward": 0x1008FF27,
    "browserrefresh": 0x1008FF29,
    "browserstop": 0x1008FF28,
    "browsersearch": 0x1008FF1B,
    "browserfavorites": 0x1008FF30,
    "browserhome": 0x1008FF18,
    "launchmail": 0x1008FF19,
    "launchmediaselect": 0x1008FF32,
    "launchapp1": 0x1008FF40,
    "launchapp2": 0x1008FF41,
    "sleep": 0x1008FF2F,
    **{f"f{n}": 0xFFBD + n for n in range(1, 25)},
    **{f"num{n}": 0xFFB0 + n for n in range(10)},
}

SHIFT = _KEYSYMS["shiftleft"]
KEYSYMS = frozenset(_KEYSYMS.values())
"""Of all keys that have a name."""

NAMES = frozenset(_NAMED) | frozenset(_KEYSYMS)
"""Every name with more than one character, and the white space characters."""


def keysym_of(name: str) -> int:
    """The keysym of a key: pyautogui's name of it, or the character on it."""
    plain = name.lower() if len(name) > 1 else name
    plain = _NAMED.get(plain, plain)
    if plain in _KEYSYMS:
        return _KEYSYMS[plain]
    if len(name) == 1:
        return keysym_of_character(name)
    raise ValueError(f"there is no key {name!r}: use a character or a name as in enter, ctrl, f5")


def keysym_of_character(character: str) -> int:
    """The keysym that types a character."""
    if character in _NAMED:
        return _KEYSYMS[_NAMED[character]]
    if character == "\b":
        return _KEYSYMS["backspace"]
    code = ord(character)
    if code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000:
        raise ValueError(f"the character {character!r} cannot be typed")
    # X's own numbers end with Latin-1; all others are Unicode's, marked by a bit.
    return code if code < 0x100 else 0x1000000 + code
