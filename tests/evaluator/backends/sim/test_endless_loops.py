"""What does not end, ends by the instructions that it executed: the same ones each time, whatever it loops by."""

import numpy as np
import pytest
from duel import HEADER, POISON, Duel

from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer

LIMIT = 2_000_000
# Kernel name: (body, whether all lanes of a warp go on). The loop stands on line 20; %p is true in one thread.
ENDLESS = {
    "itself": ("AGAIN: bra AGAIN;", True),
    "one_lane": ("@!%p bra OVER; AGAIN: add.u32 %r, %r, 1; bra AGAIN; OVER:", False),
    "stores": ("AGAIN: st.volatile.global.u32 [%out], %t; bra AGAIN;", True),
    "barriers": ("AGAIN: bar.sync 0; bra AGAIN;", True),
    "naps": ("AGAIN: nanosleep.u32 100; bra AGAIN;", True),
    "atomics": ("AGAIN: atom.global.cas.b32 %r, [%out], 1, 2; setp.ne.u32 %q, %r, 7; @%q bra AGAIN;", True),
    "calls": ("AGAIN: call nothing; bra AGAIN;", True),
    "recursion": ("mov.u32 %r, 60; st.param.b32 [p0], %r; call twice, (p0);", True),
    "pointers": ("mov.u64 %a, nothing; AGAIN: call %a, (), shape; bra AGAIN;", True),
}  # fmt: skip
ENDLESS["list"] = ("mov.u32 %r, 0; L: .branchtargets B, C; B: brx.idx %r, L; C:", True)
REPEATS = {"itself", "one_lane", "stores", "naps", "atomics", "calls", "pointers", "list"}
"""Those whose rounds leave everything as it was, so that nobody has to count them to their end."""
FUNCTIONS = """.func nothing() {
.loc 1 20 0
ret; }
.func twice(.param .b32 n) { .reg .u32 %n, %m; .reg .pred %q; .param .b32 p0;
.loc 1 20 0
ld.param.u32 %n, [n]; setp.lt.s32 %q, %n, 1; @%q bra OVER; sub.u32 %m, %n, 1; st.param.b32 [p0], %m; call twice, (p0);
sub.u32 %m, %n, 2; st.param.b32 [p0], %m; call twice, (p0); OVER: ret; }"""
START = """.reg .u32 %t, %c, %r; .reg .u64 %out, %a; .reg .pred %p, %q; .param .b32 p0;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %r, 0;
mad.lo.u32 %c, %c, 100, %t; setp.eq.u32 %p, %c, 135;
shape: .callprototype _ ();
.loc 1 20 0"""


@pytest.fixture(scope="module")
def ptx():
    kernels = [
        f".visible .entry {name}(.param .u64 out) {{\n{START}\n{body}\n.loc 1 30 0\nret; }}"
        for name, (body, _) in ENDLESS.items()
    ]
    return "\n".join((HEADER, '.file 1 "kernel.cu"', FUNCTIONS, *kernels))


def run(simulator, ptx, name, limit, grid=2):
    """What a launch of blocks of 40 threads gives."""
    with Duel(simulator, ptx) as duel:
        buffers = (Buffer("out", "output", 400, 4, None),)
        step = KernelLaunch(name, (grid, 1, 1), (40, 1, 1), 0, False, (Pointer("out"),))
        return duel.session.run(PlanRun(buffers, (step,), POISON, 30.0, instruction_limit=limit))


def test_every_loop_counts_and_the_line_is_named(simulator, ptx):
    for name, (_, whole) in ENDLESS.items():
        outcome = run(simulator, ptx, name, LIMIT)
        assert outcome.fault is not None, name
        assert (outcome.fault.kernel, outcome.fault.line) == (name, 20)
        assert outcome.fault.thread is not None
        if name in REPEATS:
            assert outcome.fault.kind == "endless_wait", (name, outcome.fault)
            assert outcome.thread_instructions < LIMIT, name
            continue
        assert outcome.fault.kind == "instruction_limit", (name, outcome.fault)
        counted = "2,000,000 instructions" if whole else "250,000 instructions of warps with few lanes"
        assert counted in outcome.fault.message, name
        assert outcome.thread_instructions <= 2 * LIMIT, name
        if not whole:
            assert (outcome.fault.thread, outcome.fault.block) == ((35, 0, 0), (1, 0, 0))


def test_the_same_run_ends_at_the_same_instruction(simulator, ptx):
    ends = {
        run(simulator, ptx, name, LIMIT).thread_instructions for name in ("barriers", "atomics") for _ in range(2)
    }
    assert len(ends) == 2


def test_many_short_blocks_count_together(simulator, ptx):
    """A grid that is too large needs no loop; and one within the limit ends well."""
    straight = ptx.split(".visible .entry")[0] + (
        ".visible .entry straight(.param .u64 out) { .reg .u32 %r; " + "mov.u32 %r, %tid.x; " * 50 + "ret; }"
    )
    assert run(simulator, straight, "straight", LIMIT, grid=500).fault is None
    assert run(simulator, straight, "straight", LIMIT, grid=1000).fault.kind == "instruction_limit"
    assert np.all(run(simulator, straight, "straight", 0, grid=1000).contents["out"] == POISON)
