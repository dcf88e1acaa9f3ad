"""Pages and moves of one visit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.envs.contract import HOSTILE_ACTIONS
from practicum.envs.text.webshop.catalogue import Price, Product, Shop
from practicum.envs.text.webshop.grading import Goal
from practicum.envs.text.webshop.reading import read_page
from practicum.envs.text.webshop.session import MAX_KEYWORDS_CHARS, Session

MUG = Product(
    asin="B00000MUG1",
    title="Tessaro Coffee Mug",
    department="garden",
    query="mugs",
    path="Home › Kitchen › Mugs",
    description="",
    bullets=("Dishwasher safe", "Holds heat"),
    attributes=("dishwasher safe",),
    options={"color": ("blue", "white"), "size": ("8 oz", "12 oz")},
    price=Price(9.5, 12.0, 12.0, "size", {"8 oz": 9.5, "12 oz": 12.0}),
)
OTHERS = [
    Product(f"B0000000{i:02}", f"Plain Mug Number {i}", "garden", "mugs", "Home › Mugs", "A mug.",
            (), (), {}, Price(5.0, 5.0, 5.0))
    for i in range(23)
]  # fmt: skip
SHOP = Shop("test", [MUG, *OTHERS], shows_attributes=True)
WORDS = "find me a blue mug, and price lower than 20.00 dollars"
HEAD = f"Instruction: [SEP] {WORDS} [SEP] Back to Search"


@pytest.fixture
def session() -> Session:
    return Session(SHOP, Goal(MUG, ("dishwasher safe",), {"color": "blue"}, 20.0), WORDS)


def play(session: Session, *actions: str) -> str:
    for action in actions:
        result = session.step(action)
        assert not result.is_refused, action
    return session.look()


def test_the_visit_starts_on_the_search_page(session: Session) -> None:
    assert session.look() == f"WebShop [SEP] Instruction: [SEP] {WORDS} [SEP] Search"


def test_results_list_ten_products_with_id_title_and_price(session: Session) -> None:
    text = play(session, "search[coffee mug]")
    assert text.startswith(
        f"{HEAD} [SEP] Page 1 (Total results: 24) [SEP] Next > [SEP] B00000MUG1 [SEP] "
        "Tessaro Coffee Mug [SEP] $9.5 to $12.0 [SEP] B000000000 [SEP] Plain Mug Number 0 [SEP] "
        "$5.0"
    )
    assert len(read_page(text).listed) == 10


def test_pages_of_results_turn_forth_and_back(session: Session) -> None:
    second = play(session, "search[mug]", "click[Next >]")
    assert f"{HEAD} [SEP] Page 2 (Total results: 24) [SEP] < Prev [SEP] Next > [SEP]" in second
    third = play(session, "click[next >]")
    assert "Page 3 (Total results: 24) [SEP] < Prev [SEP] B0" in third
    assert len(read_page(third).listed) == 4
    assert play(session, "click[< Prev]") == second


def test_an_item_page_shows_options_title_price_rating_and_tabs(session: Session) -> None:
    assert play(session, "search[coffee mug]", "click[B00000MUG1]") == (
        f"{HEAD} [SEP] < Prev [SEP] color [SEP] blue [SEP] white [SEP] size [SEP] 8 oz [SEP] "
        "12 oz [SEP] Tessaro Coffee Mug [SEP] Price: $9.5 to $12.0 [SEP] Rating: N.A. [SEP] "
        "Description [SEP] Features [SEP] Reviews [SEP] Attributes [SEP] Buy Now"
    )


def test_tabs_lead_back_to_the_item_and_keep_the_options(session: Session) -> None:
    item = play(session, "search[coffee mug]", "click[b00000mug1]", "click[8 oz]")
    assert "Price: $9.5 [SEP]" in item
    tab = play(session, "click[Features]")
    assert tab == f"{HEAD} [SEP] < Prev [SEP] Dishwasher safe [SEP] Holds heat"
    assert play(session, "click[< Prev]") == item
    assert play(session, "click[description]").endswith("No Description")
    assert play(session, "click[< prev]", "click[Reviews]").endswith("No reviews found")
    attributes = play(session, "click[< prev]", "click[Attributes]")
    assert attributes.endswith(
        "dishwasher safe [SEP] garden [SEP] mugs [SEP] Home › Kitchen › Mugs"
    )


def test_a_shop_without_an_attributes_tab_refuses_the_click() -> None:
    shop = Shop("test", [MUG], shows_attributes=False)
    session = Session(shop, Goal(MUG, ("dishwasher safe",), {}, None), WORDS)
    assert "Attributes" not in play(session, "search[mug]", "click[B00000MUG1]")
    assert session.step("click[Attributes]").is_refused


def test_going_back_to_the_results_forgets_the_options(session: Session) -> None:
    play(session, "search[coffee mug]", "click[B00000MUG1]", "click[blue]", "click[< Prev]")
    result = session.step("click[B00000MUG1]")
    assert not result.is_refused
    bought = session.step("click[Buy Now]")
    assert bought.info["options"] == {}
    assert bought.reward == pytest.approx(2 / 3)


def test_buying_pays_once_and_shows_a_receipt(session: Session) -> None:
    play(session, "search[coffee mug]", "click[B00000MUG1]", "click[white]", "click[blue]")
    bought = session.step("click[Buy Now]")
    assert (bought.reward, bought.is_done, bought.is_success) == (1.0, True, True)
    assert bought.observation.text == (
        "Thank you for shopping with us! [SEP] Purchased [SEP] asin [SEP] B00000MUG1 [SEP] "
        'options [SEP] {"color": "blue"} [SEP] Your score (min 0.0, max 1.0) [SEP] 1.0'
    )
    again = session.step("click[Buy Now]")
    assert (again.reward, again.is_refused, again.is_done) == (0.0, True, True)


def test_a_purchase_that_falls_short_is_done_but_no_success(session: Session) -> None:
    play(session, "search[coffee mug]", "click[B00000MUG1]", "click[white]")
    bought = session.step("click[buy now]")
    assert (bought.is_done, bought.is_success) == (True, False)
    assert bought.reward == pytest.approx(2 / 3)


def test_back_to_search_returns_to_the_search_page(session: Session) -> None:
    start = session.look()
    assert play(session, "search[mug]", "click[Back to Search]") == start
    assert session.step("click[Next >]").is_refused


def test_searching_works_on_every_page(session: Session) -> None:
    results = play(session, "search[mug]")
    assert play(session, "click[B000000000]", "search[mug]") == results
    assert play(session, "click[B000000000]", "click[Features]", "search[mug]") == results


def test_a_search_without_hits_shows_an_empty_page(session: Session) -> None:
    assert play(session, "search[zzz]") == f"{HEAD} [SEP] Page 1 (Total results: 0)"


def test_special_queries_of_the_original_are_plain_words(session: Session) -> None:
    assert play(session, "search[<r>]").endswith("Page 1 (Total results: 0)")


def test_what_is_not_on_the_page_changes_nothing(session: Session) -> None:
    impossible = ("click[Buy Now]", "click[Search]", "click[blue]", "buy", "search[]", "search[ ]")
    for action in impossible:
        before = session.look()
        result = session.step(action)
        assert (result.is_refused, result.observation.text, result.reward) == (True, before, 0.0)
    play(session, "search[coffee mug]")
    assert session.step("click[B00000XXXX]").is_refused
    play(session, "click[B00000MUG1]")
    assert session.step("click[Next >]").is_refused
    assert session.step("click[16 oz]").is_refused


def test_overlong_keywords_are_refused(session: Session) -> None:
    assert session.step(f"search[{'mug ' * MAX_KEYWORDS_CHARS}]").is_refused


@pytest.mark.parametrize("text", HOSTILE_ACTIONS)
def test_hostile_words_are_refused_or_searched_on_every_page(session: Session, text: str) -> None:
    for move in ("search[mug]", "click[B000000001]", "click[Features]"):
        play(session, move)
        for hostile in (text, f"click[{text}]"):
            assert session.step(hostile).is_refused
    assert session.step(f"search[{text}]").reward == 0.0


@given(st.lists(st.text(max_size=30), max_size=6))
def test_nothing_typed_raises(texts: list[str]) -> None:
    session = Session(SHOP, Goal(MUG, ("dishwasher safe",), {}, None), WORDS)
    for text in texts:
        for action in (text, f"search[{text}]", f"click[{text}]"):
            session.step(action)
            assert session.look()
