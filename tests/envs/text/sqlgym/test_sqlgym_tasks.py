"""The generated databases, their questions, and the panels made of them."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from practicum.core.errors import ConfigError
from practicum.core.task import Task
from practicum.envs.panels import panel_texts
from practicum.envs.text import sqlgym as package
from practicum.envs.text.sqlgym.databases import GeneratedDatabases
from practicum.envs.text.sqlgym.domains.build import build
from practicum.envs.text.sqlgym.domains.catalogue import SPLITS, find_domain
from practicum.envs.text.sqlgym.freeze import build_panels
from practicum.envs.text.sqlgym.matching import has_top_level_order
from practicum.envs.text.sqlgym.tasks import PANELS

PANELS_DIR = Path(package.__file__).parent / "panels"
NAMES = [domain.name for domains in SPLITS.values() for domain in domains]


def all_tasks() -> list[Task]:
    return [task for split in ("train", "dev", "test") for task in PANELS.load(split)]


def run(task: Task, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(build(task.data["database"]).image)
        return connection.execute(sql).fetchall()


def test_shipped_panels_equal_a_fresh_build() -> None:
    for name, text in panel_texts(build_panels()).items():
        assert (PANELS_DIR / name).read_text(encoding="utf-8") == text


def test_panels_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "from practicum.core.canonical import content_hash; "
        "from practicum.envs.panels import panel_texts; "
        "from practicum.envs.text.sqlgym.freeze import build_panels; "
        "print(content_hash(panel_texts(build_panels())))"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1


def test_sizes_and_strata() -> None:
    assert {name: len(PANELS.load(name)) for name in PANELS.names()} == {
        "train": 576,
        "dev": 144,
        "test": 216,
    }
    for split in ("train", "dev", "test"):
        counts = Counter(task.difficulty for task in PANELS.load(split))
        assert set(counts) == {"easy", "medium", "hard", "extra"}
        assert len(set(counts.values())) == 1
    assert sum(path.stat().st_size for path in PANELS_DIR.iterdir()) < 1_500_000


def test_databases_of_dev_and_test_are_held_out() -> None:
    databases = {
        split: {task.data["database"] for task in PANELS.load(split)}
        for split in ("train", "dev", "test")
    }
    assert len(databases["train"]) == 8
    assert not databases["train"] & databases["dev"]
    assert not (databases["train"] | databases["dev"]) & databases["test"]
    for task in all_tasks():
        assert task.family.startswith(f"{task.data['database']}/")


def test_every_gold_query_gives_a_result_worth_asking_for() -> None:
    for task in all_tasks():
        rows = run(task, task.data["gold"])
        assert 0 < len(rows) <= 60, task.data["gold"]
        assert len(set(rows)) == len(rows), task.data["gold"]
        assert rows[0] not in {(None,), (0,), (0.0,), (100.0,)}, task.data["gold"]


def test_first_places_are_not_decided_by_ties() -> None:
    """Reads the deciding values of every query that keeps the first few rows."""
    shape = re.compile(
        r"ORDER BY (\S+(?:\([^)]*\))?)(?: (ASC|DESC))? LIMIT (\d+)(?: OFFSET (\d+))?$"
    )
    num_checked = 0
    for task in all_tasks():
        gold = task.data["gold"]
        match = shape.search(gold)
        if match is None:
            assert "LIMIT" not in gold
            continue
        if month := re.match(r"SELECT (.+) AS month,", gold):
            gold = gold.replace("GROUP BY month", f"GROUP BY {month[1]}")
            match = shape.search(gold)
            assert match is not None
        num_kept = int(match[3]) + int(match[4] or 0)
        body = gold[gold.index(" FROM ") : match.end(3) - len(match[3])]
        deciding = run(task, f"SELECT {match[1]}{body}{num_kept + 1}".replace(" OFFSET", ""))
        assert len(set(deciding)) == len(deciding), gold
        num_checked += 1
    assert num_checked > 100


def test_results_are_compared_in_order_where_the_question_asks_for_one() -> None:
    for task in all_tasks():
        is_list = task.data["match"] == "list"
        assert is_list is has_top_level_order(task.data["gold"])
        if is_list and len(run(task, task.data["gold"])) > 1:
            assert re.search(r"first\.|sorted by|in order of", task.prompt), task.prompt


def test_questions_are_plain_words_and_ask_each_thing_once() -> None:
    asked = Counter((task.data["database"], task.prompt) for task in all_tasks())
    assert max(asked.values()) == 1
    golds = Counter((task.data["database"], task.data["gold"]) for task in all_tasks())
    assert max(golds.values()) == 1
    for task in all_tasks():
        assert "SELECT" not in task.prompt
        assert "_id" not in task.prompt
        assert task.prompt[0].isupper() and task.prompt[-1] in ".?"


def test_every_form_of_question_is_in_every_split() -> None:
    forms = {
        split: {task.family.split("/")[1] for task in PANELS.load(split)}
        for split in ("train", "dev", "test")
    }
    assert len(forms["train"]) == 41
    assert forms["dev"] <= forms["train"]
    assert forms["test"] <= forms["train"]


@pytest.mark.parametrize("name", NAMES)
def test_foreign_keys_point_to_rows_that_are_there(name: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(build(name).image)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("name", NAMES)
def test_schema_sentences_join_the_columns_that_belong_together(name: str) -> None:
    """AgentGym's sentences are off by one and join columns that have nothing in common."""
    domain = find_domain(name)
    description = GeneratedDatabases().find(name).description
    wanted = {
        f"The {link.column} of {table.name} is the foreign key of "
        f"{domain.table(link.parent).key} of {link.parent}."
        for table in domain.tables
        for link in table.links
    }
    said = {line for line in description.split("\n") if line.startswith("The ")}
    assert said == wanted


def test_unknown_database_is_a_config_error_with_a_near_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'library'"):
        GeneratedDatabases().find("libary")
