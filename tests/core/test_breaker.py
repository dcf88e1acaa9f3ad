from practicum.core.breaker import Breaker


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_it_opens_after_failures_in_a_row_and_lets_one_trial_through_after_the_rest() -> None:
    clock = Clock()
    breaker = Breaker(max_failures=3, rest_s=10, clock=clock)
    assert [breaker.failed() for _ in range(2)] == [False, False]
    assert breaker.allow() and not breaker.is_open
    assert breaker.failed() and breaker.is_open
    assert not breaker.allow() and breaker.wait_s == 10
    clock.now_s += 10
    assert breaker.allow()
    assert not breaker.allow()  # the trial is under way
    assert not breaker.failed()  # it was open before
    assert breaker.wait_s == 10
    clock.now_s += 10
    assert breaker.allow()
    breaker.succeeded()
    assert breaker.allow() and breaker.allow() and breaker.wait_s == 0


def test_a_success_in_between_starts_the_count_anew() -> None:
    breaker = Breaker(max_failures=2)
    breaker.failed()
    breaker.succeeded()
    assert not breaker.failed()
    assert not breaker.is_open
