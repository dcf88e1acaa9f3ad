"""When two results are the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.envs.text.sqlgym.matching import Row, has_top_level_order, is_match

CELLS = st.one_of(
    st.none(), st.integers(-(10**12), 10**12), st.text(max_size=3), st.floats(-1e9, 1e9)
)
RESULTS = st.lists(st.tuples(CELLS, CELLS), max_size=12)


@pytest.mark.parametrize(
    ("answer", "gold", "kinds"),
    [
        ([("a",), ("b",)], [("a",), ("b",)], {"set", "bag", "list"}),
        ([("b",), ("a",)], [("a",), ("b",)], {"set", "bag"}),
        ([("a",), ("a",)], [("a",)], {"set"}),
        ([("a",)], [("a",), ("a",)], {"set"}),
        ([("a",)], [("a",), ("b",)], set()),
        ([("a",), ("b",)], [("a",)], set()),
        ([], [("a",)], set()),
        ([], [], {"set", "bag", "list"}),
        ([("a", 1)], [(1, "a")], set()),
        ([("a", 1)], [("a",)], set()),
        ([(3,)], [(3.0,)], {"set", "bag", "list"}),
        ([("3",)], [(3,)], set()),
        ([(0.1 + 0.2,)], [(0.3,)], {"set", "bag", "list"}),
        ([(1.001,)], [(1.0,)], set()),
        ([(33.33,)], [(100 / 3,)], set()),
        ([(None,)], [(None,)], {"set", "bag", "list"}),
        ([(None,)], [("",)], set()),
        ([(None,)], [(0,)], set()),
        ([("A",)], [("a",)], set()),
        ([(b"a",)], [("a",)], set()),
        ([(float("inf"),)], [(float("inf"),)], {"set", "bag", "list"}),
        # Close numbers that round to different keys still find each other.
        ([(1.23456785,), (5,)], [(5,), (1.23456784999,)], {"set", "bag"}),
        ([(1.23456785,), (1.23456785,)], [(1.23456785,), (1.23456784999,)], {"set", "bag", "list"}),
    ],
)
def test_worked_out_by_hand(answer: list[Row], gold: list[Row], kinds: set[str]) -> None:
    assert {how for how in ("set", "bag", "list") if is_match(iter(answer), gold, how)} == kinds


@given(RESULTS, st.randoms(use_true_random=False))
def test_any_order_is_the_same_bag_and_set(rows: list[Row], rng: object) -> None:
    shuffled = list(rows)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert is_match(iter(shuffled), rows, "bag")
    assert is_match(iter(shuffled), rows, "set")
    assert is_match(iter(rows), rows, "list")


@given(RESULTS)
def test_one_row_more_is_never_the_same_bag(rows: list[Row]) -> None:
    assert not is_match(iter([*rows, ("more", 1)]), rows, "bag")
    assert not is_match(iter([*rows, ("more", 1)]), rows, "list")


def test_no_more_of_the_answer_is_read_than_needed() -> None:
    def endless() -> object:
        while True:
            yield ("a",)

    assert not is_match(endless(), [("a",)], "bag")  # type: ignore[arg-type]
    assert not is_match(endless(), [("a",)], "list")  # type: ignore[arg-type]
    assert not is_match(endless(), [("b",)], "set")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sql", "is_ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("SELECT a FROM t order\n by a LIMIT 1", True),
        ("SELECT a FROM t", False),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a)", False),
        ("SELECT RANK() OVER (PARTITION BY b ORDER BY (a)) FROM t", False),
        ("SELECT RANK() OVER (ORDER BY a) FROM t ORDER BY 1", True),
        ("SELECT 'ORDER BY' FROM t", False),
        ("SELECT 'it''s (' FROM t ORDER BY 1", True),
        ('SELECT "order by" FROM t -- ORDER BY a', False),
        ("SELECT a /* ORDER BY a */ FROM t", False),
        ("WITH x AS (SELECT a FROM t ORDER BY a) SELECT * FROM x", False),
        ("SELECT [order by] FROM t", False),
    ],
)
def test_order_is_looked_for_at_the_top(sql: str, is_ordered: bool) -> None:
    assert has_top_level_order(sql) is is_ordered
