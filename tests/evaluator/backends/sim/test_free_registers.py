# ruff: noqa: E501 - PTX reads best one statement after the other
"""Special registers that PTX leaves to the machine: drawn values that GPUs have, and the same ones for the same draw."""

from itertools import pairwise

import numpy as np
import pytest
from duel import HEADER, POISON, Duel

from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer

BLOCKS, WARPS = 300, 3
NARROW = ("%smid", "%nsmid", "%warpid", "%nwarpid", "%clock", "%clock_hi", "%globaltimer_lo", "%globaltimer_hi")
WIDE = ("%clock64", "%clock64", "%globaltimer", "%globaltimer", "%gridid")
COLUMNS = len(NARROW) + len(WIDE)
READS = "".join(
    (f"mov.u32 %r, {name}; cvt.u64.u32 %v, %r; " if name in NARROW else f"mov.u64 %v, {name}; ")
    + f"st.global.u64 [%a+{8 * column}], %v;\n"
    for column, name in enumerate((*NARROW, *WIDE))
)
PTX = f"""{HEADER}
.visible .entry look(.param .u64 out) {{
.reg .u32 %r, %t, %c; .reg .u64 %a, %v; .reg .pred %p;
ld.param.u64 %a, [out]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mad.lo.u32 %c, %c, {32 * WARPS}, %t;
mad.wide.u32 %a, %c, {8 * COLUMNS}, %a;
{READS}
ret; }}
"""


@pytest.fixture(scope="module")
def look(simulator):
    """What two launches of a run give for a draw: uint64[launch, block, warp, lane, column]."""
    size = BLOCKS * WARPS * 32 * COLUMNS * 8
    with Duel(simulator, PTX) as duel:

        def run(draw):
            buffers = tuple(Buffer(name, "output", size, 8, None) for name in ("first", "second"))
            steps = tuple(
                KernelLaunch("look", (BLOCKS, 1, 1), (32 * WARPS, 1, 1), 0, False, (Pointer(one.name),))
                for one in buffers
            )
            held = duel.session.run(PlanRun(buffers, steps, POISON, 20.0, registers=draw)).contents
            both = [held[one.name].view(np.uint64).reshape(BLOCKS, WARPS, 32, COLUMNS) for one in buffers]
            return np.stack(both)

        yield run


def test_values_are_those_of_a_gpu(look):
    for draw in range(1, 49):
        seen = look(draw)
        smid, nsmid, warpid, nwarpid, clock, _, _, _, before, after, time, later, grid = np.moveaxis(seen, -1, 0)
        assert np.all(nsmid == nsmid.flat[0])
        assert (nsmid.flat[0], nwarpid.flat[0]) in {
            (108, 64),
            (114, 64),
            (132, 64),
            (128, 48),
            (142, 48),
            (72, 48),
            (56, 64),
            (82, 48),
        }
        assert np.all(smid < nsmid)
        assert np.all(smid == smid[:, :, :1, :1])
        assert len(np.unique(smid)) > 40
        assert np.all(warpid < nwarpid)
        assert np.all(warpid == warpid[..., :1])
        assert all(len(set(slots)) == WARPS for slots in warpid[..., 0].reshape(-1, WARPS))
        assert np.all(clock > 0)
        assert np.all(before < after)
        assert len(np.unique(after - before)) > 30
        assert np.all(time <= later)
        assert np.all(np.diff(time[:, :, 0, 0].reshape(-1).astype(np.int64)) >= 0)
        assert np.all(time > 10**18)
        assert grid[0].flat[0] < grid[1].flat[0]
        assert len(np.unique(grid)) == 2


def test_the_same_draw_gives_the_same_and_another_one_others(look):
    first, again, other = look(123_456_789), look(123_456_789), look(123_456_789 + 64)
    launched_before = COLUMNS - 1  # launches of a context are numbered, whatever a run draws
    assert np.array_equal(first[..., :launched_before], again[..., :launched_before])
    assert not np.array_equal(first[..., :launched_before], other[..., :launched_before])
    models = {(int(seen[..., 1].flat[0]), int(seen[..., 3].flat[0])) for seen in map(look, range(64, 72))}
    assert len(models) == 8


def test_threads_past_the_107th_multiprocessor_and_warps_out_of_order_are_met(look):
    draws = [look(draw << 6 | draw) for draw in range(1, 25)]
    assert sum(bool((seen[:, :4, ..., 0] >= 108).any()) for seen in draws) >= 4
    assert sum(bool((seen[0, 0, :, 0, 2] != range(WARPS)).any()) for seen in draws) >= 8


def test_who_reads_them_is_known(simulator):
    with Duel(simulator, PTX) as duel:
        assert set(duel.session.free_registers) == {*NARROW, *WIDE}
    plain = HEADER + ".visible .entry k() { .reg .u32 %r; mov.u32 %r, %laneid; mov.u32 %r, %lanemask_lt; ret; }"
    with Duel(simulator, plain) as duel:
        assert not duel.session.free_registers


def test_the_clock_goes_on_from_warp_to_warp(look):
    """Of one multiprocessor."""
    seen = look(8 | 2)[0]
    for one in np.unique(seen[..., 0]):
        clocks = seen[seen[..., 0, 0] == one][:, 0][..., 8:10].reshape(-1)
        assert all(a < b for a, b in pairwise(clocks.astype(object)))
