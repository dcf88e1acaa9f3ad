"""BIRD and Spider in their own layouts, as small as they get."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from practicum.core.errors import ConfigError
from practicum.core.message import Action
from practicum.envs.contract import transcript
from practicum.envs.text.sqlgym.env import create

SCHEMA = """
CREATE TABLE Country (`Country Code` TEXT PRIMARY KEY, Name TEXT, Population INTEGER);
CREATE TABLE City (ID INTEGER PRIMARY KEY, CityName VARCHAR(40), Code TEXT, Size DECIMAL(10, 2));
INSERT INTO Country VALUES ('NO', 'Norway', 5), ('KE', 'Kenya', 55), ('BR', 'Brazil', 215);
INSERT INTO City VALUES (1, 'Oslo', 'NO', 1.5), (2, 'Bergen', 'NO', 0.5), (3, 'Nairobi', 'KE', 4);
CREATE TABLE Mayor (CityID INTEGER REFERENCES City, Name TEXT);
"""
TABLES = [
    {
        "db_id": "world",
        "table_names": ["country", "city", "mayor"],
        "table_names_original": ["Country", "City", "Mayor"],
        "column_names": [
            [-1, "*"], [0, "country code"], [0, "name"], [0, "population"],
            [1, "id"], [1, "city name"], [1, "code"], [1, "size"], [2, "city id"], [2, "name"],
        ],
        "column_names_original": [
            [-1, "*"], [0, "Country Code"], [0, "Name"], [0, "Population"],
            [1, "ID"], [1, "CityName"], [1, "Code"], [1, "Size"], [2, "CityID"], [2, "Name"],
        ],
        "primary_keys": [1, 4],
        "foreign_keys": [[6, 1]],
    }
]  # fmt: skip
GOLD = "SELECT CityName FROM City WHERE Code = 'NO'"


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_database(folder: Path, name: str = "world") -> Path:
    path = folder / name / f"{name}.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
    return path


def write_bird(folder: Path) -> Path:
    rows = [
        {
            "question_id": 0,
            "db_id": "world",
            "question": "Which cities are in Norway?",
            "evidence": "Norway refers to Code = 'NO'",
            "SQL": GOLD,
            "difficulty": "simple",
        },
        {
            "db_id": "world",
            "question": "Which cities are in Norway?",
            "evidence": "",
            "SQL": GOLD,
        },
    ]
    write(folder / "dev.json", rows)
    write(folder / "dev_tables.json", TABLES)
    write_database(folder / "dev_databases")
    return folder


def write_spider(folder: Path) -> Path:
    row = {"db_id": "world", "question": "List cities by size.", "query": f"{GOLD} ORDER BY Size"}
    write(folder / "train_spider.json", [row])
    write(folder / "train_others.json", [{**row, "query": GOLD}])
    write(folder / "dev.json", [row])
    write(folder / "tables.json", TABLES)
    write_database(folder / "database")
    return folder


@pytest.mark.parametrize("is_nested", [False, True])
async def test_bird_is_loaded_and_played(tmp_path: Path, is_nested: bool) -> None:
    write_bird(tmp_path / "dev" if is_nested else tmp_path)
    environment = create(dataset="bird", data_dir=tmp_path)
    assert environment.panel_names() == ("dev",)
    first, second = environment.panel("dev").tasks
    assert (first.difficulty, second.difficulty) == ("simple", "unrated")
    assert first.family == "bird/world"
    assert (first.data["match"], first.data["origin"]) == ("set", "bird/dev/0")
    for name in ("expert", "random"):
        _, last = await transcript(environment, first, environment.scripts[name])
        assert last is not None
        assert last.is_success or name == "random"
    async with environment.open(first) as env:
        text = (await env.start()).text
        repeated = await env.step(Action(f"submit {GOLD} UNION ALL {GOLD} ORDER BY 1"))
    assert text.endswith("Which cities are in Norway?\nHint: Norway refers to Code = 'NO'")
    assert repeated.is_success
    await environment.aclose()


async def test_bird_can_be_played_in_one_turn(tmp_path: Path) -> None:
    environment = create(
        dataset="bird", data_dir=write_bird(tmp_path), split="dev", single_turn=True
    )
    task = environment.panel("dev").tasks[1]
    async with environment.open(task) as env:
        assert "Hint" not in (await env.start()).text
        result = await env.step(Action(f"```sql\n{GOLD}\n```"))
    assert (result.reward, result.is_done) == (1.0, True)
    await environment.aclose()


async def test_schema_is_said_with_real_names_and_right_keys(tmp_path: Path) -> None:
    """AgentGym lower-cases readable titles and joins Population with CityName here."""
    environment = create(dataset="bird", data_dir=write_bird(tmp_path))
    async with environment.open(environment.panel("dev").tasks[0]) as env:
        text = (await env.start()).text
    assert text.split("\n\n")[0].split("\n") == [
        "world contains tables such as Country, City, Mayor.",
        "Table Country has columns such as `Country Code` (text), Name (text), "
        "Population (integer). `Country Code` is the primary key.",
        "Table City has columns such as ID (integer), CityName (varchar), Code (text), "
        "Size (decimal). ID is the primary key.",
        "Table Mayor has columns such as CityID (integer), Name (text).",
        "The Code of City is the foreign key of `Country Code` of Country.",
        "The CityID of Mayor is the foreign key of ID of City.",
    ]


async def test_spider_is_loaded_and_sorted_results_are_compared_in_order(tmp_path: Path) -> None:
    environment = create(dataset="spider", data_dir=write_spider(tmp_path))
    assert environment.panel_names() == ("train", "dev")
    sorted_task, plain_task = environment.panel("train").tasks
    assert (sorted_task.data["match"], plain_task.data["match"]) == ("list", "bag")
    submission = Action(f"submit {GOLD} ORDER BY Size DESC")
    async with environment.open(sorted_task) as env:
        assert not (await env.step(submission)).is_success
    async with environment.open(plain_task) as env:
        assert (await env.step(submission)).is_success
    await environment.aclose()


async def test_files_of_the_user_are_not_changed(tmp_path: Path) -> None:
    environment = create(dataset="bird", data_dir=write_bird(tmp_path))
    path = tmp_path / "dev_databases" / "world" / "world.sqlite"
    before = path.read_bytes()
    async with environment.open(environment.panel("dev").tasks[0]) as env:
        for text in ("query DELETE FROM City", "query DROP TABLE City", f"submit {GOLD}"):
            result = await env.step(Action(text))
    assert result.is_success
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["world.sqlite"]
    await environment.aclose()


async def test_exchanged_database_is_noticed(tmp_path: Path) -> None:
    task = create(dataset="bird", data_dir=write_bird(tmp_path)).panel("dev").tasks[0]
    path = tmp_path / "dev_databases" / "world" / "world.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE City ADD COLUMN Extra TEXT")
    environment = create(dataset="bird", data_dir=tmp_path)
    with pytest.raises(ConfigError, match="another version"):
        async with environment.open(task):
            pass


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no bird data .* looked for train\.json"):
        create(dataset="bird", data_dir=tmp_path)
    with pytest.raises(ConfigError, match="unknown data set 'brid': did you mean 'bird'"):
        create(dataset="brid", data_dir=tmp_path)
    with pytest.raises(ConfigError, match="unknown split 'validation'"):
        create(dataset="bird", data_dir=tmp_path, split="validation")
    write(tmp_path / "dev.json", [{"db_id": "world", "question": "?", "SQL": "SELECT 1"}])
    with pytest.raises(ConfigError, match="no bird databases"):
        create(dataset="bird", data_dir=tmp_path)
    write_database(tmp_path / "dev_databases", "other")
    with pytest.raises(ConfigError, match="unknown database 'world'"):
        create(dataset="bird", data_dir=tmp_path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text("[{", encoding="utf-8")
    (tmp_path / "dev_databases").mkdir()
    with pytest.raises(ConfigError, match="not JSON"):
        create(dataset="bird", data_dir=tmp_path)
    write(tmp_path / "dev.json", [{"db_id": "world", "question": "?"}])
    with pytest.raises(ConfigError, match="entry 0: there is no 'SQL'"):
        create(dataset="bird", data_dir=tmp_path)
    write(tmp_path / "dev.json", [{"db_id": "world", "question": "?", "SQL": "SELECT 1"}])
    path = tmp_path / "dev_databases" / "world" / "world.sqlite"
    path.parent.mkdir()
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(ConfigError, match="not a database that SQLite reads"):
        create(dataset="bird", data_dir=tmp_path)
