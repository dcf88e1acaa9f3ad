"""Spreadsheet tasks: a sheet is open. Files are flat ODS, which is text and saves as it is."""

from __future__ import annotations

import random
from typing import Any
from xml.sax.saxutils import escape

from practicum.envs.desktop.pack.family import CITIES, FIRST_NAMES, FRUIT, NOUNS, Family, steps

Drawn = dict[str, Any]
Cell = str | int
SAVE = "key ctrl+s"

_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<office:document '
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" office:version="1.3" '
    'office:mimetype="application/vnd.oasis.opendocument.spreadsheet"><office:body>'
    '<office:spreadsheet><table:table table:name="Sheet1">'
)
_TAIL = "</table:table></office:spreadsheet></office:body></office:document>\n"

_READ = """
import xml.etree.ElementTree as tree
OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
def read(path):
    rows = []
    for row in tree.parse(path).getroot().iter(TABLE + "table-row"):
        cells = []
        for cell in row:
            value = cell.get(OFFICE + "value")
            shown = "".join("".join(p.itertext()) for p in cell.iter(TEXT + "p"))
            value = shown if value is None else format(float(value), "g")
            many = int(cell.get(TABLE + "number-columns-repeated", 1))
            cells += [value] * min(many, 50)
        many = int(row.get(TABLE + "number-rows-repeated", 1))
        rows += [cells] * min(many, 50)
    rows = [[*cells] for cells in rows]
    for cells in rows:
        while cells and cells[-1] == "":
            cells.pop()
    while rows and not rows[-1]:
        rows.pop()
    return rows
"""


def sheet(rows: list[list[Cell]]) -> str:
    """Write a table as a flat ODS file."""
    return _HEAD + "".join(map(_row, rows)) + _TAIL


def _row(cells: list[Cell]) -> str:
    return f"<table:table-row>{''.join(map(_cell, cells))}</table:table-row>"


def _cell(value: Cell) -> str:
    if isinstance(value, int):
        kind = f'office:value-type="float" office:value="{value}"'
    else:
        kind = 'office:value-type="string"'
    return f"<table:table-cell {kind}><text:p>{escape(str(value))}</text:p></table:table-cell>"


def _open(name: str, rows: list[list[Cell]]) -> list[dict[str, Any]]:
    path = f"~/{name}.fods"
    return [
        {"do": "write", "path": path, "text": sheet(rows)},
        {"do": "launch", "app": "calc", "arguments": [path], "window": name},
    ]


def _is(name: str, rows: list[list[Cell]]) -> dict[str, Any]:
    wanted = [[str(cell) for cell in row] for row in rows]
    path = f"~/{name}.fods"
    code = f"{_READ}\ndef check(files, answer):\n    return read(files[{path!r}]) == {wanted!r}\n"
    return {"kind": "python", "code": code, "files": [path]}


def put(cell: str, value: Cell) -> list[str]:
    """Go to a cell by its name and type into it."""
    return ["key ctrl+shift+t", f"type {cell}", "key enter", f"type {value}", "key enter"]


def _stock(rng: random.Random) -> tuple[str, list[list[Cell]]]:
    items = rng.sample(FRUIT, rng.randint(4, 6))
    table: list[list[Cell]] = [["Item", "Count"]]
    table += [[item, rng.randint(3, 99)] for item in items]
    return rng.choice(NOUNS), table


def _replaced(rows: list[list[Cell]], row: int, column: int, value: Cell) -> list[list[Cell]]:
    copy = [list(cells) for cells in rows]
    copy[row][column] = value
    return copy


def _correct(rng: random.Random) -> Drawn:
    name, rows = _stock(rng)
    row, value = rng.randint(1, len(rows) - 1), rng.randint(100, 999)
    other = row % (len(rows) - 1) + 1
    return {
        "instruction": f"There are {value} {rows[row][0]} in stock. Correct the count in the open "
        "spreadsheet and save it.",
        "setup": _open(name, rows),
        "checks": [_is(name, _replaced(rows, row, 1, value))],
        "oracle": steps(*put(f"B{row + 1}", value), SAVE),
        "negative": steps(*put(f"B{other + 1}", value), SAVE),
    }


def _add_row(rng: random.Random) -> Drawn:
    name, rows = _stock(rng)
    item = next(fruit for fruit in FRUIT if fruit not in {row[0] for row in rows})
    value, last = rng.randint(3, 99), len(rows) + 1
    return {
        "instruction": f"Add a row for {value} {item} right below the last row of the open "
        "spreadsheet and save it.",
        "setup": _open(name, rows),
        "checks": [_is(name, [*rows, [item, value]])],
        "oracle": steps(*put(f"A{last}", item), *put(f"B{last}", value), SAVE),
        "negative": steps(*put(f"A{last + 1}", item), *put(f"B{last + 1}", value), SAVE),
    }


def _total(rng: random.Random) -> Drawn:
    name, rows = _stock(rng)
    last = len(rows)
    counts = [row[1] for row in rows[1:]]
    total = sum(count for count in counts if isinstance(count, int))
    at = f"B{last + 1}"
    return {
        "instruction": f"Put the total of all counts into cell {at} of the open spreadsheet, right "
        "below them, and save it.",
        "setup": _open(name, rows),
        "checks": [_is(name, [*rows, ["", total]])],
        "oracle": steps(*put(at, f"=SUM(B2:B{last})"), SAVE),
        "negative": steps(*put(at, f"=SUM(B3:B{last})"), SAVE),
    }


def _rename_header(rng: random.Random) -> Drawn:
    name, rows = _stock(rng)
    new = rng.choice(("Pieces", "Amount", "Quantity", "Number"))
    return {
        "instruction": f"Change the heading of the second column in the open spreadsheet to {new} "
        "and save it.",
        "setup": _open(name, rows),
        "checks": [_is(name, _replaced(rows, 0, 1, new))],
        "oracle": steps(*put("B1", new), SAVE),
        "negative": steps(*put("A1", new), SAVE),
    }


def _largest(rng: random.Random) -> Drawn:
    people, values = rng.sample(FIRST_NAMES, 8), rng.sample(range(1000, 9999), 8)
    rows: list[list[Cell]] = [["Name", "City", "Sales"]]
    rows += [[p, rng.choice(CITIES), v] for p, v in zip(people, values, strict=True)]
    order = sorted(range(8), key=lambda index: -values[index])
    return {
        "instruction": "Whose sales are the highest in the open spreadsheet? Answer with the name.",
        "setup": _open(rng.choice(NOUNS), rows),
        "checks": [{"kind": "answer", "text": {"equals": people[order[0]]}}],
        "oracle": steps(f"answer {people[order[0]]}"),
        "negative": steps(f"answer {people[order[1]]}"),
    }


FAMILIES = (
    Family("correct", "calc", "train", _correct),
    Family("add-row", "calc", "train", _add_row),
    Family("rename-header", "calc", "train", _rename_header),
    Family("total", "calc", "dev", _total),
    Family("largest", "calc", "test", _largest),
)
