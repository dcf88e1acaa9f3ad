"""What carries an id is done at most once, however long ago that was."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from practicum.desktops.server.once import Once


class Deed:
    """Counts how often it is done."""

    def __init__(self, size: int = 10) -> None:
        self.times = 0
        self.size = size

    async def __call__(self) -> web.Response:
        self.times += 1
        await asyncio.sleep(0)
        return web.Response(body=b"x" * self.size, status=201)


async def test_an_answer_is_given_again() -> None:
    once, deed = Once(), Deed()
    first, second = [await once.respond("a", b"1", deed) for _ in range(2)]
    assert (first.status, first.body) == (second.status, second.body) and deed.times == 1


async def test_who_asks_while_it_is_done_waits_for_the_answer() -> None:
    once, deed = Once(), Deed()
    answers = await asyncio.gather(*(once.respond("a", b"1", deed) for _ in range(9)))
    assert {answer.status for answer in answers} == {201} and deed.times == 1


async def test_a_deed_whose_answer_was_dropped_is_not_done_again() -> None:
    once, deed = Once(max_bytes=15), Deed()
    for name in "abc":
        await once.respond(name, b"1", deed)
    assert deed.times == 3
    assert (await once.respond("a", b"1", deed)).status == 409
    assert (await once.respond("c", b"1", deed)).status == 201
    assert deed.times == 3


async def test_ids_are_forgotten_in_the_end() -> None:
    once, deed = Once(max_ids=2), Deed()
    for name in "abca":
        await once.respond(name, b"1", deed)
    assert deed.times == 4


async def test_an_id_belongs_to_one_content() -> None:
    once, deed = Once(), Deed()
    await once.respond("a", b"1", deed)
    assert (await once.respond("a", b"2", deed)).status == 409 and deed.times == 1


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb"])
async def test_an_id_is_short_and_printable(name: str) -> None:
    deed = Deed()
    assert (await Once().respond(name, b"1", deed)).status == 400 and deed.times == 0


async def test_a_server_that_goes_down_leaves_nobody_waiting() -> None:
    once = Once()

    async def cut_off() -> web.Response:
        raise asyncio.CancelledError

    async def ask() -> int:
        return (await once.respond("a", b"1", cut_off)).status

    with pytest.raises(asyncio.CancelledError):
        await ask()
    assert await ask() == 409
