"""WebShop's reward against values worked out by hand from its formula."""

from dataclasses import replace

import pytest

from practicum.envs.text.webshop.catalogue import Price, Product
from practicum.envs.text.webshop.grading import (
    Goal,
    count_options,
    grade,
    title_nouns,
    title_score,
    type_reward,
)

SHAMPOO = Product(
    asin="B000000001",
    title="Norvale Hair Shampoo Repair Wash",
    department="beauty",
    query="shampoo",
    path="Beauty › Hair Care › Shampoo",
    description="Made with natural ingredients.",
    bullets=("Has essential oils and smells of lemons",),
    attributes=("tea tree", "sulfate free"),
    options={"size": ("8 fl oz", "16 fl oz"), "scent": ("mint", "lemon")},
    price=Price(12.0, 20.0, 20.0, "size", {"8 fl oz": 12.0, "16 fl oz": 20.0}),
)
GOAL = Goal(SHAMPOO, ("tea tree", "essential oils"), {"size": "8 fl oz", "scent": "mint"}, 15.0)
ALL_SET = {"size": "8 fl oz", "scent": "mint"}


def test_a_purchase_that_meets_every_wish_earns_exactly_one() -> None:
    assert grade(SHAMPOO, ALL_SET, GOAL).reward == 1.0


def test_a_missing_option_costs_one_of_five_wishes() -> None:
    result = grade(SHAMPOO, {"size": "8 fl oz"}, GOAL)
    assert result.reward == pytest.approx(4 / 5)
    assert result.r_options == 0.5


def test_a_price_over_the_limit_costs_one_wish() -> None:
    result = grade(SHAMPOO, {"size": "16 fl oz", "scent": "mint"}, GOAL)
    assert result.r_price == 0.0
    assert result.reward == pytest.approx(3 / 5)  # the size is wrong as well


def test_a_price_at_the_limit_is_met() -> None:
    assert grade(SHAMPOO, ALL_SET, replace(GOAL, price_limit=12.0)).r_price == 1.0


def test_leaving_the_priced_option_open_pays_the_highest_price() -> None:
    result = grade(SHAMPOO, {"scent": "mint"}, GOAL)
    assert result.r_price == 0.0
    assert result.reward == pytest.approx(3 / 5)


def test_without_a_limit_the_price_counts_as_met() -> None:
    result = grade(SHAMPOO, {}, replace(GOAL, price_limit=None))
    assert result.reward == pytest.approx(3 / 5)


def test_without_wanted_options_only_attributes_and_price_count() -> None:
    result = grade(SHAMPOO, {}, Goal(SHAMPOO, ("tea tree", "gluten free"), {}, 30.0))
    assert result.r_options is None
    assert result.reward == pytest.approx(2 / 3)


def test_attributes_match_by_similarity_or_by_standing_in_the_texts() -> None:
    goal = Goal(SHAMPOO, ("essential oils", "natural ingredients", "tea trees", "vegan"), {}, None)
    assert grade(SHAMPOO, {}, goal).r_attributes == 3 / 4


def test_options_match_by_similarity_whatever_their_order() -> None:
    assert count_options(["pack of 12", "powder snow"], ["cool powder snow", "pack of 12"]) == 2
    assert count_options([], ["a", "b"]) == 0
    assert count_options(["a"], []) == 0


def test_options_of_one_colour_match() -> None:
    assert count_options(["wine red"], {"color": "cherry red"}) == 1
    assert count_options(["dark red"], {"color": "red"}) == 1
    assert count_options(["navy"], {"color": "red"}) == 0


def test_a_colour_inside_a_word_is_no_colour() -> None:
    assert count_options(["rectangular"], {"item shape": "rectangular"}) == 1
    assert count_options(["tan"], {"item shape": "rectangular"}) == 0


def test_a_size_beside_the_wanted_one_does_not_match() -> None:
    assert count_options(["x-large"], {"size": "large"}) == 0
    assert count_options(["large"], {"size": "large"}) == 1


@pytest.mark.parametrize(
    ("score", "is_match", "expected"),
    [
        (0.5, False, 1.0),
        (0.2, False, 0.5),
        (0.2, True, 1.0),
        (0.1, True, 1.0),
        (0.09, True, 0.1),
        (0.09, False, 0.1),
        (0.0, True, 0.0),
    ],
)
def test_type_reward_falls_with_common_nouns(score: float, is_match: bool, expected: float) -> None:
    assert type_reward(score, is_match=is_match) == expected


def test_the_reward_is_scaled_by_the_type() -> None:
    cable = replace(
        SHAMPOO, title="Fennick Charging Cable Cord", query="cables", path="Electronics › Cables"
    )
    result = grade(cable, ALL_SET, GOAL)
    assert (result.r_type, result.reward) == (0.0, 0.0)
    same_shelf = replace(SHAMPOO, title="Fennick Wash Bar", query="soap")
    result = grade(same_shelf, ALL_SET, GOAL)
    assert result.title_score == pytest.approx(1 / 5)
    assert (result.category_match, result.query_match, result.r_type) == (True, False, 1.0)


def test_two_shared_categories_are_a_match_in_any_order() -> None:
    other = replace(SHAMPOO, query="x", path="Shampoo › Beauty › Other")
    assert grade(other, {}, GOAL).category_match
    assert not grade(replace(other, path="Shampoo › Shampoo › Other"), {}, GOAL).category_match


def test_title_scores_are_those_the_original_publishes_for_its_examples() -> None:
    shoe = "adidas Unisex-Adult D.o.n. Issue 2 Basketball Shoe"
    other = "adidas Unisex-Adult D.o.n. Issue 2 Indoor Court Shoe"
    assert title_score(other, shoe) == pytest.approx(0.85, abs=0.01)
    cord = (
        "Saireed UL Listed 2 Prong Power Cord for JBL Bar 3.1 Bar 2.1 Channel 4K Ultra HD Soundbar"
    )
    cable = (
        "BRST AC Power Cord Outlet Socket Cable Plug Lead for Panasonic SC-HT830V DVD/VCR Combo "
        "Home Theater System"
    )
    assert title_score(cable, cord) == pytest.approx(0.17, abs=0.01)
    long_cord = f"{cord} Home Theater System Subwoofer"
    assert title_score(cable, long_cord) == pytest.approx(0.31, abs=0.01)
    assert title_score("Minkissy 2pcs Eyebrow Tweezers", "Rusticware Kitchen Cabinet Knob") == 0.0


def test_a_title_without_nouns_scores_as_the_original_has_it() -> None:
    assert title_nouns("for the 2 of you") == ()
    assert title_score("anything", "for the 2 of you") == 0.2
