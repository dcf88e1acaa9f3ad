"""What the programmed player reads and decides."""

from practicum.core.agent import Situation
from practicum.core.episode import Completion, FormatError, FormatErrorKind, Turn
from practicum.core.message import Action, Observation
from practicum.core.task import Task
from practicum.envs.text.webshop.expert import (
    play_expertly,
    play_randomly,
    price_limit,
    search_words,
    unexplained,
    wanted_options,
)
from practicum.envs.text.webshop.reading import Visit, read_page, take_notes

WORDS = (
    "i need a slim fit men's t-shirt, color navy, size x-large, and price lower than 30.00 dollars"
)
HEAD = f"Instruction: [SEP] {WORDS} [SEP] Back to Search [SEP] "
START = f"WebShop [SEP] Instruction: [SEP] {WORDS} [SEP] Search"
RESULTS = (
    f"{HEAD}Page 1 (Total results: 2) [SEP] B000000001 [SEP] Vesper Men's T-Shirt Tee, Long "
    "Sleeve [SEP] $45.5 [SEP] B000000002 [SEP] Oakmere Men's T-Shirt Tee, Slim Fit [SEP] $20.0"
)
TASK = Task.create("webshop", WORDS, {})


def item(sizes: str, price: str = "$20.0") -> str:
    return (
        f"{HEAD}< Prev [SEP] color [SEP] navy [SEP] wine red [SEP] size [SEP] {sizes} [SEP] "
        f"Oakmere Men's T-Shirt Tee, Slim Fit [SEP] Price: {price} [SEP] Rating: N.A. [SEP] "
        "Description [SEP] Features [SEP] Reviews [SEP] Attributes [SEP] Buy Now"
    )


def turn(observation: str, action: str) -> Turn:
    return Turn(Observation(observation), Completion(action), Action(action))


def situation(*turns: Turn, now: str) -> Situation:
    return Situation(TASK, 0, turns, Observation(now), seed=1)


SEARCHED = turn(START, "search[slim fit men's t-shirt]")
OPENED = turn(RESULTS, "click[B000000002]")


def test_price_limit_is_read_and_not_searched_for() -> None:
    assert price_limit(WORDS) == 30.0
    assert price_limit("i need a shirt") is None
    assert search_words(WORDS) == "slim fit men's t-shirt color navy size x-large"


def test_products_over_the_price_limit_are_passed_over() -> None:
    decision = play_expertly(situation(SEARCHED, now=RESULTS))
    assert decision.action.text == "click[B000000002]"


def test_the_longest_named_value_of_an_option_is_wanted() -> None:
    visit = Visit(read_page(item("large [SEP] x-large")))
    assert wanted_options(WORDS, visit) == {"color": "navy", "size": "x-large"}


def test_options_are_set_one_by_one_and_then_the_product_is_bought() -> None:
    page = item("large [SEP] x-large")
    seen = [SEARCHED, OPENED]
    for expected in ("click[navy]", "click[x-large]", "click[Buy Now]"):
        decision = play_expertly(situation(*seen, now=page))
        assert decision.action.text == expected
        seen.append(turn(page, expected))


def test_a_product_without_the_wanted_size_is_put_back() -> None:
    decision = play_expertly(situation(SEARCHED, OPENED, now=item("small [SEP] large")))
    assert decision.action.text == "click[< Prev]"
    assert "size" in decision.thought


def test_a_product_that_turns_out_too_dear_is_put_back() -> None:
    page = item("large [SEP] x-large", "$20.0 to $40.0")
    chosen = item("large [SEP] x-large", "$40.0")
    turns = [SEARCHED, OPENED, turn(page, "click[navy]"), turn(page, "click[x-large]")]
    decision = play_expertly(situation(*turns, now=chosen))
    assert decision.action.text == "click[< Prev]"
    assert "$40.0" in decision.thought


def test_words_that_no_page_mentions_stay_unexplained() -> None:
    visit = Visit(read_page(item("x-large")))
    assert unexplained(WORDS, visit) == []
    assert unexplained(WORDS.replace("slim fit", "long sleeve"), visit) == ["long", "sleeve"]
    visit.tabs["attributes"] = ("long sleeve", "fashion", "t-shirts", "Clothing › Men")
    assert unexplained(WORDS.replace("slim fit", "long sleeve"), visit) == []


def test_half_a_phrase_explains_nothing() -> None:
    visit = Visit(read_page(item("x-large")))
    visit.tabs["attributes"] = ("long lasting", "short sleeve", "fashion", "t-shirts", "Men")
    assert unexplained(WORDS.replace("slim fit", "long sleeve"), visit) == ["long", "sleeve"]


def test_feedback_on_a_malformed_answer_is_not_taken_for_a_page() -> None:
    error = FormatError(FormatErrorKind.NO_ACTION, "Your answer held no action.")
    slip = Turn(Observation(RESULTS), Completion("hm"), None, error)
    notes = take_notes(situation(SEARCHED, slip, now=error.feedback))
    assert notes.page.kind == "results"
    decision = play_expertly(situation(SEARCHED, slip, now=error.feedback))
    assert decision.action.text == "click[B000000002]"


def test_random_player_does_the_same_for_the_same_seed() -> None:
    seen = situation(SEARCHED, now=RESULTS)
    assert play_randomly(seen) == play_randomly(seen)
