"""Four calls of one process, recorded by hand, and the plan that stands for each of them."""

import json
from dataclasses import replace

import pytest

from common.contract import Status
from common.launch_plan import Copy, Fill, Launch
from evaluator.backends.session import Entry, Parameter
from evaluator.problems.catalogue import find_problem
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.calls.process_calls import BEHIND, ProcessCalls
from evaluator.stages.lift.calls.repeated_calls import CallForm, RepeatedCalls
from evaluator.stages.lift.memory_uses import MemoryUses
from evaluator.stages.lift.recording import TENSORS_OF_CALLS, recording_of

RELU = find_problem("relu")
PTX = """
.global .align 4 .b8 table[16];
.visible .entry use(.param .u64 use_param_0, .param .u64 use_param_1, .param .u64 use_param_2) {
  ld.param.u64 %rd1, [use_param_0];
  ld.param.u64 %rd2, [use_param_1];
  ld.param.u64 %rd3, [use_param_2];
  ld.global.f32 %f1, [%rd1];
  ld.global.f32 %f2, [%rd2];
  st.global.f32 [%rd3], %f1;
}
.visible .entry change(.param .u64 change_param_0, .param .u64 change_param_1, .param .u64 change_param_2) {
  ld.param.u64 %rd1, [change_param_1];
  ld.param.u64 %rd2, [change_param_2];
  red.global.add.f32 [%rd1], 0f3F800000;
  st.global.f32 [%rd2], %f1;
}
.visible .entry look_up(.param .u64 look_up_param_0, .param .u64 look_up_param_1, .param .u64 look_up_param_2) {
  ld.param.u64 %rd2, [look_up_param_2];
  ld.global.f32 %f1, [table+4];
  st.global.f32 [%rd2], %f1;
}
.visible .entry make(.param .u64 make_param_0) {
  ld.param.u64 %rd1, [make_param_0];
  st.global.f32 [%rd1], 0f3F800000;
}
"""
POINTERS = tuple(Parameter(name, "float*", "pointer", 8, 8 * at, "float") for at, name in enumerate("xty"))
ENTRIES = (
    *(Entry(name, f"{name}(float*, float*, float*)", POINTERS) for name in ("use", "change", "look_up")),
    Entry("make", "make(float*)", POINTERS[:1]),
)
KEPT, TABLE, MORE = 4, 5, 6
"""Buffers behind those of both sets of tensors: memory that is kept over calls, a variable of the module, and more
memory."""
ZERO = {"data": "00", "stream": 0}


FORM = CallForm(RELU, ENTRIES, MemoryUses(PTX))


def recorded(each, before=lambda address: [], sets=TENSORS_OF_CALLS):
    """Both recordings: `each(number, x, y, address)` gives the steps of a call, `before` those of initialisers."""
    found = []
    for base in (1 << 39, 1 << 40):
        buffers = [{"base": (number + 1) * base + 4096, "bytes": 64} for number in range(5)]
        buffers.append({"base": 6 * base + 4096, "bytes": 16, "variable": "table"})
        buffers.append({"base": 7 * base + 4096, "bytes": 64})

        def address(number, buffers=buffers):
            return buffers[number]["base"]

        steps, calls = before(address), []
        for number, tensors in enumerate(sets):
            calls.append({"first_step": len(steps)})
            steps = steps + each(number, address(2 * tensors), address(2 * tensors + 1), address)
        told = {"buffers": buffers, "steps": steps, "streams": 1, "calls": calls}
        found.append(recording_of(json.dumps(told).encode()))
    return found


def plan(each, before=lambda address: [], again=False, **form):
    """Of `each` call and `before`, as they are `recorded`."""
    return RepeatedCalls(replace(FORM, **form), *recorded(each, before)).plan(again)


def launch(kernel, *addresses):
    arguments = [address.to_bytes(8, "little").hex() for address in addresses]
    step = {"kernel": kernel, "grid": [1, 1, 1], "block": [32, 1, 1], "shared_bytes": 0, "cooperative": False}
    return {**step, "cluster": None, "stream": 0, "arguments": arguments}


def told(found):
    return [
        (step.kernel, *step.args) if isinstance(step, Launch) else (step.kind, step.target) for step in found.steps
    ]


def test_a_table_that_is_brought_once_is_there_at_each_call():
    upload = {"data": "0102030405060708", "bytes": 8, "stream": 0}
    in_first = plan(
        lambda number, x, y, at: [
            *([{"fill": at(KEPT), **upload}] if not number else []),
            launch("use", x, at(KEPT), y),
        ]
    )
    before = plan(lambda number, x, y, at: [launch("use", x, at(KEPT), y)], lambda at: [{"fill": at(KEPT), **upload}])
    assert told(in_first) == told(before) == [("fill", "scratch1"), ("use", "x", "scratch1", "y")]
    assert in_first.steps[0] == Fill(target="scratch1", data="0102030405060708", size_bytes=8)


def test_a_kernel_that_makes_a_table_is_launched_before_and_what_reads_tensors_is_not():
    made = plan(lambda number, x, y, at: [launch("use", x, at(KEPT), y)], lambda at: [launch("make", at(KEPT))])
    assert told(made) == [("make", "scratch1"), ("use", "x", "scratch1", "y")]
    packed = plan(
        lambda number, x, y, at: [
            *([{"to": at(KEPT), "source": x, "bytes": 64, "stream": 0}] if not number else []),
            launch("use", x, at(KEPT), y),
        ]
    )
    assert told(packed) == [("use", "x", "scratch1", "y")]


def test_a_launch_on_what_an_earlier_one_made_of_a_tensor_is_not_launched_before():
    """As the middle one of three, on partial results in memory that is kept."""

    def each(number, x, y, at):
        return [launch("change", x, at(KEPT), at(KEPT)), launch("use", at(KEPT), at(KEPT), at(MORE)), last(x, y, at)]

    def last(x, y, at):
        return launch("use", x, at(MORE), y)

    assert told(plan(each, again=True)) == [
        ("change", "x", "scratch1", "scratch1"),
        ("use", "scratch1", "scratch1", "scratch2"),
        ("use", "x", "scratch2", "y"),
    ]


def test_a_variable_counts_where_a_kernel_uses_it():
    def before(at):
        return [{"fill": at(TABLE), **ZERO, "bytes": 16}]

    used = plan(lambda number, x, y, at: [launch("look_up", x, at(KEPT), y)], before)
    assert told(used) == [("fill", "table"), ("look_up", "x", "scratch1", "y")]
    assert used.steps[0].variable
    unused = plan(lambda number, x, y, at: [launch("use", x, at(KEPT), y)], before)
    assert told(unused) == [("use", "x", "scratch1", "y")]


def test_what_was_prepared_and_is_changed_is_met_as_a_call_leaves_it():
    def each(number, x, y, at):
        zeroed = [{"fill": at(KEPT), **ZERO, "bytes": 64}] if not number else []
        return [*zeroed, launch("change", x, at(KEPT), y)]

    once, twice = (plan(each, again=again) for again in (False, True))
    assert told(once) == [("fill", "scratch1"), ("change", "x", "scratch1", "y")]
    assert told(twice) == [
        ("fill", "scratch1"),
        ("fill", "x_before"),
        ("fill", "y_before"),
        ("change", "x_before", "scratch1", "y_before"),
        ("change", "x", "scratch1", "y"),
    ]
    assert [(one.name, one.shape) for one in twice.temporaries] == [
        ("scratch1", (16,)),
        ("x_before", (16,)),
        ("y_before", (16,)),
    ]


def test_an_output_of_zeros_is_filled_where_the_first_kernel_that_uses_it_looks_there():
    zeros = {"initial": (("", "y"),), "adds": False}
    looks = plan(lambda number, x, y, at: [launch("use", x, y, y)], **zeros)
    assert told(looks) == [("fill", "y"), ("use", "x", "y", "y")]
    overwrites = plan(lambda number, x, y, at: [launch("use", x, x, y), launch("use", x, y, y)], **zeros)
    assert [step[0] for step in told(overwrites)] == ["use", "use"]


def test_what_each_call_zeroes_itself_needs_no_preparation():
    zeroes = plan(
        lambda number, x, y, at: [{"fill": at(KEPT), **ZERO, "bytes": 64}, launch("change", x, at(KEPT), y)],
        again=True,
    )
    assert told(zeroes) == [("fill", "scratch1"), ("change", "x", "scratch1", "y")]


def test_a_call_that_only_copies_remembers_nothing():
    copied = plan(lambda number, x, y, at: [{"to": y, "source": x, "bytes": 64, "stream": 0}])
    assert copied.steps == (Copy(source="x", target="y", size_bytes=64),)


def test_each_later_call_that_does_something_else_has_a_plan():
    def each(number, x, y, at):
        more = {2: [launch("make", at(KEPT))], 3: [launch("make", at(KEPT)), launch("make", at(MORE))]}
        return [*more.get(number, []), launch("use", x, x, y)]

    found = plan(each)
    assert [(one.call, len(one.steps), one.others) for one in found.others] == [
        ("third call", 2, ()),
        ("fourth call", 4, ()),
    ]
    assert (found.call, told(found)) == ("second call", [("use", "x", "x", "y")])
    alike = plan(lambda number, x, y, at: each(min(number, 1), x, y, at))
    assert (alike.call, alike.others) == ("", ())


def test_calls_on_memory_that_was_prepared_in_another_way_have_plans_of_their_own():
    def each(number, x, y, at):
        filled = [{"fill": at(one), "data": f"0{one}", "bytes": 64, "stream": 0} for one in (KEPT, MORE)]
        return [*(filled if not number else []), launch("use", x, at(MORE if number == 2 else KEPT), y)]

    found = plan(each)
    assert [(one.call, one.steps[0].data) for one in (found, *found.others)] == [
        ("fourth call", "04"),
        ("third call", "06"),
        ("first call", "04"),
    ]
    assert plan(lambda number, x, y, at: [launch("make", at(KEPT)), launch("use", x, at(KEPT), y)]).others == ()


def test_a_call_that_changes_memory_of_its_own_comes_behind_the_one_that_takes_turns_with_it():
    """Buffers that differ in what was prepared: each call of the two has a plan."""

    def each(number, x, y, at):
        filled = [{"fill": at(one), "data": f"0{one}", "bytes": 64, "stream": 0} for one in (KEPT, MORE)]
        return [*(filled if not number else []), launch("change", x, at(MORE if number % 2 else KEPT), y)]

    found = plan(each, again=True)
    assert [one.call for one in (found, *found.others)] == ["fourth call", "third call", "first call"]
    for one, kept in ((found, "0604"), (found.others[0], "0406")):
        fills = {step.target: step.data for step in one.steps if isinstance(step, Fill)}
        assert fills["scratch1"] + fills["scratch2"] == kept
    assert [call[2] for call in told(found) if call[0] == "change"] == ["scratch1", "scratch2", "scratch1"]
    assert [call[2] for call in told(found.others[0]) if call[0] == "change"] == ["scratch1", "scratch2", "scratch1"]
    one_buffer = plan(lambda number, x, y, at: each(2 * min(number, 1), x, y, at), again=True)
    assert [one.call for one in one_buffer.others] == ["first call"]


@pytest.mark.parametrize(
    ("kept", "grid", "others"),
    [
        (KEPT, 1, []),
        (MORE, 1, ["call behind one at n = 4"]),
        (KEPT, 2, ["call behind one at n = 4"]),
    ],
    ids=["the same", "another buffer, prepared otherwise", "another grid"],
)
def test_a_call_behind_one_at_other_sizes_has_a_plan_where_it_does_something_else(kept, grid, others):
    def before(at):
        return [{"fill": at(one), "data": f"0{one}", "bytes": 64, "stream": 0} for one in (KEPT, MORE)]

    process = ProcessCalls({"n": 16}, {}, ({"n": 4}, {}))
    behind = recorded(
        lambda number, x, y, at: [{**launch("use", x, at(kept), y), "grid": [grid, 1, 1]}], before, BEHIND
    )
    calls = RepeatedCalls(FORM, *recorded(lambda number, x, y, at: [launch("use", x, at(KEPT), y)], before))
    found = calls.with_call_behind(calls.plan(again=True), process, *behind)
    assert [one.call for one in found.others] == others
    assert found.call == ("fourth call" if others else "")
    nothing = recorded(lambda number, x, y, at: [launch("use", x, at(KEPT), y)] * (number == 0), before, BEHIND)
    with pytest.raises(LiftRefusedError, match="its second call in one process"):
        calls.with_call_behind(calls.plan(again=True), process, *nothing)


@pytest.mark.parametrize(
    ("each", "status", "said"),
    [
        (lambda number, x, y, at: [launch("use", x, x, y)] * (number < 3), Status.REJECTED, "its fourth call"),
        (lambda number, x, y, at: [], Status.INVALID_SUBMISSION, "launches nothing"),
        (lambda number, x, y, at: [launch("use", at(0), x, y)], Status.REJECTED, "keeps pointers"),
        (
            lambda number, x, y, at: [launch("use", x, x, y), launch(("use", "change")[number == 2], x, x, y)],
            Status.UNSUPPORTED,
            "from its third to its fourth call in one process step 2, the launch of use,",
        ),
    ],
    ids=["remembers", "nothing", "keeps", "unlike"],
)
def test_calls_that_are_no_plan_are_refused(each, status, said):
    with pytest.raises(LiftRefusedError) as caught:
        plan(each)
    assert caught.value.ruling.status is status
    assert said in caught.value.ruling.message
    assert caught.value.ruling.hint
