"""Cooperative launches: all blocks live at once, each with shared and local memory of its own."""

import numpy as np
import pytest
from duel import HEADER, Duel

from evaluator.backends.session import Buffer, KernelLaunch, Pointer, UnsupportedError

# Blocks meet as those of cooperative groups do: the first thread of each counts itself in the launch's workspace and
# polls until all have come. Each thread keeps something in shared memory, in local memory and in registers meanwhile.
MEET = """
bar.sync 0; @!%first bra M{n};
atom.add.release.gpu.u32 %r, [%work+{place}], 1;
P{n}: ld.acquire.gpu.u32 %r, [%work+{place}]; setp.lt.u32 %few, %r, %blocks; @%few bra P{n};
M{n}: barrier.sync 0;
"""
KERNEL = (
    HEADER
    + """
.visible .entry k(.param .u64 in, .param .u64 out) {
.reg .b64 %in, %out, %work, %a; .reg .b32 %t, %b, %n, %i, %r, %s, %blocks, %p, %lo, %hi; .reg .pred %first, %few;
.shared .align 4 .b8 tile[512]; .local .align 4 .b8 room[16];
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x;
mov.u32 %blocks, %nctaid.x; mov.u32 %lo, %envreg2; mov.u32 %hi, %envreg1; mov.b64 %work, {%lo, %hi};
setp.eq.u32 %first, %t, 0; mad.lo.u32 %i, %b, %n, %t; mul.wide.u32 %a, %i, 4; add.s64 %in, %in, %a;
mov.u32 %p, tile; mad.lo.u32 %p, %t, 4, %p; ld.global.u32 %s, [%in];
st.shared.u32 [%p], %s; st.local.u32 [room+4], %s;
mad.lo.u32 %s, %s, 3, %b; mul.wide.u32 %a, %i, 16; add.s64 %a, %out, %a; st.global.u32 [%a], %s;
"""
    + MEET.format(n=1, place=0)
    + """
add.u32 %r, %b, 1; rem.u32 %r, %r, %blocks; mad.lo.u32 %r, %r, %n, %t; mul.wide.u32 %a, %r, 16; add.s64 %a, %out, %a;
ld.global.u32 %r, [%a]; ld.shared.u32 %s, [%p]; add.u32 %r, %r, %s; ld.local.u32 %s, [room+4]; add.u32 %r, %r, %s;
mul.wide.u32 %a, %i, 16; add.s64 %out, %out, %a; st.global.u32 [%out+4], %r;
"""
    + MEET.format(n=2, place=4)
    + "st.global.u32 [%out+8], %s; st.global.u32 [%out+12], %blocks; ret; }"
)


def launch(duel: Duel, blocks: int, threads: int, backwards: bool = False, cooperative: bool = True):
    words = np.random.default_rng(1).integers(0, 1 << 32, blocks * threads, dtype=np.uint32)
    buffers = (
        Buffer("in", "input", words.nbytes, 4, words),
        Buffer("out", "output", 16 * blocks * threads, 4, None),
    )
    step = KernelLaunch("k", (blocks, 1, 1), (threads, 1, 1), 0, cooperative, (Pointer("in"), Pointer("out")))
    return buffers, (step,)


@pytest.mark.parametrize(("blocks", "threads"), [(1, 32), (7, 64), (5, 100)])
def test_the_blocks_of_a_cooperative_launch_meet(blocks, threads, simulator):
    with Duel(simulator, KERNEL) as duel:
        buffers, steps = launch(duel, blocks, threads)
        outcome = duel.simulate(buffers, steps)
        assert outcome.fault is None
        assert bytes(outcome.contents["out"]) == duel.interpret(buffers, steps)["out"]
        again = duel.simulate(buffers, steps)
        assert bytes(again.contents["out"]) == bytes(outcome.contents["out"])


def test_many_blocks_meet_quickly_and_an_ordinary_launch_has_no_place_to_meet(simulator):
    with Duel(simulator, KERNEL) as duel:
        outcome = duel.simulate(*launch(duel, 264, 128), time_limit_s=20)
        assert outcome.fault is None
        rows = np.frombuffer(outcome.contents["out"], np.uint32).reshape(-1, 4)
        assert (rows[:, 3] == 264).all()
        assert duel.simulate(*launch(duel, 2, 32)).fault is None
        # Without the workspace the null pointer is named.
        assert duel.simulate(*launch(duel, 2, 32, cooperative=False)).fault.kind == "null"


def test_a_launch_of_too_many_warps_is_named(simulator):
    with Duel(simulator, KERNEL) as duel, pytest.raises(UnsupportedError, match="a cooperative launch of 4100 warps"):
        duel.simulate(*launch(duel, 4100, 32))
