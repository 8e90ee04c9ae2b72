"""Drawn schedules: blocks and warps that come between each other where they may, the same way again for one draw."""

import re

import numpy as np
import pytest
from duel import HEADER, POISON, Duel

from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer

START = """.reg .u32 %t, %b, %n, %r, %s; .reg .u64 %out; .reg .pred %p, %q;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %nctaid.x; setp.ne.u32 %p, %t, 0;"""
KERNELS = {
    # Reads, adds and writes back: updates are lost where another block comes between.
    "adds": "@%p bra OVER; ld.volatile.global.u32 %r, [%out]; add.u32 %r, %r, 1; st.volatile.global.u32 [%out], %r;",
    # Each block waits for the one behind it, which an order of blocks that run to their ends never serves.
    "waits": """@%p bra OVER; add.u32 %s, %b, 1; setp.eq.u32 %q, %s, %n; @%q bra MINE;
AGAIN: ld.volatile.global.u32 %r, [%out]; setp.ne.u32 %q, %r, %s; @%q bra AGAIN;
MINE: membar.gl; st.volatile.global.u32 [%out], %b;""",
    # The same with atomics that change nothing.
    "asks": """@%p bra OVER; add.u32 %s, %b, 1; setp.eq.u32 %q, %s, %n; @%q bra MINE;
AGAIN: atom.global.add.u32 %r, [%out], 0; setp.ne.u32 %q, %r, %s; @%q bra AGAIN;
MINE: membar.gl; st.volatile.global.u32 [%out], %b;""",
    # Waits for a value that nobody writes.
    "never": "AGAIN: ld.volatile.global.u32 %r, [%out]; setp.ne.u32 %q, %r, 77; @%q bra AGAIN;",
    # Adds under a lock: right in any order.
    "locks": """@%p bra OVER;
AGAIN: atom.global.cas.b32 %r, [%out+4], 0, 1; setp.ne.u32 %q, %r, 0; @%q bra AGAIN;
membar.gl; ld.volatile.global.u32 %r, [%out]; add.u32 %r, %r, 1; st.volatile.global.u32 [%out], %r;
membar.gl; atom.global.exch.b32 %r, [%out+4], 0;""",
    # Blocks take two locks in different orders: where each has one of them, both wait for ever.
    "crosses": """@%p bra OVER; and.b32 %s, %b, 1; mul.wide.u32 %d, %s, 4; add.u64 %d, %out, %d;
A: atom.global.cas.b32 %r, [%d+4], 0, 1; setp.ne.u32 %q, %r, 0; @%q bra A;
xor.b32 %s, %s, 1; mul.wide.u32 %d, %s, 4; add.u64 %d, %out, %d;
B: atom.global.cas.b32 %r, [%d+4], 0, 1; setp.ne.u32 %q, %r, 0; @%q bra B;
atom.global.exch.b32 %r, [%out+4], 0; atom.global.exch.b32 %r, [%out+8], 0;""",
    # Warp after warp waits until those behind it have been there, and counts itself.
    "turns": """shr.u32 %s, %t, 5; sub.u32 %s, 7, %s;
AGAIN: ld.volatile.global.u32 %r, [%out]; setp.ne.u32 %q, %r, %s; @%q bra AGAIN;
bar.warp.sync -1; and.b32 %r, %t, 31; setp.ne.u32 %p, %r, 0; @%p bra OVER;
add.u32 %s, %s, 1; st.volatile.global.u32 [%out], %s;""",
    # Warp after warp puts its number behind those before it.
    "files": """rem.u32 %s, %t, 32; setp.ne.u32 %p, %s, 0; @%p bra OVER; atom.global.add.u32 %r, [%out], 4;
mul.wide.u32 %d, %r, 1; add.u64 %out, %out, %d; st.global.u32 [%out+4], %t;""",
}  # fmt: skip

# A schedule in which the warps of a block lose their priority together, behind those of other blocks.
ROTATES = 1293796625


@pytest.fixture(scope="module")
def duel(simulator):
    kernels = (
        f".visible .entry {name}(.param .u64 out) {{ .reg .u64 %d;\n{START}\n{body}\nOVER: ret; }}"
        for name, body in KERNELS.items()
    )
    with Duel(simulator, "\n".join((HEADER, *kernels))) as made:
        yield made


def run(duel, name, schedule, blocks=6, threads=64, limit=0):
    words = np.zeros(64, np.uint32)
    words[0] = 0 if name in ("adds", "locks", "files", "crosses", "turns") else blocks + 1
    buffers = (Buffer("out", "output", words.nbytes, 4, words),)
    step = KernelLaunch(name, (blocks, 1, 1), (threads, 1, 1), 0, False, (Pointer("out"),))
    return duel.session.run(PlanRun(buffers, (step,), POISON, 20.0, schedule=schedule, instruction_limit=limit))


def words_of(outcome):
    assert outcome.fault is None, outcome.fault
    return np.frombuffer(outcome.contents["out"], np.uint32)


def test_updates_are_lost_in_some_schedules_and_in_the_same_ones_again(duel):
    assert words_of(run(duel, "adds", 0))[0] == 6
    sums = [int(words_of(run(duel, "adds", draw))[0]) for draw in range(1, 21)]
    assert sum(found < 6 for found in sums) >= 10
    assert sums == [int(words_of(run(duel, "adds", draw))[0]) for draw in range(1, 21)]


@pytest.mark.parametrize("name", ["waits", "asks"])
def test_blocks_that_live_at_once_wait_for_each_other(duel, name):
    """Also more of them than a schedule keeps alive at first; but not more than a GPU has room for."""
    for draw in (0, *range(1, 9)):
        assert words_of(run(duel, name, draw, blocks=40))[0] == 0
    fault = run(duel, name, 0, blocks=5000, threads=32, limit=4_000_000).fault
    assert fault.kind == "no_room"
    begun, to_come = map(
        int, re.search(r"all of the (\d+) blocks that had begun .* while (\d+) had", fault.message).groups()
    )
    assert begun > 500
    assert begun + to_come == 5000


def test_what_nobody_writes_is_waited_for_in_vain(duel):
    for draw, blocks in ((0, 3), (1, 3), (2, 3000)):
        fault = run(duel, "never", draw, blocks=blocks, limit=2_000_000).fault
        assert fault.kind == "endless_wait"


def test_who_waits_for_ever_in_some_schedules_is_told_from_who_takes_long(duel):
    assert run(duel, "crosses", 0, limit=4_000_000).fault is None
    faults = [run(duel, "crosses", draw, limit=4_000_000).fault for draw in range(1, 21)]
    assert {fault and fault.kind for fault in faults} == {None, "endless_wait"}
    assert all("read again and again what no thread writes" in fault.message for fault in faults if fault)


def test_a_lock_holds_in_any_schedule(duel):
    points = set()
    for draw in range(1, 21):
        outcome = run(duel, "locks", draw)
        assert words_of(outcome)[0] == 6
        points.add(outcome.facts["schedule_points"])
    assert len(points) > 3


def test_warps_that_wait_for_each_other_in_turn_all_come_to_theirs(duel):
    """Whatever loses its priority: a warp, or its whole block at every other access."""
    for draw in (*range(1, 13), ROTATES):
        assert words_of(run(duel, "turns", draw, blocks=1, threads=256, limit=4_000_000))[0] == 8


def test_warps_of_a_block_come_in_varied_orders(duel):
    orders = {tuple(words_of(run(duel, "files", draw, blocks=1, threads=128))[1:5]) for draw in range(1, 21)}
    assert len(orders) >= 6
    assert all(sorted(order) == [0, 32, 64, 96] for order in orders)


APART = """.reg .u32 %t, %m, %r, %s, %k; .reg .u64 %out, %d; .reg .pred %p, %q;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %d, %t, 4; add.u64 %out, %out, %d; mov.u32 %k, 0;
AGAIN: add.u32 %k, %k, 1; setp.lt.u32 %q, %k, %t; @%q bra AGAIN;"""
# After a loop that each lane leaves at another time.
APART_KERNELS = {
    # Who is active together is any of the lanes that have come so far.
    "active": "activemask.b32 %m; st.global.u32 [%out], %m;",
    # Halves of the warp shuffle by themselves: each lane adds what the other 15 of its half hold.
    "halves": """setp.lt.u32 %p, %t, 16; selp.b32 %m, 0xffff, 0xffff0000, %p; mov.u32 %s, %t;
shfl.sync.bfly.b32 %r, %s, 8, 31, %m; add.u32 %s, %s, %r; shfl.sync.bfly.b32 %r, %s, 4, 31, %m; add.u32 %s, %s, %r;
shfl.sync.bfly.b32 %r, %s, 2, 31, %m; add.u32 %s, %s, %r; shfl.sync.bfly.b32 %r, %s, 1, 31, %m; add.u32 %s, %s, %r;
st.global.u32 [%out], %s;""",
    # Halves wait for each other by themselves, and read what the other half may not have written.
    "reads": """setp.lt.u32 %p, %t, 16; selp.b32 %m, 0xffff, 0xffff0000, %p; shl.b32 %s, %t, 2; mov.u32 %r, tile;
add.u32 %r, %r, %s; st.shared.u32 [%r], %t; bar.warp.sync %m; xor.b32 %s, %s, 64; mov.u32 %r, tile;
add.u32 %r, %r, %s; ld.shared.u32 %s, [%r]; st.global.u32 [%out], %s;""",
    # Each lane adds its neighbour's number to its own, in place: right where all read before any writes.
    "steps": """bar.warp.sync -1; mov.u32 %r, tile; shl.b32 %s, %t, 2; add.u32 %r, %r, %s; st.shared.u32 [%r], %t;
bar.warp.sync 0xffffffff; add.u32 %s, %s, 4; and.b32 %s, %s, 127; mov.u32 %m, tile;
add.u32 %m, %m, %s; ld.volatile.shared.u32 %s, [%m]; add.u32 %s, %s, %t; st.volatile.shared.u32 [%r], %s;
bar.warp.sync 0xffffffff; ld.shared.u32 %s, [%r]; st.global.u32 [%out], %s;""",
}  # fmt: skip


@pytest.fixture(scope="module")
def warp(simulator):
    kernels = (
        f".visible .entry {name}(.param .u64 out) {{ .shared .align 4 .b8 tile[128];\n{APART}\n{body}\nret; }}"
        for name, body in APART_KERNELS.items()
    )
    with Duel(simulator, "\n".join((HEADER, *kernels))) as made:
        yield made


def of_draws(warp, name):
    return [tuple(words_of(run(warp, name, draw, blocks=1, threads=32))[:32]) for draw in range(41)]


def test_lanes_that_have_parted_go_on_by_themselves(warp):
    masks = of_draws(warp, "active")
    assert masks[0] == (0xFFFFFFFF,) * 32
    assert len(set(masks)) > 20
    for each in masks:
        assert all(mask >> lane & 1 for lane, mask in enumerate(each))
        assert all(each[other] == mask for mask in each for other in range(32) if mask >> other & 1)


def test_those_that_a_mask_names_wait_for_each_other_and_for_nobody_else(warp):
    assert set(of_draws(warp, "halves")) == {(120,) * 16 + (376,) * 16}
    read = of_draws(warp, "reads")
    assert read[0] == tuple(lane ^ 16 for lane in range(32))
    assert len(set(read)) > 1


def test_lanes_part_at_volatile_accesses_too(warp):
    sums = of_draws(warp, "steps")
    assert sums[0] == tuple(lane + (lane + 1) % 32 for lane in range(32))
    assert len(set(sums)) > 2
