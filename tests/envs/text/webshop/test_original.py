"""The original WebShop's data files, in small: read as the original reads them."""

import json
from pathlib import Path
from typing import Any

import pytest

from practicum.core.errors import ConfigError
from practicum.core.message import Action
from practicum.core.task import Task
from practicum.envs.text.webshop.env import create
from practicum.envs.text.webshop.grading import grade
from practicum.envs.text.webshop.original import load_original
from practicum.envs.text.webshop.tasks import goal_of


def item(asin: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "asin": asin,
        "name": name,
        "category": "fashion",
        "query": " Men's Shoes ",
        "product_category": "Clothing › Men › Shoes",
        "full_description": "A shoe.",
        "small_description": ["Rubber sole", "Made for walking"],
        "pricing": "$64.98",
        "customization_options": {},
        "images": [""],
        **more,
    }


ITEMS = [
    item(
        "B00000SHOE",
        "Walker Men's Shoe",
        pricing="$20.50 - $1,040.00",
        customization_options={
            "Color": [{"value": "Black/White ", "image": None}, {"value": "Red"}],
            "Size": [{"value": "9"}, {"value": "9.5"}],
            "Style": None,
        },
    ),
    item("B00000SHOE", "A duplicate"),
    item("nan", "No id"),
    item("B0000000000", "An id too long"),
    item(
        "B00000BOOT",
        "Sturdy Boot",
        pricing=None,
        small_description="One line",
        full_description=None,
    ),
    item("B00000BARE", "Bare Sandal", pricing=""),
]
ATTRIBUTES = {
    "B00000SHOE": {
        "attributes": ["rubber sole", "light weight"],
        "instruction": "Find me light weight men's shoes with rubber sole",
        "instruction_attributes": ["light weight", "rubber sole"],
    },
    "B00000BOOT": {"attributes": ["sturdy"], "instruction": None, "instruction_attributes": None},
}
HUMAN = {
    "B00000BOOT": [
        {
            "instruction": "i want a sturdy boot.",
            "instruction_attributes": ["sturdy"],
            "instruction_options": [],
        },
        {"instruction": "skipped", "instruction_attributes": [], "instruction_options": []},
    ],
    "B00000SHOE": [
        {
            "instruction": "a black and white shoe in 9.5",
            "instruction_attributes": ["light weight"],
            "instruction_options": ["black | white", "9.5"],
        }
    ],
}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    (tmp_path / "items_shuffle_1000.json").write_text(json.dumps(ITEMS), encoding="utf-8")
    (tmp_path / "items_ins_v2_1000.json").write_text(json.dumps(ATTRIBUTES), encoding="utf-8")
    (tmp_path / "items_human_ins.json").write_text(json.dumps(HUMAN), encoding="utf-8")
    return tmp_path


def all_tasks(data_dir: Path, prefix: str = "") -> list[Task]:
    panels = load_original(data_dir).panels
    return [t for split in ("train", "dev", "test") for t in panels[prefix + split]]


def test_products_are_cleaned_as_the_original_cleans_them(data_dir: Path) -> None:
    shop = load_original(data_dir).shop
    assert [p.asin for p in shop.products] == ["B00000SHOE", "B00000BOOT", "B00000BARE"]
    shoe, boot, bare = shop.products
    assert shoe.query == "men's shoes"
    assert shoe.options == {"color": ("black | white", "red"), "size": ("9", "9.5")}
    assert shoe.price.tag({}) == "$20.5 to $1040.0"
    assert 20.5 <= shoe.price.paid({}) <= 1040.0
    assert (boot.price.tag({}), boot.bullets, boot.description) == ("$100.0", ("One line",), "")
    assert bare.attributes == ()


def test_synthetic_instructions_ask_for_every_combination_of_options(data_dir: Path) -> None:
    tasks = all_tasks(data_dir)
    assert len(tasks) == 4
    assert {json.dumps(t.data["options"]) for t in tasks} == {
        json.dumps({"color": color, "size": size})
        for color in ("black | white", "red")
        for size in ("9", "9.5")
    }
    start = "Find me light weight men's shoes with rubber sole with color: "
    assert all(task.prompt.startswith(start) for task in tasks)


def test_human_instructions_keep_their_own_panels(data_dir: Path) -> None:
    tasks = {t.data["asin"]: t for t in all_tasks(data_dir, "human-")}
    assert set(tasks) == {"B00000BOOT", "B00000SHOE"}
    assert tasks["B00000BOOT"].prompt.startswith("i want a sturdy boot, and price lower than 1")
    assert tasks["B00000SHOE"].data["options"] == ["black | white", "9.5"]


def test_same_files_give_the_same_tasks_and_prices(data_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in data_dir.glob("*.json"):
        (copy / path.name).write_bytes(path.read_bytes())
    one, other = load_original(data_dir), load_original(copy)
    assert one.panels == other.panels
    assert one.shop.hash == other.shop.hash
    assert one.shop.id == other.shop.id


def test_other_files_are_another_catalogue(data_dir: Path) -> None:
    before = load_original(data_dir).shop.id
    changed = json.dumps(ITEMS[:-1])
    (data_dir / "items_shuffle_1000.json").write_text(changed, encoding="utf-8")
    assert load_original(data_dir).shop.id != before


def test_every_synthetic_task_can_be_met_in_full(data_dir: Path) -> None:
    shop = load_original(data_dir).shop
    for task in all_tasks(data_dir):
        goal = goal_of(task, shop)
        assert isinstance(goal.options, dict)
        assert grade(goal.product, goal.options, goal).reward == 1.0


async def test_the_original_shop_is_played_without_an_attributes_tab(data_dir: Path) -> None:
    env = create(data_dir)
    assert env.panel_names() == ("train", "dev", "test", "human-train", "human-dev", "human-test")
    task = next(t for name in env.panel_names()[:3] for t in env.panel(name))
    color, size = task.data["options"]["color"], task.data["options"]["size"]
    async with env.open(task) as episode:
        await episode.start()
        await episode.step(Action("search[light weight shoes]"))
        page = await episode.step(Action("click[B00000SHOE]"))
        assert "Reviews [SEP] Buy Now" in page.observation.text
        for text in (f"click[{color}]", f"click[{size}]"):
            assert not (await episode.step(Action(text))).is_refused
        bought = await episode.step(Action("click[Buy Now]"))
    assert (bought.reward, bought.is_success) == (1.0, True)


async def test_a_shipped_task_does_not_open_in_the_original_shop(data_dir: Path) -> None:
    task = create().panel("dev").tasks[0]
    with pytest.raises(ConfigError, match="no data_dir"):
        async with create(data_dir).open(task):
            pass


def test_unknown_panels_of_the_original_are_named(data_dir: Path) -> None:
    with pytest.raises(ConfigError, match="human-dev"):
        create(data_dir).panel("humandev")


def test_missing_doubled_and_broken_files_are_config_errors(data_dir: Path) -> None:
    with pytest.raises(ConfigError, match="exactly one items_shuffle"):
        load_original(data_dir / "nowhere")
    (data_dir / "items_shuffle.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"items_shuffle\.json, items_shuffle_1000\.json"):
        load_original(data_dir)
    (data_dir / "items_shuffle_1000.json").unlink()
    with pytest.raises(ConfigError, match=r"lacks items_ins_v2\.json"):
        load_original(data_dir)
    (data_dir / "items_ins_v2.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match="is not JSON"):
        load_original(data_dir)


def test_files_of_another_shape_are_config_errors(data_dir: Path) -> None:
    for content in ("[]", "[1]", '[{"asin": "B000000001"}]'):
        (data_dir / "items_shuffle_1000.json").write_text(content, encoding="utf-8")
        with pytest.raises(ConfigError, match=r"items_shuffle|WebShop's"):
            load_original(data_dir)


def test_the_human_file_is_optional(data_dir: Path) -> None:
    (data_dir / "items_human_ins.json").unlink()
    assert tuple(load_original(data_dir).panels) == ("train", "dev", "test")
