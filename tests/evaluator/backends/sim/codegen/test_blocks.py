# ruff: noqa: E501 - PTX reads best one statement after the other
"""Two passes by input and result: basic blocks with where they lead, and the writes that need a lane mask."""

import pytest
from duel import HEADER

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.codegen.control_flow import control_flow
from evaluator.backends.sim.codegen.masks import lane_masks, written
from evaluator.backends.sim.ptx.model import Function
from evaluator.backends.sim.ptx.parser import parse_ptx

DECLARED = ".entry k() { .reg .u32 %a, %b, %i, %n; .reg .u64 %at; .reg .pred %p, %q; "


def function(body: str) -> Function:
    return parse_ptx(HEADER + DECLARED + body + " }").functions["k"]


def shown_flow(body: str) -> str:
    """A line for each block: its instructions, where it leads, and whether it is in a loop."""
    flow = control_flow(function(body))
    lines = [
        f"B{b.index}{' (loop)' * b.in_cycle}: {'; '.join(i.text for i in b.body) or 'nothing'}"
        f" -> {' '.join(f'B{s}' for s in b.successors) or 'end'}"
        for b in flow.blocks
    ]
    return "\n".join(
        [*lines, *(f"{label} is B{index}" for label, index in flow.labels.items()), *["spins"] * flow.spins]
    )


FLOWS = {
    "if and else": (
        "@%p bra A; add.u32 %a, %a, 1; bra B; A: sub.u32 %a, %a, 1; B: ret;",
        """B0: bra -> B2 B1
B1: add.u32; bra -> B3
B2: sub.u32 -> B3
B3: ret -> end
A is B2
B is B3""",
    ),
    # Blocks keep the text's order where their branches leave the choice: compilers write a loop before its exit.
    "a loop whose exit is written first": (
        "bra TOP; OUT: ret; TOP: setp.lt.u32 %p, %i, %n; @!%p bra OUT; add.u32 %i, %i, 1; bra TOP;",
        """B0: bra -> B1
B1 (loop): setp.lt.u32; bra -> B2 B3
B2: ret -> end
B3 (loop): add.u32; bra -> B1
OUT is B2
TOP is B1""",
    ),
    "barriers, guarded ends and what nobody reaches": (
        "bar.sync 0; @%p exit; bar.warp.sync -1; ret; add.u32 %a, %a, 1; trap;",
        """B0: bar.sync -> B1
B1: exit -> B2
B2: bar.warp.sync; ret -> end""",
    ),
    "a list of labels": (
        "T: .branchtargets A, B, A; brx.idx %a, T; A: trap; B: @%p trap; ret;",
        """B0: brx.idx -> B1 B2 B1
B1: trap -> end
B2: trap -> B3
B3: ret -> end
A is B1
B is B2""",
    ),
    "a lock": (
        "W: atom.global.cas.b32 %a, [%at], 0, 1; setp.ne.u32 %p, %a, 0; @%p bra W; ret;",
        """B0 (loop): atom.global.cas.b32; setp.ne.u32; bra -> B0 B1
B1: ret -> end
W is B0
spins""",
    ),
    "a loop that polls": (
        "W: ld.volatile.global.u32 %a, [%at]; setp.ne.u32 %p, %a, 0; @%p bra W; ret;",
        """B0 (loop): ld.volatile.global.u32; setp.ne.u32; bra -> B0 B1
B1: ret -> end
W is B0
spins""",
    ),
}


@pytest.mark.parametrize("case", FLOWS)
def test_control_flow(case):
    body, expected = FLOWS[case]
    assert shown_flow(body) == expected


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("bra NOWHERE;", "a branch to an unknown label NOWHERE"),
        ("brx.idx %a, NOWHERE;", "brx without a list of targets"),
        ("bra %a;", "bra through a register"),
    ],
)
def test_a_branch_to_nowhere_is_named(body, named):
    with pytest.raises(UnsupportedError) as found:
        control_flow(function(body))
    assert found.value.feature == named


def shown_masks(body: str) -> str:
    """A line for each block: what is live at its start, and each write, `kept` where inactive lanes keep theirs."""
    flow = control_flow(function(body))
    masks = lane_masks(flow)
    lines = []
    for block in flow.blocks:
        writes = [f"{name} kept" if masks.needed(block, name) else name for i in block.body for name in written(i)]
        lines.append(
            f"B{block.index} needs {' '.join(sorted(masks.live_in[block.index])) or 'nothing'}: {', '.join(writes)}"
        )
    return "\n".join(line.rstrip() for line in lines)


MASKS = {
    # The lanes that wait at B hold an %a of their own; %b dies in its block.
    "two values of one register": (
        "mov.u32 %a, 1; @%p bra B; mov.u32 %b, 2; add.u32 %a, %b, 3; B: st.global.u32 [%at], %a; ret;",
        """B0 needs %at %p: %a kept
B1 needs %at: %b, %a kept
B2 needs %a %at:""",
    ),
    "one value, outside a loop": (
        "mov.u32 %a, 1; @%p bra B; st.global.u32 [%at], %a; B: ret;",
        """B0 needs %at %p: %a
B1 needs %a %at:
B2 needs nothing:""",
    ),
    # Lanes that have left the loop wait with the %a of their last turn.
    "one value, in a loop": (
        "TOP: ld.global.u32 %a, [%at]; setp.eq.u32 %p, %a, 0; @%p bra TOP; st.global.u32 [%at], %a; ret;",
        """B0 needs %at: %a kept, %p
B1 needs %a %at:""",
    ),
    "what a guard, a pair and a vector write": (
        "@%q mov.u32 %a, 1; setp.lt.u32 %p|%q, %a, 2; ld.global.v2.u32 {%a, %b}, [%at]; bar.red.or.pred %q, 0, %p; ret;",
        """B0 needs %a %at %q: %a kept, %p, %q kept, %a kept, %b, %q kept
B1 needs nothing:""",
    ),
    "stores, reductions and barriers write no register": (
        "st.global.u32 [%at], %a; red.global.add.u32 [%at], %a; bar.sync %b; ret;",
        """B0 needs %a %at %b:
B1 needs nothing:""",
    ),
}


@pytest.mark.parametrize("case", MASKS)
def test_lane_masks(case):
    body, expected = MASKS[case]
    assert shown_masks(body) == expected
