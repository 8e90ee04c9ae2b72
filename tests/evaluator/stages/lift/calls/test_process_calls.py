"""Which calls are made behind one at other sizes, and what becomes of them."""

import pytest

from common.contract import Status
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.calls.process_calls import ProcessCalls, calls_behind, fails_before, refused_behind
from evaluator.stages.lift.recording import Refusal


def points(*sizes):
    return [({"n": n}, {"alpha": float(at)}) for at, n in enumerate(sizes)]


def chosen(*sizes, not_at=(), most=6):
    found = calls_behind(points(*sizes), lambda one: one["n"], [{"n": n} for n in not_at], most)
    return {number: (one.sizes["n"], one.behind[0]["n"]) for number, one in found.items()}


def test_a_call_comes_behind_the_smallest_one_before_it_and_one_behind_the_largest():
    assert chosen(1000, 5, 31, 31, 1, 7) == {1: (5, 1000), 2: (31, 5), 5: (7, 1)}
    assert chosen(5, 31, 1, 7, not_at=(31,)) == {2: (1, 31), 3: (7, 1)}
    assert chosen(7, 7) == {}
    assert list(chosen(*range(1, 14), most=6)) == [2, 4, 6, 8, 10, 12]


def test_the_calls_of_a_process_and_their_tensors():
    plain, behind = ProcessCalls({"n": 7}, {"alpha": 2.0}), ProcessCalls({"n": 7}, {}, ({"n": 5}, {"alpha": 3.0}))
    assert plain.each == [({"n": 7}, {"alpha": 2.0}, number) for number in (0, 1, 0, 0)]
    assert behind.each == [({"n": 5}, {"alpha": 3.0}, 1), ({"n": 7}, {}, 0)]
    assert (plain.sizes_of_sets, behind.sizes_of_sets) == (({"n": 7}, {"n": 7}), ({"n": 7}, {"n": 5}))


def test_a_refusal_of_the_first_call_is_not_one_of_the_second():
    refusals = [Refusal(why="threw", name="", number=0, call=call) for call in (0, 1, 2)]
    assert [fails_before((one, one)) for one in refusals] == [True, True, False]
    process = ProcessCalls({"n": 7}, {}, ({"n": 5}, {}))
    with (
        pytest.raises(LiftRefusedError, match=r"It threw \(in a call behind one at n = 5\)\."),
        refused_behind(process),
    ):
        raise LiftRefusedError(Status.RUNTIME_ERROR, "It threw.")
