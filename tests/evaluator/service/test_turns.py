"""Whose request is handled next."""

import asyncio
import time

import pytest

from evaluator.service.turns import Claim, RequestTurn, Turns

A, B = Claim("10.0.0.1", b"Bearer a"), Claim("10.0.0.1", b"Bearer b")


async def begun(turns, asking, of):
    """How many requests began before the first of `of`; each is handled for a moment of the loop."""
    before, is_there = 0, asyncio.Event()

    def handle(claim):
        nonlocal before
        turn = RequestTurn(turns, claim)
        asyncio.get_running_loop().call_soon(turn.leave)
        if claim == of:
            is_there.set()
        before += not is_there.is_set()

    for claim in asking:
        turns.ask(claim, lambda claim=claim: handle(claim))
    await asyncio.wait_for(is_there.wait(), 10)
    return before


def test_one_who_asks_once_goes_before_the_rest_of_many():
    assert asyncio.run(begun(Turns(), [A] * 2000 + [B], B)) < 20


def test_made_up_keys_gain_nothing_over_another_address():
    made_up = [Claim("10.0.0.1", b"%d" % number) for number in range(2000)]
    assert asyncio.run(begun(Turns(), [*made_up, Claim("10.0.0.2", b"")], Claim("10.0.0.2", b""))) < 20


def test_few_of_one_caller_are_handled_at_one_time_and_what_waits_for_something_else_is_not():
    async def ask():
        turns, began = Turns(), []
        for number in range(20):
            turns.ask(A, lambda number=number: began.append((number, RequestTurn(turns, A))))
        for _ in range(30):
            await asyncio.sleep(0)
        assert [number for number, _ in began] == list(range(8))
        began[0][1].leave()
        began[0][1].leave()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(began) == 9
        began_s = time.monotonic()
        while len(began) < 20:
            await asyncio.sleep(0.01)
            assert time.monotonic() - began_s < 5

    asyncio.run(ask())


def test_who_gives_up_takes_nobodys_turn():
    async def ask():
        turns = Turns()

        async def begin():
            begins = asyncio.get_running_loop().create_future()
            turns.ask(A, lambda: begins.set_result(RequestTurn(turns, A)))
            return await begins

        held = [await begin() for _ in range(8)]
        held[0].leave()
        held.append(await begin())
        waiting = asyncio.create_task(held[0].take())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        for one in held:
            one.leave()
        for _ in range(9):  # one more than there are: the one who gave up has kept none
            await asyncio.wait_for(held[0].take(), 5)
            held[0].leave()
        assert not turns._held

    asyncio.run(ask())
