"""Which strong loads may be performed behind which later accesses."""

import pytest
from duel import HEADER

from evaluator.backends.sim.codegen.control_flow import control_flow
from evaluator.backends.sim.codegen.masks import late_loads, passed_accesses
from evaluator.backends.sim.ptx.model import Function, Instruction
from evaluator.backends.sim.ptx.parser import parse_ptx

LOAD = "ld.relaxed.gpu.global.u32 %r, [%x];"
CASES = {
    # Up to the first use of its value, and behind what only computes.
    "add.u32 %s, %s, 1; st.relaxed.gpu.global.u32 [%y], %s; ld.global.u32 %t, [%y]; st.global.u32 [%y], %r;": [2, 3],
    "st.global.u32 [%y], %r;": [],
    "@%p st.global.u32 [%y], %s; mov.u32 %r, 1;": [1],
    # Not with another address, behind what orders it, or behind what may wait.
    "mov.u64 %x, %y; st.global.u32 [%y], %s;": [],
    "ld.global.u64 %x, [%y];": [],
    "fence.acq_rel.cta; st.global.u32 [%y], %s;": [],
    "bar.sync 0; st.global.u32 [%y], %s;": [],
    "st.release.gpu.global.u32 [%y], %s;": [],
    "ld.acquire.gpu.global.u32 %s, [%y];": [],
    "atom.global.add.u32 %t, [%y], 1; st.global.u32 [%y], %s;": [],
    # Shared memory lies elsewhere.
    "st.shared.u32 [%s], %s; st.global.u32 [%y], %s;": [2],
}


def function_of(text: str) -> Function:
    declared = ".reg .b32 %r, %s, %t; .reg .b64 %x, %y; .reg .pred %p;"
    return parse_ptx(f"{HEADER}.visible .entry k() {{ {declared} {text} ret; }}").functions["k"]


def body_of(text: str) -> list[Instruction]:
    return [i for i in function_of(text).body if isinstance(i, Instruction)]


@pytest.mark.parametrize("behind", CASES)
def test_a_load_passes_what_does_not_need_it(behind):
    found = late_loads(body_of(LOAD + behind))
    assert [list(load.passed) for load in found] == ([CASES[behind]] if CASES[behind] else [])


OTHERS = (
    "ld.global.u32 %r, [%x];",
    "ld.acquire.gpu.global.u32 %r, [%x];",
    "ld.volatile.shared.u32 %r, [%s];",
    "ld.relaxed.gpu.global.u64 %x, [%x];",
)


@pytest.mark.parametrize("load", OTHERS)
def test_others_are_performed_where_they_stand(load):
    assert late_loads(body_of(load + "st.global.u32 [%y], %t;")) == ()


def test_a_load_and_what_it_passes_stay_in_one_block():
    function = function_of(f"L: {LOAD} st.relaxed.gpu.global.u32 [%y], %s; st.relaxed.gpu.global.u32 [%y], %r;")
    assert passed_accesses(function) == {2}
    assert [len(block.body) for block in control_flow(function, passed_accesses(function)).blocks] == [2, 2]
    assert [len(block.body) for block in control_flow(function).blocks] == [1, 1, 2]
