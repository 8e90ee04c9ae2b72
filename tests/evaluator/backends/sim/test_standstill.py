"""Blocks that wait for each other for ever are told soon, and from those that wait long."""

import numpy as np
import pytest
from duel import HEADER, POISON, Duel

from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer

START = """.reg .u32 %t, %b, %n, %r, %s; .reg .u64 %out, %c, %d; .reg .pred %p, %q;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %nctaid.x; setp.ne.u32 %p, %t, 0;"""
WAIT = "WAIT: ld.volatile.global.u32 %r, [%out]; setp.ne.u32 %q, %r, 77; @%q bra WAIT;"
DONE = "mov.u32 %r, 77; st.volatile.global.u32 [%out], %r;"
KERNELS = {
    # All meet at a barrier of the program's own: the last one to come lets the others go.
    "meets": """@%p bra OVER; atom.global.add.u32 %r, [%out], 1;
AGAIN: ld.volatile.global.u32 %r, [%out]; setp.lt.u32 %q, %r, %n; @%q bra AGAIN; OVER:""",
    # Waits for what nobody writes; the other threads of each block wait at a barrier for who does.
    "never": f"@%p bra OVER; {WAIT} OVER: bar.sync 0;",
    # The same in lanes of one warp that have parted.
    "apart": f"and.b32 %r, %t, 3; setp.eq.u32 %p, %r, 0; @%p bra OVER; {WAIT} OVER: bar.warp.sync -1;",
    # The first block comes only once it has counted, in a register alone.
    "counts": f"""setp.ne.u32 %p, %b, 0; @%p bra WAIT; mov.u32 %s, 0;
COUNT: ld.volatile.global.u32 %r, [%out]; add.u32 %s, %s, 1; setp.lt.u32 %q, %s, 3000; @%q bra COUNT;
{DONE} bra OVER; {WAIT} OVER:""",
    # The same, but it waits for some time to go by, of which nothing is kept.
    "clocks": f"""setp.ne.u32 %p, %b, 0; @%p bra WAIT; mov.u64 %d, %clock64; add.u64 %d, %d, 200000;
TIME: ld.volatile.global.u32 %r, [%out]; mov.u64 %c, %clock64; setp.lt.u64 %q, %c, %d; @%q bra TIME;
{DONE} bra OVER; {WAIT} OVER:""",
    # The same in memory of one thread alone.
    "locals": f"""setp.ne.u32 %p, %b, 0; @%p bra WAIT; mov.u32 %s, 0; st.volatile.local.u32 [own], %s;
COUNT: ld.volatile.global.u32 %r, [%out]; ld.volatile.local.u32 %s, [own]; add.u32 %s, %s, 1;
st.volatile.local.u32 [own], %s; setp.lt.u32 %q, %s, 3000; @%q bra COUNT; {DONE} bra OVER; {WAIT} OVER:""",
    # The same by barriers that its warps pass, between which all is as it was.
    "barriers": f"""setp.ne.u32 %p, %b, 0; @%p bra WAIT; mov.u32 %s, 0;
COUNT: ld.volatile.global.u32 %r, [%out]; bar.sync 0; add.u32 %s, %s, 1; setp.lt.u32 %q, %s, 1000; @%q bra COUNT;
{DONE} bra OVER; {WAIT} OVER:""",
}


@pytest.fixture(scope="module")
def duel(simulator):
    kernels = (
        f".visible .entry {name}(.param .u64 out) {{ .local .u32 own;\n{START}\n{body}\nret; }}"
        for name, body in KERNELS.items()
    )
    with Duel(simulator, "\n".join((HEADER, *kernels))) as made:
        yield made


def run(duel, name, blocks, threads=64, **more):
    buffers = (Buffer("out", "output", 256, 4, np.zeros(64, np.uint32)),)
    step = KernelLaunch(name, (blocks, 1, 1), (threads, 1, 1), 0, False, (Pointer("out"),))
    return duel.session.run(PlanRun(buffers, (step,), POISON, 20.0, **more))


@pytest.mark.parametrize("name", ["never", "apart"])
def test_what_nobody_writes_is_waited_for_some_rounds_only(duel, name):
    for blocks in (2, 3, 100):
        outcome = run(duel, name, blocks)
        assert outcome.fault.kind == "endless_wait", outcome.fault
        assert "no thread writes anything new" in outcome.fault.message
        assert outcome.thread_instructions < 200_000 * blocks
        other = outcome.fault.other
        assert (other.thread, other.act) == (outcome.fault.thread, "wait")
        assert other.block != outcome.fault.block


def test_more_blocks_than_any_gpu_has_room_for_cannot_meet(duel):
    assert run(duel, "meets", 4224, threads=32).fault is None
    few, many = (run(duel, "meets", blocks, threads=32).fault for blocks in (5000, 8000))
    assert few.kind == "no_room"
    assert few.message.endswith("all of the 4224 blocks that had begun and not ended do, while 776 had not begun")
    assert many.kind == "endless_wait"
    assert "while 3776 had not begun, which a GPU has no room for before one of them ends" in many.message


def test_blocks_that_the_simulator_has_no_memory_for_are_no_reason_to_judge(duel):
    fault = run(duel, "meets", 4000).fault
    assert fault.kind == "not_held"
    assert fault.message.endswith("had not begun, for which the simulator has no memory")


@pytest.mark.parametrize("name", ["counts", "clocks", "locals", "barriers"])
def test_who_waits_long_is_let_wait(duel, name):
    for blocks in (2, 40):
        for backwards in (False, True):
            outcome = run(duel, name, blocks, backwards=backwards)
            assert outcome.fault is None, outcome.fault
            assert np.frombuffer(outcome.contents["out"], np.uint32)[0] == 77
