"""What orders the steps of several streams, and the orders that are left."""

import itertools
import random
import time

import pytest

from evaluator.stages.lift.calls.stream_order import (
    MAX_OTHER_ORDERS,
    Issued,
    IssuedStep,
    StreamOrder,
    Touched,
    misuse,
    orders_left_open,
    unawaited,
)
from evaluator.stages.lift.recording import RecordedAllocation, RecordedFree, RecordedOrder

NON_BLOCKING = (7, 8, 9)


def ordered(program: str) -> StreamOrder:
    """Of a program in short: `3` is a step on stream 3, `r3e1` a record, `w3e1` a wait, `h3`, `he1`, `hd` waits."""
    order = StreamOrder(NON_BLOCKING)
    for word in program.split():
        if word.isdigit():
            order.add_step(int(word))
        elif word == "hd":
            order.add(RecordedOrder(order="device"))
        elif word.startswith("he"):
            order.add(RecordedOrder(order="event", event=int(word[2:])))
        elif word.startswith("h"):
            order.add(RecordedOrder(order="stream", stream=int(word[1:])))
        else:
            stream, event = map(int, word[1:].split("e"))
            order.add(RecordedOrder(order={"r": "record", "w": "wait"}[word[0]], stream=stream, event=event))
    return order


@pytest.mark.parametrize(
    ("program", "before", "awaited"),
    [
        ("0 0", [0b0, 0b1], 0b11),
        ("1 1", [0b0, 0b1], 0b11),
        ("7 7", [0b0, 0b1], 0b00),
        ("1 2", [0b0, 0b0], 0b11),
        ("1 0", [0b0, 0b1], 0b11),
        ("0 1", [0b0, 0b1], 0b11),
        ("1 0 2", [0b0, 0b1, 0b11], 0b111),
        ("7 0", [0b0, 0b0], 0b10),
        ("0 7", [0b0, 0b0], 0b01),
        ("7 0 8 1", [0b0, 0b0, 0b0, 0b10], 0b1010),
        ("7 h7 8", [0b0, 0b1], 0b01),
        ("7 hd 8 h8", [0b0, 0b1], 0b11),
        ("7 8 h8 9 0", [0b0, 0b0, 0b10, 0b10], 0b1010),
        ("7 r7e1 7 w8e1 8", [0b0, 0b1, 0b1], 0b000),
        ("7 r7e1 7 he1 8", [0b0, 0b1, 0b1], 0b001),
        ("7 r7e1 w0e1", [0b0], 0b1),
        # What an event stood for when it was waited for counts, not what it stands for later.
        ("w8e1 7 r7e1 8", [0b0, 0b0], 0b00),
        ("r7e1 7 w8e1 8", [0b0, 0b0], 0b00),
        ("7 r7e1 8 w9e1 r8e1 9 9", [0b0, 0b0, 0b1, 0b101], 0b0000),
        # By way of a third.
        ("7 r7e1 w8e1 r8e2 w9e2 9", [0b0, 0b1], 0b00),
        # Waits and records on the default stream are commands to it, for which blocking streams wait.
        ("7 r7e1 w0e1 1", [0b0, 0b1], 0b11),
        ("1 r0e1 2", [0b0, 0b1], 0b11),
        ("1 h0 2", [0b0, 0b1], 0b11),
        ("he5 w1e5 1", [0b0], 0b1),
    ],
)
def test_a_step_comes_behind_what_cuda_puts_before_it(program, before, awaited):
    order = ordered(program)
    assert order.before == before
    assert order.awaited == awaited


def on(*buffers: str) -> Touched:
    return Touched("a launch", {name.strip("!"): name.endswith("!") for name in buffers})


@pytest.mark.parametrize(
    ("program", "steps", "orders"),
    [
        ("0 0 hd", [on("t!"), on("t")], []),
        ("7 8 hd", [on("t!"), on("u!")], []),
        ("7 8 hd", [on("t!"), on("t")], [(1, 0)]),
        ("7 7 8 8 hd", [on("t!")] * 4, [(2, 3, 0, 1), (0, 2, 1, 3)]),
        ("7 8 7 8 hd", [on("t!")] * 4, [(1, 3, 0, 2), (0, 2, 1, 3)]),
        ("7 8 9 hd", [on("t!")] * 3, [(2, 1, 0)]),
        ("7 8 7 hd", [on("t!"), on("t"), on("u")], [(1, 0, 2)]),
        # Late, by a type that says that it does not write: then it may as well not have run.
        ("0 7", [on("y!"), on("y")], [(0,), (1, 0)]),
    ],
)
def test_what_touches_the_same_and_is_not_ordered_comes_the_other_way_round(program, steps, orders):
    found = orders_left_open(ordered(program), steps, {"y": "y"})
    assert [one.steps for one in found] == orders


def test_two_steps_are_named_one_of_which_needs_the_other():
    steps = [on("w!"), on("w!", "t!"), on("t"), on("w!")]
    found, *_ = orders_left_open(ordered("7 7 8 9 hd"), steps, {})
    assert found.said.startswith("step 3 (a launch on stream 8) may run before step 2 (a launch on stream 7)")
    assert "both use 't'" in found.said


def test_an_output_is_late_where_nobody_waits_and_its_writer_is_named():
    steps = [on("t!"), on("y!", "t"), on("y")]
    assert unawaited(ordered("7 7 0"), steps, {"y": "result"}) == ("step 2 (a launch on stream 7)", "result")
    assert unawaited(ordered("7 7 0 h7"), steps, {"y": "result"}) is None
    assert unawaited(ordered("0 0 7"), steps, {"y": "result"}) is None


@pytest.mark.parametrize("seed", range(40))
def test_all_orders_keep_what_is_ordered_and_turn_round_what_is_not(seed):
    rng = random.Random(seed)
    words = [str(stream) for stream in (0, 1, 7, 8, 9)] * 3
    words += [f"r{rng.choice((0, 1, 7, 8))}e{event}" for event in range(3)]
    words += [f"w{rng.choice((0, 1, 8, 9))}e{event}" for event in range(3)] + ["h7", "hd"]
    program = rng.sample(words, rng.randrange(2, len(words)))
    order = ordered(" ".join(program))
    count = len(order.streams)
    steps = [on(*(f"{name}!" for name in rng.sample("tuvw", 2))) for _ in range(count)]
    found = [one.steps for one in orders_left_open(order, steps, {})]
    places = [{step: place for place, step in enumerate(one)} for one in [tuple(range(count)), *found]]
    assert all(sorted(one) == list(range(count)) for one in found)
    for earlier, later in itertools.combinations(range(count), 2):
        directions = {one[earlier] < one[later] for one in places}
        if order.before[later] >> earlier & 1:
            assert directions == {True}
        elif steps[earlier].buffers.keys() & steps[later].buffers.keys() and len(found) < MAX_OTHER_ORDERS:
            assert directions == {True, False}


def test_as_many_steps_as_there_may_be_on_as_many_streams_take_a_moment():
    began_s = time.monotonic()
    for streams in ((7, 8), range(1, 4097)):
        order = StreamOrder(tuple(streams))
        for number in range(4096):
            order.add_step(streams[number % len(streams)])
            order.add(RecordedOrder(order="record", stream=streams[number % len(streams)], event=number % 2))
        found = orders_left_open(order, [on("t!", "u")] * 4096, {})
        assert found
    assert time.monotonic() - began_s < 5


def issued(program: str) -> list[Issued]:
    """Of a program in short: `7.a` is a step on stream 7 on memory `a`; `+7.a` takes and `-7.a` gives back memory in
    the order of a stream, `-a` at once; `r7` and `w8` record and await one event, `h7` and `hd` let the host wait.
    """
    found: list[Issued] = []
    for word in program.split():
        stream = int(word[1]) if word[1:2].isdigit() else 0
        if word[0] in "+-":
            number = "abc".index(word[-1])
            taken = RecordedAllocation(allocate=number, stream=stream)
            found.append(
                taken if word[0] == "+" else RecordedFree(free=number, stream=stream if "." in word else None)
            )
        elif word[0].isdigit():
            found.append(IssuedStep(Touched("a launch of k", dict.fromkeys(word[2:], True)), int(word[0])))
        elif word == "hd":
            found.append(RecordedOrder(order="device"))
        else:
            found.append(RecordedOrder(order={"r": "record", "w": "wait", "h": "stream"}[word[0]], stream=stream))
    return found


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("7.a 8.b", None),
        ("+7.a 7.a -7.a", None),
        (
            "+7.a 7.a 8.a -7.a",
            "step 2 (a launch of k on stream 8) may still use 'a' when cudaFreeAsync gives it back",
        ),
        ("+7.a 7.a r7 w8 8.a r8 w7 -7.a", None),
        ("+7.a 7.a r7 w8 8.a -7.a", "step 2"),
        ("+7.a 7.a h7 -0.a", None),
        ("+7.a 7.a -0.a", "gives it back on the default stream"),
        ("+1.a 1.a -0.a +2.b 2.b -2.b", None),
        ("+1.a 1.a -2.a", "on stream 2"),
        # Each stream by itself: the pool lets the second wait.
        ("+7.a 7.a -7.a +8.b 8.b -8.b", None),
        ("+7.a 7.a -7.a +7.b 8.b", "step 2 (a launch of k on stream 8) may use 'b' while step 1"),
        ("+7.a 7.a -7.a +7.b r7 w8 8.b", None),
        ("+7.a 7.a -7.a +7.b h7 8.b", None),
        ("+7.a 7.a -7.a hd +7.b 8.b", None),
        ("+7.a +7.b 7.a -7.a 8.b", None),
        ("+7.a 8.a", None),
        # At once, which waits for nothing.
        ("+7.a 7.a -a +7.b 7.b", None),
        ("+7.a 7.a -a +8.b 8.b", "step 2"),
        ("+7.a 7.a h7 -a +8.b 8.b", None),
        ("7.a hd -a +8.b 8.b", None),
    ],
)
def test_memory_is_used_between_where_it_is_taken_and_given_back(program, said):
    found = misuse(issued(program), "abc", NON_BLOCKING)
    assert (said in found) if said else found is None, found
