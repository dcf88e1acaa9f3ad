"""Machines are lent to one at a time, come back clean, and are replaced when they fail."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from desktops.memory import Factory, MemoryMachine

from practicum.config.pool import PoolConfig
from practicum.core.errors import MachineError
from practicum.desktops.pool import BusyError, Pool
from practicum.desktops.provider import leased

BROKEN = MachineError("no display", kind="x-server")


def pool_of(factory: Factory, ttl_s: float = 60, **terms: float) -> Pool[MemoryMachine]:
    return Pool(factory, PoolConfig.model_validate({"rest_s": 0.05, **terms}), ttl_s=ttl_s)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.005)


async def test_a_machine_is_used_by_one_at_a_time_and_comes_back_clean() -> None:
    factory = Factory()
    users: list[str] = []

    async def use(pool: Pool[MemoryMachine], number: int) -> None:
        async with pool.lease() as lease:
            machine = lease.machine
            assert machine.dirt == ""
            machine.dirt = f"user {number}"
            for _ in range(3):
                await asyncio.sleep(0)
                assert machine.dirt == f"user {number}"
            users.append(machine.id)

    async with pool_of(factory, size=3, spares=1) as pool:
        await asyncio.gather(*(use(pool, k) for k in range(40)))
        assert len(users) == 40
        assert 1 <= len(factory.machines) <= 3
    assert factory.up == []


async def test_spares_are_started_ahead_of_demand() -> None:
    factory = Factory()
    async with pool_of(factory, size=5, spares=2) as pool:
        await until(lambda: len(factory.up) == 2)
        async with pool.lease():
            await until(lambda: len(factory.up) == 3)
            assert factory.machines[0].log == ["start", "check"]
    assert factory.up == []


async def test_callers_are_served_in_the_order_they_came() -> None:
    order: list[int] = []
    async with pool_of(Factory(), size=1) as pool:
        first = await pool.acquire()

        async def wait(number: int) -> None:
            async with pool.lease():
                order.append(number)

        jobs = []
        for number in range(5):
            jobs.append(asyncio.create_task(wait(number)))
            await asyncio.sleep(0)
        jobs[2].cancel()
        await first.release()
        await asyncio.gather(*jobs, return_exceptions=True)
    assert order == [0, 1, 3, 4]


async def test_waiting_has_bounds() -> None:
    async with pool_of(Factory(), size=1, max_waiting=1) as pool:
        async with pool.lease():
            with pytest.raises(BusyError, match=r"within 0.01 s; 1 of 1 are lent"):
                await pool.acquire(wait_s=0.01)
            waiting = asyncio.create_task(pool.acquire())
            await asyncio.sleep(0)
            with pytest.raises(BusyError, match="1 callers wait for a desktop already"):
                await pool.acquire()
        await (await waiting).release()


async def test_a_lease_that_nobody_renews_ends_and_the_machine_goes_to_the_next() -> None:
    async with pool_of(Factory(), size=1, ttl_s=0.05) as pool:
        forgotten = await pool.acquire()
        forgotten.machine.dirt = "half an episode"
        async with pool.lease() as lease:
            assert lease.machine is forgotten.machine
            assert lease.machine.dirt == ""
            with pytest.raises(MachineError, match=r"not renewed for 0.05 s") as caught:
                _ = forgotten.computer
            assert caught.value.kind == "lost-lease"
            with pytest.raises(MachineError):
                await forgotten.renew()
            await forgotten.release()  # it is no longer theirs to give back
            await asyncio.sleep(0.2)  # four times its time: kept by the heartbeat
            assert lease.lost is None
        assert pool.metrics.value("desktop_leases_expired_total", host="local") == 1


async def test_a_machine_that_breaks_in_use_is_a_named_fault_and_is_replaced() -> None:
    factory = Factory()
    async with pool_of(factory, size=1, ttl_s=0.06) as pool:
        with pytest.raises(MachineError) as caught:
            async with pool.lease() as lease:
                lease.machine.is_up = False
                await until(lambda: lease.lost)
                raise MachineError("connection refused", kind="connection")
        assert caught.value.kind == "x-server"
        assert "m0 broke while in use: m0 is down" in str(caught.value)
        async with pool.lease() as lease:
            assert lease.machine.id == "m1"
        found = [(q.machine_id, q.during, q.kind) for q in pool.quarantine]
        assert found == [("m0", "use", "x-server")]
    assert factory.machines[0].log[-1] == "stop"


@pytest.mark.parametrize("during", ["start", "check", "reset"])
async def test_a_machine_that_fails_is_put_in_quarantine(during: str) -> None:
    factory = Factory({during: BROKEN})
    async with pool_of(factory, size=2, spares=0) as pool:
        for _ in range(2):
            async with pool.lease():
                pass
            await until(lambda: "reset" in factory.machines[-1].log)
        await until(lambda: pool.quarantine)
        assert (pool.quarantine[0].machine_id, pool.quarantine[0].during) == ("m0", during)
        assert pool.metrics.value(
            "desktop_quarantined_total", host="local", during=during, kind="x-server"
        )
        await until(lambda: not factory.machines[0].is_up)
        assert len(factory.machines) == 2


async def test_a_hanging_machine_is_given_up() -> None:
    class Hangs(MemoryMachine):
        async def reset(self) -> None:
            await asyncio.sleep(3600)

    async with Pool(lambda: Hangs("h"), PoolConfig(reset_timeout_s=0.01)) as pool:
        async with pool.lease():
            pass
        await until(lambda: pool.quarantine)
        assert pool.quarantine[0].kind == "desktop-timeout"


async def test_a_pool_whose_machines_keep_failing_rests_says_why_and_recovers() -> None:
    factory = Factory(*({"start": BROKEN} for _ in range(4)))
    async with pool_of(factory, size=2, spares=0, max_failures=3) as pool:
        with pytest.raises(MachineError, match=r"rests for .* in start: .*no display") as caught:
            await pool.acquire()
        assert caught.value.kind == "no-desktops"
        assert len(factory.machines) <= 4  # and not one more while it rests
        with pytest.raises(MachineError, match="rests"):
            await pool.acquire()
        await asyncio.sleep(0.1)
        if len(factory.machines) < 4:
            with pytest.raises(MachineError, match="rests"):
                await pool.acquire()
            await asyncio.sleep(0.1)
        async with pool.lease() as lease:
            assert lease.machine.is_up
    assert factory.up == []


async def test_a_machine_that_does_not_stop_is_tried_again_and_counted() -> None:
    factory = Factory({"check": BROKEN, "stop": OSError("busy")})
    async with pool_of(factory, size=1) as pool:
        async with pool.lease() as lease:
            assert lease.machine.id == "m1"
        assert factory.machines[0].log.count("stop") == 3
        assert pool.metrics.value("desktop_abandoned_total", host="local") == 1


async def test_closing_takes_everything_down_and_turns_away_who_waits() -> None:
    factory = Factory()
    pool = pool_of(factory, size=1)
    held = await pool.acquire()
    waiting = asyncio.create_task(pool.acquire())
    await asyncio.sleep(0)
    await pool.aclose()
    await pool.aclose()
    with pytest.raises(MachineError, match="closed"):
        await waiting
    with pytest.raises(MachineError, match="closed"):
        await pool.acquire()
    with pytest.raises(MachineError, match="closed"):
        _ = held.computer
    assert factory.up == []


async def test_a_caller_that_is_cancelled_leaves_no_machine_behind() -> None:
    async with pool_of(Factory(), size=1) as pool:
        for number in range(50):
            job = asyncio.create_task(pool.acquire())
            for _ in range(number % 7):
                await asyncio.sleep(0)
            job.cancel()
            result = (await asyncio.gather(job, return_exceptions=True))[0]
            if not isinstance(result, BaseException):
                await result.release()
        async with pool.lease() as lease:
            assert lease.machine.is_up


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_no_machine_is_lent_twice_and_none_is_left(seed: int) -> None:
    chance = random.Random(seed)
    kinds = ("start", "check", "reset", "stop")
    faults = [{chance.choice(kinds): BROKEN} if chance.random() < 0.3 else {} for _ in range(200)]
    factory = Factory(*faults)
    holders: dict[str, int] = {}
    num_served = 0

    async def use(pool: Pool[MemoryMachine], number: int) -> None:
        nonlocal num_served
        try:
            async with pool.lease(wait_s=chance.uniform(0.001, 1)) as lease:
                machine = lease.machine
                assert machine.id not in holders and machine.dirt == "" and machine.is_up
                holders[machine.id] = number
                machine.dirt = "used"
                try:
                    await asyncio.sleep(chance.uniform(0, 0.01))
                    if chance.random() < 0.1:
                        machine.is_up = False
                    num_served += 1
                finally:
                    del holders[machine.id]
        except MachineError as error:
            assert error.kind in ("busy", "no-desktops"), error

    pool = pool_of(factory, size=4, spares=2, max_failures=8, rest_s=0.01)
    async with pool:
        jobs = []
        for number in range(120):
            jobs.append(asyncio.create_task(use(pool, number)))
            await asyncio.sleep(chance.choice((0, 0, 0.003)))
            if chance.random() < 0.15:
                chance.choice(jobs).cancel()
            assert len(factory.up) <= 4 + sum("stop" in f for f in faults)
        done = await asyncio.gather(*jobs, return_exceptions=True)
        unexpected = [
            x for x in done if x is not None and not isinstance(x, asyncio.CancelledError)
        ]
        assert not unexpected
    assert num_served > 20
    assert not [m.id for m in factory.machines if m.is_up and "stop" not in m.faults]


class Vendor:
    """What someone else's SDK looks like behind the protocol."""

    id = "vendor-1"

    def __init__(self, ttl_s: float, *answers: MachineError | None) -> None:
        self.ttl_s = ttl_s
        self.answers = list(answers)
        self.num_renewals = 0
        self.is_released = False

    @property
    def computer(self) -> MemoryMachine:
        return MemoryMachine("v")

    async def renew(self) -> None:
        self.num_renewals += 1
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer

    async def release(self) -> None:
        self.is_released = True


async def test_a_heartbeat_survives_a_shaky_line_but_not_a_dead_one() -> None:
    shaky = MachineError("reset by peer", kind="connection")
    lease = Vendor(0.9, None, shaky, None)
    async with leased(lease):  # type: ignore[type-var]
        await until(lambda: lease.num_renewals >= 4)
    assert lease.is_released
    lease = Vendor(0.03, *([shaky] * 99))
    with pytest.raises(MachineError, match=r"could not be renewed for 0.03 s") as caught:
        async with leased(lease):  # type: ignore[type-var]
            await asyncio.sleep(0.3)
            raise shaky
    assert caught.value.kind == "lost-lease"
    assert lease.is_released
