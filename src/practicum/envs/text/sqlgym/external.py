"""Loads BIRD and Spider from where the user keeps them, in their own layouts.

BIRD: `dev.json`, `dev_tables.json` and `dev_databases/<db>/<db>.sqlite`, beside each other
or in a folder `dev`; the same for `train`. Spider: `train_spider.json`, `train_others.json`,
`dev.json`, `tables.json` and `database/<db>/<db>.sqlite`; `test.json` with `test_tables.json`
and `test_database`. BIRD results are compared as sets, as BIRD and AgentGym do it; Spider's
as bags, or as lists where the gold query sorts. A row keeps its number (`origin`), so that
AgentGym's item ids can be found again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.core.errors import ConfigError, unknown_name
from practicum.core.task import Panel, Task
from practicum.envs.text.sqlgym.databases import FileDatabases
from practicum.envs.text.sqlgym.schema import ForeignKey
from practicum.envs.text.sqlgym.tasks import make_task

SPLITS = ("train", "dev", "test")
UNRATED = "unrated"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a data set keeps things; `{split}` stands for the name of the split."""

    questions: Mapping[str, tuple[str, ...]]
    """Split -> files that make it up together, those that may be missing included."""
    tables: tuple[str, ...]
    databases: tuple[str, ...]
    gold_key: str
    match: str


LAYOUTS = {
    "bird": Layout(
        {split: (f"{split}.json",) for split in SPLITS},
        ("{split}_tables.json", "tables.json"),
        ("{split}_databases", "databases", "database"),
        "SQL",
        "set",
    ),
    "spider": Layout(
        {
            "train": ("train_spider.json", "train_others.json", "train.json"),
            "dev": ("dev.json",),
            "test": ("test.json",),
        },
        ("{split}_tables.json", "tables.json"),
        ("{split}_database", "database"),
        "query",
        "",
    ),
}


@dataclass(frozen=True, slots=True)
class DataSet:
    """Panels of a data set and the databases they ask about."""

    panels: Mapping[str, Panel]
    databases: FileDatabases


def load_data_set(name: str, data_dir: Path, split: str | None = None) -> DataSet:
    """Load one split, or all that are there."""
    if name not in LAYOUTS:
        raise unknown_name("data set", name, LAYOUTS)
    if split is not None and split not in SPLITS:
        raise unknown_name("split", split, SPLITS)
    layout = LAYOUTS[name]
    wanted = SPLITS if split is None else (split,)
    found = {s: files for s in wanted if (files := _question_files(layout, data_dir, s))}
    if not found:
        looked_for = ", ".join(file for s in wanted for file in layout.questions[s])
        raise ConfigError(
            f"there is no {name} data in {data_dir}: looked for {looked_for}; "
            "unpack the data set there as it is distributed"
        )
    folders: list[Path] = []
    keys: dict[str, Sequence[ForeignKey]] = {}
    for s, files in found.items():
        folders += _existing(files[0].parent, layout.databases, s)
        for path in _existing(files[0].parent, layout.tables, s)[:1]:
            keys |= {entry["db_id"]: read_foreign_keys(entry) for entry in _read_list(path)}
    if not folders:
        raise ConfigError(
            f"there are no {name} databases in {data_dir}: looked for "
            + ", ".join(f.format(split=s) for s in found for f in layout.databases)
        )
    databases = FileDatabases(list(dict.fromkeys(folders)), keys)
    return DataSet(
        {s: Panel(s, tuple(_tasks(name, s, files, databases))) for s, files in found.items()},
        databases,
    )


def read_foreign_keys(entry: Mapping[str, Any]) -> list[ForeignKey]:
    """Read the foreign keys of one database from `tables.json`.

    Columns are numbered over all tables, and number 0 is `*`: the two lists are indexed
    alike, and nothing may be left out before indexing.
    """
    columns = entry.get("column_names_original") or entry["column_names"]
    tables = entry.get("table_names_original") or entry["table_names"]
    return [
        ForeignKey(tables[columns[a][0]], columns[a][1], tables[columns[b][0]], columns[b][1])
        for a, b in entry.get("foreign_keys", ())
    ]


def _tasks(name: str, split: str, files: Sequence[Path], databases: FileDatabases) -> list[Task]:
    layout = LAYOUTS[name]
    tasks = []
    for path in files:
        for index, row in enumerate(_read_list(path)):
            try:
                database = row["db_id"]
                question, gold = row["question"], row[layout.gold_key]
            except KeyError as error:
                raise ConfigError(f"{path.name}, entry {index}: there is no {error}") from error
            tasks.append(
                make_task(
                    databases.find(database),
                    question,
                    gold,
                    hint=row.get("evidence") or "",
                    match=layout.match,
                    origin=f"{name}/{path.stem}/{index}",
                    split=split,
                    difficulty=row.get("difficulty") or UNRATED,
                    family=f"{name}/{database}",
                )
            )
    return tasks


def _question_files(layout: Layout, data_dir: Path, split: str) -> list[Path]:
    for folder in (data_dir, data_dir / split):
        files = [folder / name for name in layout.questions[split] if (folder / name).is_file()]
        if files:
            return files
    return []


def _existing(folder: Path, names: Sequence[str], split: str) -> list[Path]:
    paths = [folder / name.format(split=split) for name in names]
    return [path for path in paths if path.exists()]


def _read_list(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    if not isinstance(rows, list):
        raise ConfigError(f"{path} must hold a list")
    return rows
