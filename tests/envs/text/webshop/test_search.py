"""Search: ranked by BM25, ordered the same everywhere."""

from practicum.core.canonical import content_hash
from practicum.envs.text.webshop.search import SearchIndex, tokenize
from practicum.envs.text.webshop.shops import generated_shop
from practicum.envs.text.webshop.tasks import PANELS

RANKING_SHA256 = "57a7dcfad87e1d14e88a866b9f48355392dd4c865d522536e125749a3eacdbda"


def test_words_are_lower_cased_stemmed_and_rid_of_stop_words() -> None:
    assert tokenize("The Women's BOOTS, with 9.5 sizes") == ["women", "boot", "9.5", "size"]


def test_rare_words_outweigh_common_ones() -> None:
    index = SearchIndex(["red shoe", "blue shoe", "green shoe with laces"])
    assert index.search("blue shoe")[0] == 1
    assert index.search("laces") == [2]


def test_equal_scores_keep_the_order_of_the_catalogue() -> None:
    index = SearchIndex(["soap bar"] * 5 + ["lamp"])
    assert index.search("soap") == [0, 1, 2, 3, 4]


def test_unknown_words_find_nothing() -> None:
    index = SearchIndex(["soap bar"])
    assert index.search("zzz") == []
    assert index.search("!!! ???") == []
    assert index.search("the") == []


def test_at_most_fifty_results_are_returned() -> None:
    assert len(generated_shop().search("men's t-shirt")) == 50


def test_the_ranking_of_the_dev_instructions_is_pinned() -> None:
    shop = generated_shop()
    ranked = [[p.asin for p in shop.search(task.prompt)] for task in PANELS.load("dev").tasks[::4]]
    assert content_hash(ranked) == RANKING_SHA256
