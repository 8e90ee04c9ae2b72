"""Copies in the background and barriers in shared memory: they land when they are waited for, not earlier."""

import numpy as np
import pytest
from duel import HEADER, Duel

from evaluator.backends.session import Buffer, KernelLaunch, Pointer

HEAD = """
.visible .entry k(.param .u64 in, .param .u64 out) {
.reg .b64 %in, %out, %a, %state; .reg .b32 %t, %p, %r, %s, %n, %bar, %far; .reg .pred %odd, %done;
.shared .align 16 .b8 tile[8192]; .shared .align 8 .b64 barrier;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
mul.wide.u32 %a, %t, 16; add.s64 %in, %in, %a; mul.wide.u32 %a, %t, 64; add.s64 %out, %out, %a;
mov.u32 %p, tile; mad.lo.u32 %p, %t, 64, %p; mov.u32 %bar, barrier; and.b32 %r, %t, 1; setp.ne.u32 %odd, %r, 0;
mov.u32 %r, 7; st.shared.v4.b32 [%p], {%r, %r, %r, %r}; st.shared.v4.b32 [%p+16], {%r, %r, %r, %r};
st.shared.v4.b32 [%p+32], {%r, %r, %r, %r}; st.shared.v4.b32 [%p+48], {%r, %r, %r, %r}; bar.sync 0;
"""
SHOW = """
{ .reg .b32 %q<4>; ld.shared.v4.b32 {%q0, %q1, %q2, %q3}, [%p]; st.global.v4.b32 [%out], {%q0, %q1, %q2, %q3};
ld.shared.v4.b32 {%q0, %q1, %q2, %q3}, [%p+16]; st.global.v4.b32 [%out+16], {%q0, %q1, %q2, %q3};
ld.shared.v4.b32 {%q0, %q1, %q2, %q3}, [%p+32]; st.global.v4.b32 [%out+32], {%q0, %q1, %q2, %q3};
ld.shared.v4.b32 {%q0, %q1, %q2, %q3}, [%p+48]; st.global.v4.b32 [%out+48], {%q0, %q1, %q2, %q3}; }
ret; }
"""
COPY = "cp.async.ca.shared.global"
CASES = {
    "sizes": f"{COPY} [%p], [%in], 16; {COPY} [%p+16], [%in+8], 8; {COPY} [%p+36], [%in+4], 4; cp.async.wait_all;",
    "source sizes": (
        f"and.b32 %n, %t, 15; {COPY} [%p], [%in], 16, %n; {COPY} [%p+16], [%in], 8, 3; "
        f"{COPY} [%p+32], [%in], 16, 0; cp.async.commit_group; cp.async.wait_group 0;"
    ),
    "ignored sources": f"{COPY} [%p], [%in], 16, %odd; {COPY} [%p+20], [%in], 4, %odd; cp.async.wait_all;",
    "hints": (
        "cp.async.cg.shared::cta.global.L2::128B [%p], [%in], 16; mov.b64 %state, 0; "
        f"{COPY}.L2::cache_hint [%p+16], [%in], 16, %state; cp.async.wait_all;"
    ),
    "groups": (
        f"{COPY} [%p], [%in], 16; cp.async.commit_group; {COPY} [%p+16], [%in], 16; cp.async.commit_group; "
        f"{COPY} [%p+32], [%in], 16; cp.async.commit_group; {COPY} [%p+48], [%in], 16; cp.async.wait_group 1;"
    ),
    "empty groups": (
        f"{COPY} [%p], [%in], 16; cp.async.commit_group; cp.async.commit_group; {COPY} [%p+16], [%in], 16; "
        "cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 2;"
    ),
    "lanes that part": (
        f"@%odd {COPY} [%p], [%in], 16; @%odd cp.async.commit_group; {COPY} [%p+16], [%in], 16; "
        "cp.async.commit_group; cp.async.wait_group 1;"
    ),
    "nobody waits": f"{COPY} [%p], [%in], 16; cp.async.commit_group;",
    "a barrier is waited at": (
        "setp.eq.u32 %done, %t, 0; @%done mbarrier.init.shared.b64 [%bar], 64; bar.sync 0; "
        f"{COPY} [%p], [%in], 16; cp.async.mbarrier.arrive.shared.b64 [%bar]; "
        f"{COPY} [%p+16], [%in], 16; mbarrier.arrive.shared.b64 %state, [%bar]; "
        "W: mbarrier.test_wait.shared.b64 %done, [%bar], %state; @!%done bra W; xor.b32 %far, %p, 64;"
        "ld.shared.b32 %r, [%far+4]; st.shared.b32 [%p+48], %r;"
    ),
    "copies arrive alone": (
        "setp.eq.u32 %done, %t, 0; @%done mbarrier.init.shared.b64 [%bar], 64; bar.sync 0; mov.u32 %n, 0;"
        f"{COPY} [%p], [%in], 16; cp.async.mbarrier.arrive.noinc.shared.b64 [%bar]; "
        "V: mbarrier.try_wait.parity.shared.b64 %done, [%bar], 0; @!%done bra V; "
        f"{COPY} [%p+16], [%in], 16; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bar]; "
        "W: mbarrier.try_wait.parity.shared.b64 %done, [%bar], 1; @!%done bra W; bar.sync 0;"
        "setp.eq.u32 %done, %t, 0; @%done mbarrier.inval.shared.b64 [%bar];"
    ),
    "one warp feeds the other": (
        "setp.eq.u32 %done, %t, 0; @%done mbarrier.init.shared.b64 [%bar], 32; bar.sync 0; "
        "setp.lt.u32 %odd, %t, 32; @%odd bra P; "
        "W: mbarrier.test_wait.parity.shared.b64 %done, [%bar], 0; @!%done bra W; "
        "sub.u32 %far, %p, 2048; ld.shared.b32 %r, [%far+8]; st.shared.b32 [%p+32], %r; bra E; "
        f"P: {COPY} [%p], [%in], 16; cp.async.wait_all; mbarrier.arrive.shared.b64 _, [%bar]; E: "
    ),
    "some leave for good": (
        "setp.eq.u32 %done, %t, 0; @%done mbarrier.init.shared.b64 [%bar], 64; bar.sync 0; "
        "@%odd bra D; mbarrier.arrive.shared.b64 %state, [%bar]; "
        "V: mbarrier.test_wait.shared.b64 %done, [%bar], %state; @!%done bra V; "
        "mbarrier.arrive.shared.b64 %state, [%bar], 1; "
        "W: mbarrier.test_wait.shared.b64 %done, [%bar], %state; @!%done bra W; bra E; "
        "D: mbarrier.arrive_drop.shared.b64 %state, [%bar]; E: st.shared.b32 [%p], %t;"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_copies_land_when_they_are_waited_for(case, simulator):
    with Duel(simulator, HEADER + HEAD + CASES[case] + SHOW) as duel:
        words = np.random.default_rng(3).integers(1000, 1 << 32, 64 * 4 + 4, dtype=np.uint32)
        mine, theirs = duel.outputs({"in": words}, 64 * 64, block=64)
        assert mine == theirs, [np.frombuffer(data, np.uint32)[:32] for data in (mine, theirs)]


def run(simulator, text: str):
    text = HEADER + '.file 1 "kernel.cu"\n' + HEAD + text + SHOW
    with Duel(simulator, text) as duel:
        words = np.arange(64 * 4, dtype=np.uint32)
        buffers = (Buffer("in", "input", words.nbytes, 4, words), Buffer("out", "output", 64 * 64, 4, None))
        step = KernelLaunch("k", (1, 1, 1), (64, 1, 1), 0, False, (Pointer("in"), Pointer("out")))
        return duel.simulate(buffers, (step,), 5)


NAMED = {
    "read": ("", ".loc 1 19 0\nld.shared.b32 %r, [%p+12];", "line 19: read"),
    "read by another thread": ("", ".loc 1 20 0\nxor.b32 %far, %p, 64; ld.shared.b32 %r, [%far];", "line 20: read"),
    "written": ("", ".loc 1 21 0\nst.shared.b32 [%p], %t;", "line 21: wrote"),
    "one group too few": (
        f"{COPY} [%p+16], [%in], 16; cp.async.commit_group; ",
        "cp.async.wait_group 1;\n.loc 1 22 0\nld.shared.b32 %r, [%p];",
        "line 22: read",
    ),
}


@pytest.mark.parametrize("case", NAMED)
def test_a_missing_wait_is_named_with_both_lines(case, simulator):
    before, after, said = NAMED[case]
    copy = f".loc 1 11 0\n{COPY} [%p], [%in], 16; cp.async.commit_group;"
    outcome = run(simulator, f".loc 1 9 0\n{before}\n{copy}\n{after}\n.loc 1 30 0\n")
    assert f"{said} shared memory that a cp.async of line 11 has not been waited for" in outcome.warnings
    fixed = run(
        simulator, f".loc 1 9 0\n{before}\n{copy}\ncp.async.wait_group 0; bar.sync 0;\n{after}\n.loc 1 30 0\n"
    )
    assert fixed.warnings == ()


def test_a_copy_is_checked_where_it_is_issued(simulator):
    beyond = run(simulator, f".loc 1 12 0\nadd.s64 %in, %in, 1024;\n{COPY} [%p], [%in], 16; cp.async.wait_all;")
    assert (beyond.fault.kind, beyond.fault.line, beyond.fault.buffer, beyond.fault.element) == (
        "out_of_bounds",
        12,
        "in",
        256,
    )
    nothing = run(simulator, f"add.s64 %in, %in, 1024; {COPY} [%p], [%in], 16, 0; cp.async.wait_all;")
    assert nothing.fault is None
    target = run(simulator, f"{COPY} [%p+8192], [%in], 16;")
    assert target.fault.kind == "out_of_bounds"
    odd = run(simulator, f"{COPY} [%p+8], [%in], 16;")
    assert odd.fault.kind == "misaligned"


def test_too_many_arrivals_are_a_fault(simulator):
    outcome = run(simulator, "mbarrier.init.shared.b64 [%bar], 1; mbarrier.arrive.shared.b64 _, [%bar], 2;")
    assert outcome.fault.kind == "bad_barrier"
    assert run(simulator, "mbarrier.init.shared.b64 [%bar], 0;").fault.kind == "bad_barrier"


def test_a_barrier_that_nobody_completes_ends_with_the_time(simulator):
    outcome = run(
        simulator,
        "setp.eq.u32 %done, %t, 0; @%done mbarrier.init.shared.b64 [%bar], 65; bar.sync 0; "
        "mbarrier.arrive.shared.b64 %state, [%bar]; "
        "W: mbarrier.test_wait.shared.b64 %done, [%bar], %state; @!%done bra W;",
    )
    assert outcome.fault.kind == "watchdog"
