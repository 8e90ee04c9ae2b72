"""Which programs are run in drawn schedules, and in which of them lanes may be apart."""

import pytest
from duel import HEADER

from evaluator.backends.sim.codegen.waiting import comes_apart, depends_on_schedule
from evaluator.backends.sim.ptx import parser

DECLARED = """.visible .entry k(.param .u64 from) { .shared .align 16 .b8 tile[64]; .reg .pred %p;
.reg .b32 %a, %b, %c; .reg .b64 %x; ld.param.u64 %x, [from];
"""
APART, SCHEDULES, NEITHER = (True, True), (False, True), (False, False)
PROGRAMS = {
    "bar.sync 0; st.shared.u32 [tile], %a; bar.sync 0; ld.shared.u32 %b, [tile];": NEITHER,
    "shfl.sync.bfly.b32 %a, %b, 1, 31, 0xffffffff; bar.warp.sync -1;": NEITHER,
    "mov.b32 %c, -1; shfl.sync.bfly.b32 %a, %b, 1, 31, %c;": NEITHER,
    "shfl.sync.bfly.b32 %a, %b, 1, 31, %c;": APART,
    "mov.b32 %c, -1; @%p mov.b32 %c, 1; shfl.sync.bfly.b32 %a, %b, 1, 31, %c;": APART,
    "bar.warp.sync 0xffff;": APART,
    "activemask.b32 %a;": APART,
    # Sums that nobody reads are the same in any order, unless something else may come between.
    "atom.global.add.u32 %a, [%x], 1; red.shared.add.u32 [tile], 1;": NEITHER,
    "atom.global.add.u32 %a, [%x], 1; add.u32 %b, %a, 1;": APART,
    "red.global.add.u32 [%x], 1; red.global.max.u32 [%x], 1;": APART,
    "atom.global.exch.b32 %a, [%x], 1;": APART,
    "red.global.add.u32 [%x], 1; st.global.u32 [%x+4], %b;": SCHEDULES,
    "red.shared.add.u32 [tile], 1; st.global.u32 [%x+4], %b;": NEITHER,
    "ld.volatile.global.u32 %a, [%x];": APART,
    "st.release.gpu.global.u32 [%x], %a;": APART,
    "ld.global.nc.u32 %a, [%x]; st.global.u32 [%x], %a;": NEITHER,
    "membar.gl;": APART,
    "bar.sync 1, 64;": SCHEDULES,
}  # fmt: skip


@pytest.mark.parametrize("text", PROGRAMS)
def test_what_may_depend_on_the_order_is_told_from_the_text(text):
    functions = tuple(parser.parse_ptx(f"{HEADER}{DECLARED}{text}\nret; }}").functions.values())
    assert (comes_apart(functions), depends_on_schedule(functions)) == PROGRAMS[text]
