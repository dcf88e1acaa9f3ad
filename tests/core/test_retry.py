import pytest

from practicum.core.retry import Again, Backoff, read_retry_after, retry

FAST = Backoff(attempts=3, first_wait_s=0.001, longest_wait_s=0.01)


class Flaky:
    def __init__(self, failures: int) -> None:
        self.calls = 0
        self._failures = failures

    async def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self._failures:
            raise OSError("down")
        return "up"


async def test_a_call_is_repeated_until_it_succeeds() -> None:
    call = Flaky(2)
    waits: list[float] = []
    assert await retry(call, lambda _: Again(), FAST, lambda _, s: waits.append(s)) == "up"
    assert call.calls == 3
    assert len(waits) == 2


async def test_attempts_are_bounded() -> None:
    call = Flaky(99)
    with pytest.raises(OSError, match="down"):
        await retry(call, lambda _: Again(), FAST)
    assert call.calls == 3


async def test_what_is_not_worth_repeating_is_raised_at_once() -> None:
    call = Flaky(1)
    with pytest.raises(OSError, match="down"):
        await retry(call, lambda _: None, FAST)
    assert call.calls == 1


def test_what_the_server_asks_for_is_the_least_that_is_waited() -> None:
    backoff = Backoff(longest_wait_s=60)
    waits = [backoff.wait_s(1, 7.0) for _ in range(50)]
    assert all(w is not None and 7.0 <= w <= 7.7 for w in waits)
    assert len(set(waits)) > 1, "no jitter"


def test_a_server_that_asks_for_too_much_is_given_up() -> None:
    assert Backoff(longest_wait_s=60).wait_s(1, 61) is None


def test_waits_grow_and_are_capped() -> None:
    backoff = Backoff(attempts=20, first_wait_s=1, longest_wait_s=8)
    for attempt, ceiling in [(1, 1), (2, 2), (3, 4), (4, 8), (9, 8)]:
        wait = backoff.wait_s(attempt, None)
        assert wait is not None and ceiling / 2 <= wait <= ceiling


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3.0), ("0", 0.0), (None, None), ("soon", None), ("-1", None), ("inf", None)],
)
def test_retry_after_is_read_in_seconds(header: str | None, seconds: float | None) -> None:
    assert read_retry_after(header) == seconds
