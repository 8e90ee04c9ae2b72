# ruff: noqa: E501 - PTX reads best one statement after the other
"""Lanes that execute one warp-wide instruction together with different member masks: each goes by its own."""

import re

import numpy as np
import pytest
from duel import HEADER, POISON, Duel
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from common.contract import Settings
from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer, Watch
from evaluator.stages.compile.nvcc import compile_source

LANES = 32
# Each leaves something in %d: %t is the lane, %x its value, %p whether that is odd, %m its member mask.
OPERATIONS = (
    "vote.sync.all.pred %q, %p, %m; selp.u32 %d, 1, 0, %q;",
    "vote.sync.any.pred %q, %p, %m; selp.u32 %d, 1, 0, %q;",
    "vote.sync.uni.pred %q, %p, %m; selp.u32 %d, 1, 0, %q;",
    "vote.sync.ballot.b32 %d, %p, %m;",
    "vote.sync.ballot.b32 %d, !%p, %m;",
    "redux.sync.add.u32 %d, %x, %m;",
    "redux.sync.min.u32 %d, %x, %m;",
    "redux.sync.max.s32 %d, %x, %m;",
    "redux.sync.and.b32 %d, %x, %m;",
    "redux.sync.xor.b32 %d, %x, %m;",
    "match.any.sync.b32 %d, %x, %m;",
    "match.any.sync.b64 %d, %w, %m;",
    "match.all.sync.b32 %d|%q, %x, %m; @%q add.u32 %d, %d, 1;",
    "match.all.sync.b64 %d|%q, %w, %m; @%q add.u32 %d, %d, 1;",
    "elect.sync %d|%q, %m; @%q add.u32 %d, %d, 100;",
    "shfl.sync.idx.b32 %d|%q, %x, %s, 31, %m; @%q add.u32 %d, %d, 1000;",
    "shfl.sync.up.b32 %d|%q, %x, 1, 0, %m; @%q add.u32 %d, %d, 1000;",
    "shfl.sync.down.b32 %d|%q, %x, 3, 31, %m; @%q add.u32 %d, %d, 1000;",
    "shfl.sync.bfly.b32 %d|%q, %x, 4, 0x181f, %m; @%q add.u32 %d, %d, 1000;",
    # The two sides of a branch execute different instructions, or the same one apart from each other.
    "@%p bra A; vote.sync.ballot.b32 %d, %o, %n; bra B; A: redux.sync.add.u32 %d, %x, %n; B: add.u32 %d, %d, 5;",
    "@%p bra A; match.any.sync.b32 %d, %x, %n; bra B; A: match.any.sync.b32 %d, %t, %n; B: add.u32 %d, %d, 5;",
    "mov.u32 %d, 3; @%p vote.sync.ballot.b32 %d, %o, %n; @!%p redux.sync.max.u32 %d, %x, %n;",
    "mov.u32 %d, 7; @%p activemask.b32 %d;",
    "bar.warp.sync %m; @%p bra A; bar.warp.sync %n; mov.u32 %d, 1; bra B; A: mov.u32 %d, 2; bar.warp.sync %n; B: bar.warp.sync %m;",
)  # fmt: skip
DECLARED = """.reg .u32 %t, %x, %m, %n, %s, %d; .reg .pred %p, %q, %o; .reg .b64 %from, %to, %off, %w;
ld.param.u64 %from, [in]; ld.param.u64 %to, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %off, %t, 16;
add.s64 %from, %from, %off; ld.global.v4.u32 {%x, %m, %n, %s}, [%from]; mul.wide.u32 %off, %t, 4;
add.s64 %to, %to, %off; and.b32 %d, %x, 1; setp.eq.u32 %p, %d, 1; setp.gt.u32 %o, %t, 11; mov.b64 %w, {%x, %t};
shr.u64 %w, %w, 1;"""
MODULE = HEADER.replace("sm_80", "sm_90") + "\n".join(
    [
        ".visible .entry k(.param .u64 in, .param .u64 out) {",
        DECLARED,
        *(f"{{ {text} st.global.u32 [%to+{4 * LANES * n}], %d; }}" for n, text in enumerate(OPERATIONS)),
        "ret; }",
    ]
)


@pytest.fixture(scope="module")
def masks(simulator):
    with Duel(simulator, MODULE) as duel:
        yield duel


def lanes_alike(keys: list) -> list[int]:
    """For each lane the mask of those with its key."""
    return [sum(1 << other for other, theirs in enumerate(keys) if theirs == key) for key in keys]


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(
    labels=st.one_of(
        st.lists(st.integers(0, 3), min_size=LANES, max_size=LANES),
        st.lists(st.integers(0, 31), min_size=LANES, max_size=LANES),
        st.sampled_from([2, 4, 8, 16, 32]).map(lambda size: [lane // size for lane in range(LANES)]),
    ),
    numbers=st.lists(st.integers(0, 40), min_size=LANES, max_size=LANES),
    absent=st.sampled_from([0, 0, 7]),
)
def test_each_lane_goes_by_its_own_mask(labels, numbers, absent, masks):
    present = LANES - absent
    labels, numbers = labels[:present], numbers[:present]
    members = lanes_alike(labels)
    sides = lanes_alike([(label, number % 2) for label, number in zip(labels, numbers, strict=True)])
    sources = [(5 * lane + number) % present for lane, number in enumerate(numbers)]
    words = np.array(list(zip(numbers, members, sides, sources, strict=True)), np.uint32)
    mine, theirs = masks.outputs({"in": words}, 4 * LANES * len(OPERATIONS), block=present)
    mine, theirs = (np.frombuffer(data, np.uint32).reshape(-1, LANES)[:, :present] for data in (mine, theirs))
    differing = [text for n, text in enumerate(OPERATIONS) if list(mine[n]) != list(theirs[n])]
    assert not differing
    # And against what can be said without any interpreter.
    groups = [[other for other in range(present) if members[lane] >> other & 1] for lane in range(present)]
    assert list(mine[1]) == [any(numbers[other] % 2 for other in group) for group in groups]
    assert list(mine[3]) == [sum(1 << other for other in group if numbers[other] % 2) for group in groups]
    assert list(mine[5]) == [sum(numbers[other] for other in group) for group in groups]
    assert list(mine[10]) == lanes_alike(list(zip(labels, numbers, strict=True)))
    assert list(mine[14]) == [group[0] + 100 * (group[0] == lane) for lane, group in enumerate(groups)]


SOURCE = r"""
#define KERNEL(name) extern "C" __global__ void name(const unsigned* x, unsigned* y)
__device__ unsigned half(unsigned lane) { return lane < 16 ? 0xffffu : 0xffff0000u; }
// Right ones.
KERNEL(halves_vote) { y[threadIdx.x] = __ballot_sync(half(threadIdx.x), x[threadIdx.x]); }
KERNEL(halves_shuffle) { y[threadIdx.x] = __shfl_xor_sync(half(threadIdx.x), x[threadIdx.x], 8); }
KERNEL(halves_exchange) {
    __shared__ unsigned s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp(half(threadIdx.x));
    y[threadIdx.x] = s[threadIdx.x ^ 15];
}
KERNEL(halves_then_all) {
    __shared__ unsigned s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp(half(threadIdx.x));
    unsigned v = s[threadIdx.x ^ 15];
    __syncwarp();
    y[threadIdx.x] = v + s[31 - threadIdx.x];
}
// Groups of 8, then of 16, then of 32: what one knows it hands on.
KERNEL(tree_of_groups) {
    __shared__ unsigned s[32];
    const unsigned lane = threadIdx.x;
    s[lane] = x[lane];
    for (unsigned size = 8; size <= 32; size *= 2) {
        __syncwarp(size == 32 ? ~0u : ((1u << size) - 1) << (lane & ~(size - 1)));
        if (lane % size == 0) y[lane] = s[lane + size - 1] + s[lane + size / 2 - 1];
    }
    y[lane] = x[lane];
}
// Lane 1 tells lane 2 what it learnt of lane 0: groups {0,1} and {2,3}, then {1,2} and {0,3}.
KERNEL(handed_on) {
    __shared__ unsigned s[4];
    const unsigned lane = threadIdx.x;
    if (lane >= 4) return;
    s[lane] = x[lane];
    __syncwarp(lane < 2 ? 3 : 12);
    __syncwarp(lane == 1 || lane == 2 ? 6 : 9);
    y[lane] = s[0] + s[1] + s[2] + s[3];
}
KERNEL(gone_lanes) {
    if (threadIdx.x % 3 == 0) asm volatile("exit;");
    y[threadIdx.x] = __any_sync(half(threadIdx.x), x[threadIdx.x] == 5) + __match_any_sync(half(threadIdx.x), x[threadIdx.x]);
}
// Wrong ones: a lane that never comes.
KERNEL(names_absent) { if (threadIdx.x < 16) y[threadIdx.x] = __ballot_sync(threadIdx.x < 8 ? 0xff : 0x1ff00, 1); else y[threadIdx.x] = 2; }
KERNEL(match_names_absent) { if (threadIdx.x < 16) y[threadIdx.x] = __match_any_sync(~0u, x[threadIdx.x]); else y[threadIdx.x] = 2; }
KERNEL(reduce_names_absent) { if (threadIdx.x < 16) y[threadIdx.x] = __reduce_add_sync(~0u, x[threadIdx.x]); else y[threadIdx.x] = 2; }
// A mask without the lane itself.
KERNEL(not_itself) { y[threadIdx.x] = __any_sync(0xffff, x[threadIdx.x]); }
KERNEL(sync_not_itself) { __syncwarp(half(threadIdx.x ^ 16)); y[threadIdx.x] = x[threadIdx.x]; }
// A lane that takes part, but with another mask.
KERNEL(another_mask) { y[threadIdx.x] = __reduce_max_sync(threadIdx.x < 16 ? ~0u : 0xffff0000u, x[threadIdx.x]); }
// Shuffles out of the group, here and not here.
KERNEL(foreign_lane) { y[threadIdx.x] = __shfl_sync(half(threadIdx.x), x[threadIdx.x], threadIdx.x ^ 16); }
KERNEL(missing_lane) { if (threadIdx.x < 16) y[threadIdx.x] = __shfl_sync(0xffff, x[threadIdx.x], 20); else y[threadIdx.x] = 1; }
// Nothing orders the halves.
KERNEL(race_of_halves) {
    __shared__ unsigned s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp(half(threadIdx.x));
    y[threadIdx.x] = s[threadIdx.x ^ 16];
}
KERNEL(race_after_tiles) {
    __shared__ unsigned s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp(0xffu << (threadIdx.x & 24));
    y[threadIdx.x] = s[(threadIdx.x + 8) & 31];
}
KERNEL(race_of_the_unnamed) {
    __shared__ unsigned s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp(0xffff);
    y[threadIdx.x] = s[threadIdx.x ^ 1];
}
"""
RIGHT = (
    "halves_vote", "halves_shuffle", "halves_exchange", "halves_then_all", "tree_of_groups", "handed_on", "gone_lanes",
)  # fmt: skip
WARNED = {
    "names_absent": "names lanes that do not take part",
    "match_names_absent": "names lanes that do not take part",
    "reduce_names_absent": "names lanes that do not take part",
    "not_itself": "lanes that its mask does not name",
    "sync_not_itself": "lanes that its mask does not name",
    "another_mask": "with another mask",
    "foreign_lane": "reads from a lane that its mask does not name",
    "missing_lane": "reads from a lane that does not take part",
}
RACES = ("race_of_halves", "race_after_tiles", "race_of_the_unnamed")


@pytest.fixture(scope="module")
def session(toolbox):
    compiled = compile_source(SOURCE, Settings(), "sm_80", toolbox.toolchain, toolbox.sandbox, toolbox.cache)
    assert compiled.program is not None, compiled.ruling
    with toolbox.simulator.prepare(compiled.program, Settings()) as loaded:
        yield loaded


X = np.arange(LANES, dtype=np.uint32) * 7 % 11


def run(session, kernel, **options):
    buffers = (Buffer("x", "input", X.nbytes, 4, X), Buffer("y", "output", X.nbytes, 4, None))
    step = KernelLaunch(kernel, (1, 1, 1), (LANES, 1, 1), 0, False, (Pointer("x"), Pointer("y")))
    outcome = session.run(PlanRun(buffers, (step,), 0x5B, 20.0, **options))
    assert outcome.fault is None, outcome.fault
    return outcome


@pytest.mark.parametrize("kernel", RIGHT)
def test_groups_of_a_warp_are_not_accused(kernel, session):
    outcome = run(session, kernel, watch=Watch())
    assert outcome.warnings == ()
    assert outcome.hazards == ()
    assert np.array_equal(outcome.contents["y"], run(session, kernel).contents["y"])


@pytest.mark.parametrize("kernel", WARNED)
def test_what_a_mask_leaves_undefined_is_said(kernel, session):
    (warning,) = run(session, kernel).warnings
    assert WARNED[kernel] in warning
    line = next(n for n, text in enumerate(SOURCE.splitlines(), 1) if f"KERNEL({kernel})" in text)
    assert warning.startswith(f"line {line}:")


@pytest.mark.parametrize("kernel", RACES)
def test_a_mask_orders_only_the_lanes_that_it_names(kernel, session):
    found = run(session, kernel, watch=Watch()).hazards
    assert [hazard.kind for hazard in found] == ["race"]
    body = SOURCE[SOURCE.index(f"KERNEL({kernel})") :]
    first = SOURCE[: SOURCE.index(body)].count("\n") + 1
    lines = [
        first + n
        for n, text in enumerate(body.splitlines()[:7])
        if re.search(r"\bs\[", text) and "__shared" not in text
    ]
    assert {found[0].fault.line, found[0].fault.other.line} == set(lines[:2])


def test_a_lane_outside_of_the_mask_gives_what_it_holds(session):
    """As an H200 does."""
    found = np.frombuffer(run(session, "foreign_lane").contents["y"], np.uint32)
    assert list(found) == [int(X[lane ^ 16]) for lane in range(LANES)]


SPINS = """.visible .entry k(.param .u64 out) { .reg .u32 %t, %b, %r, %s, %v; .reg .u64 %out, %d; .reg .pred %p, %q;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %s, 0; mov.u32 %r, 1;
setp.ne.u32 %p, %b, 0; @%p bra SLOW; setp.gt.u32 %p, %t, 15; @%p bra MEET;
WAIT: ld.volatile.global.u32 %r, [%out]; setp.ne.u32 %q, %r, 77; @%q bra WAIT;
MEET: bar.warp.sync -1; setp.ne.u32 %q, %r, 0; vote.sync.ballot.b32 %v, %q, -1;
mul.wide.u32 %d, %t, 4; add.u64 %d, %out, %d; st.global.u32 [%d+128], %v; bra OVER;
SLOW: ld.volatile.global.u32 %r, [%out]; add.u32 %s, %s, 1; setp.lt.u32 %q, %s, 3000; @%q bra SLOW;
mov.u32 %r, 77; st.volatile.global.u32 [%out], %r; OVER: ret; }"""


def test_who_waits_for_lanes_that_spin_on_another_block_waits_as_long_as_they_do(simulator):
    with Duel(simulator, "\n".join((HEADER, SPINS))) as duel:
        buffers = (Buffer("out", "output", 256, 4, np.zeros(64, np.uint32)),)
        step = KernelLaunch("k", (2, 1, 1), (32, 1, 1), 0, False, (Pointer("out"),))
        for schedule in (0, *range(1, 21)):
            outcome = duel.session.run(PlanRun(buffers, (step,), POISON, 20.0, schedule=schedule))
            assert outcome.fault is None, outcome.fault
            assert np.all(np.frombuffer(outcome.contents["out"], np.uint32)[32:] == 0xFFFFFFFF), schedule
