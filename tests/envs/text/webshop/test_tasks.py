"""The generated catalogue and its panels: pinned, consistent, and solvable as graded."""

import re
from importlib.resources import files

from practicum.envs.panels import panel_texts
from practicum.envs.text.webshop import draw
from practicum.envs.text.webshop.freeze import build_panels
from practicum.envs.text.webshop.generate import generate_products
from practicum.envs.text.webshop.grading import grade
from practicum.envs.text.webshop.lexicon import load_lexicon
from practicum.envs.text.webshop.shops import generated_shop
from practicum.envs.text.webshop.tasks import MAX_TURNS, PANELS, goal_of

CATALOGUE_SHA256 = "7a46465b26611e6e95d4263095a59e4ada957d874260e822c0200adc371cb598"


def test_catalogue_is_the_pinned_one() -> None:
    assert generated_shop().hash == CATALOGUE_SHA256


def test_catalogue_has_1200_products_of_thirty_kinds() -> None:
    products = generate_products()
    assert len(products) == len({p.asin for p in products}) == 1_200
    assert len({p.query for p in products}) == 30
    assert all(re.fullmatch(r"B0[0-9A-Z]{8}", p.asin) for p in products)


def test_shipped_panels_are_small_and_equal_to_a_fresh_build() -> None:
    folder = files("practicum.envs.text.webshop") / "panels"
    texts = panel_texts(build_panels())
    for name, text in texts.items():
        assert (folder / name).read_text(encoding="utf-8") == text
    assert sum(len(text.encode()) for text in texts.values()) < 1_500_000


def test_every_kind_is_in_every_split() -> None:
    shop = generated_shop()
    for name in ("train", "dev", "test"):
        kinds = {shop.by_asin[task.data["asin"]].query for task in PANELS.load(name)}
        assert len(kinds) == 30


def test_a_products_instructions_stay_in_one_split() -> None:
    splits: dict[str, set[str]] = {}
    for name in ("train", "dev", "test"):
        for task in PANELS.load(name):
            splits.setdefault(task.data["asin"], set()).add(task.split)
            assert task.split == name
    assert all(len(found) == 1 for found in splits.values())


def test_every_instruction_can_be_met_in_full_within_the_horizon() -> None:
    shop = generated_shop()
    for name in ("train", "dev", "test"):
        for task in PANELS.load(name):
            goal = goal_of(task, shop)
            assert grade(goal.product, goal.options, goal).reward == 1.0, task.prompt
            # Search for the title, open, one click per option, buy.
            assert shop.search(goal.product.title)[0] == goal.product
            assert 3 + len(goal.options) <= MAX_TURNS


def test_every_wish_is_in_the_words_of_the_instruction() -> None:
    for task in PANELS.load("train"):
        wishes = [*task.data["attributes"], *task.data["options"].values()]
        assert all(wish in task.prompt for wish in wishes), task.prompt
        limit = task.data["price_limit"]
        assert ("price lower than" in task.prompt) == (limit is not None)


def test_no_attribute_holds_the_name_of_an_option() -> None:
    for kind in load_lexicon().kinds:
        for attribute in kind.attributes:
            assert not {"size", "color", "style", "scent"} & set(attribute.split())


def test_choices_by_hash_are_pinned() -> None:
    assert draw.below(1_000, "a", 1) == 323
    assert draw.shuffle("abcdef", "a") == list("abcfde")


def test_price_limit_is_one_of_the_next_four_tens_but_not_the_first() -> None:
    limits = {draw.price_limit(23.5, "key", i) for i in range(100)}
    assert limits == {40.0, 50.0, 60.0}
    assert draw.price_limit(985.0, "key") is None
