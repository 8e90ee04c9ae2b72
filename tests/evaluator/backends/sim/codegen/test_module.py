"""A whole module by input and expected text: blocks, branches, masks and tables; and what the runtime is told."""

from pathlib import Path

import pytest

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.codegen.module import translate
from evaluator.backends.sim.hazards import SharedVariable
from evaluator.backends.sim.ptx.parser import parse_ptx

FOLDER = Path(__file__).parent


def test_a_module_becomes():
    found = translate(parse_ptx((FOLDER / "branches.ptx").read_text(encoding="utf-8")))
    assert found.text + "\n" == (FOLDER / "branches.cpp").read_text(encoding="utf-8")
    assert found.kernels == ("count_down",)
    assert found.variables == ("table",)
    assert found.shared == {"count_down": (SharedVariable("seen", 0, 4),)}
    assert [[step.kind for step in block] for block in found.ledger.blocks] == [
        ["constant", "constant", "move"],
        ["integer", "integer", "control"],
        ["integer"],
        ["integer", "integer", "control"],
        ["control"],
        ["barrier"],
        ["global", "control"],
    ]


@pytest.mark.parametrize(
    ("ptx", "named"),
    [
        (".extern .global .u32 elsewhere; .entry k() { ret; }", "an external variable elsewhere"),
        (".global .u32 small = wide; .global .u64 wide; .entry k() { ret; }", "the initial value of small"),
        (".func f() { .shared .b32 x; ret; } .entry k() { ret; }", "shared memory declared in the device function f"),
        (".entry k(.param .align 4 .b8 huge[65536]) { ret; }", "65536 bytes of parameters"),
        (".entry k() { .reg .b128 %wide; ret; }", "the 128-bit register %wide"),
    ],
)
def test_a_module_that_cannot_be_run_is_named(ptx, named):
    with pytest.raises(UnsupportedError) as found:
        translate(parse_ptx(".version 8.0\n.target sm_80\n.address_size 64\n" + ptx))
    assert found.value.feature == named
