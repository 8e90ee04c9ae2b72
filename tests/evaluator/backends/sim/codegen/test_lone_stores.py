"""Whose value of which loads goes nowhere but into a guarded store."""

import pytest
from duel import HEADER

from evaluator.backends.sim.codegen.control_flow import control_flow
from evaluator.backends.sim.codegen.masks import lone_stores
from evaluator.backends.sim.ptx.parser import parse_ptx

FIRST = "mov.u32 %s, %tid.x; setp.eq.u32 %p, %s, 0;"
LOAD = "ld.global.f32 %f, [%x];"
CASES = {
    f"{FIRST} {LOAD} add.f32 %g, %f, %f; @%p st.global.f32 [%x], %g;": 1,
    f"{FIRST} L: {LOAD} add.f32 %g, %f, %f; @%p st.global.f32 [%x], %g; setp.eq.f32 %q, %g, %g; @%p bra L;": 1,
    f"{FIRST} L: {LOAD} add.f32 %g, %f, %g; @!%p st.shared.f32 [%s], %g; @%p bra L;": 1,
    f"{FIRST} @%p bra L; {LOAD} @%p st.global.f32 [%x], %f; L:": 1,
    # All use it, some use it elsewhere, it decides, it passes to another lane, it is an address.
    f"{FIRST} {LOAD} st.global.f32 [%x], %f;": 0,
    f"{FIRST} {LOAD} @%p st.global.f32 [%x], %f; @!%p st.global.f32 [%x+4], %f;": 0,
    f"{FIRST} {LOAD} setp.lt.f32 %q, %f, %g; @%q bra L; @%p st.global.f32 [%x], %f; L:": 0,
    f"{FIRST} {LOAD} setp.lt.f32 %q, %f, %g; @%q st.global.f32 [%x], %f;": 0,
    f"{FIRST} {LOAD} shfl.sync.idx.b32 %g, %f, 0, 31, -1; @%p st.global.f32 [%x], %g;": 0,
    f"{FIRST} {LOAD} @%p atom.global.add.f32 %g, [%x], %f;": 0,
    f"{FIRST} ld.global.u64 %y, [%x]; @%p st.global.f32 [%y], %f;": 0,
    # The guard may be worked out ahead, but not if it is decided more than once, or comes of what was loaded.
    f"{LOAD} {FIRST} @%p st.global.f32 [%x], %f;": 1,
    f"L: {LOAD} {FIRST} @%p st.global.f32 [%x], %f; @%p bra L;": 1,
    f"{FIRST} @%p bra L; setp.eq.u32 %q, %s, 3; L: {LOAD} @%q st.global.f32 [%x], %f;": 1,
    f"{LOAD} ld.global.u32 %s, [%x]; setp.eq.u32 %p, %s, 0; @%p st.global.f32 [%x], %f;": 0,
    f"{LOAD} mov.u32 %s, %clock; setp.eq.u32 %p, %s, 0; @%p st.global.f32 [%x], %f;": 0,
    f"mov.u32 %s, 4; L: sub.u32 %s, %s, 1; setp.eq.u32 %p, %s, 0; {LOAD} @%p st.global.f32 [%x], %f; @%p bra L;": 0,
    f"{FIRST} setp.ne.u32 %p, %s, 1; {LOAD} @%p st.global.f32 [%x], %f;": 0,
    # Strong loads say something of other threads.
    f"{FIRST} ld.volatile.global.f32 %f, [%x]; @%p st.global.f32 [%x], %f;": 0,
}


@pytest.mark.parametrize("text", CASES)
def test_which_loads_go_into_the_stores_of_some_lanes(text):
    declared = ".reg .b32 %s; .reg .f32 %f, %g; .reg .b64 %x, %y; .reg .pred %p, %q;"
    function = parse_ptx(f"{HEADER}.visible .entry k() {{ {declared} {text} ret; }}").functions["k"]
    assert len(lone_stores(control_flow(function))) == CASES[text]
