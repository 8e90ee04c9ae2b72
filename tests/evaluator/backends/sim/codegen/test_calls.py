# ruff: noqa: E501 - PTX reads best one statement after the other
"""Calls through registers: what each lane calls, how often lanes part, and what no address may do."""

import numpy as np
import pytest
from duel import HEADER, POISON, Duel, entries_of

from common.contract.counters import LaunchCounts
from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer, Program, UnsupportedError
from evaluator.backends.sim.codegen.module import translate
from evaluator.backends.sim.ptx.parser import parse_ptx

FUNCTIONS = """
.func (.param .b32 back) twice(.param .b32 what);
.func (.param .b32 back) plus(.param .b32 what);
.func (.param .b32 back) nested(.param .b32 what);
.func (.param .b32 back) ends(.param .b32 what);
.func pair(.param .align 8 .b8 both[8]);
.global .align 8 .u64 table[5] = {twice, 0, plus, nested, generic(twice)};
.const .align 8 .u64 few[2] = {plus, twice};
.global .align 1 .u8 packed[9] = {7, 0XFF(plus), 0xFF00(plus), 0xFF0000(plus), 0xFF000000(plus), 0xFF00000000(plus), 0xFF0000000000(plus), 0xFF000000000000(plus), 0xFF00000000000000(plus)};
.global .align 8 .u64 behind = generic(table)+16;
.global .align 4 .u32 seen[2];
.func (.param .b32 back) twice(.param .b32 what) { .reg .b32 %r; ld.param.b32 %r, [what]; add.u32 %r, %r, %r; st.param.b32 [back], %r; ret; }
.func (.param .b32 back) plus(.param .b32 what) { .reg .b32 %r; ld.param.b32 %r, [what]; add.u32 %r, %r, 5; st.param.b32 [back], %r; ret; }
.func (.param .b32 back) nested(.param .b32 what) {
.reg .b32 %r; .reg .b64 %f; .param .b32 given; .param .b32 got;
ld.param.b32 %r, [what]; st.param.b32 [given], %r; mov.u64 %f, plus;
P: .callprototype (.param .b32 _) _ (.param .b32 _);
call.uni (got), %f, (given), P; ld.param.b32 %r, [got]; mul.lo.u32 %r, %r, 3; st.param.b32 [back], %r; ret; }
.func (.param .b32 back) ends(.param .b32 what) { exit; }
.func pair(.param .align 8 .b8 both[8]) { .reg .b32 %a, %b; ld.param.v2.b32 {%a, %b}, [both]; red.global.add.u32 [seen], %a; red.global.add.u32 [seen+4], %b; ret; }
"""
START = """.reg .b32 %r, %t, %u; .reg .b64 %in, %out, %f, %a, %b; .reg .pred %p, %q; .param .b32 given; .param .b32 got; .param .align 8 .b8 two[8];
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
mul.wide.u32 %a, %t, 4; add.u64 %in, %in, %a; add.u64 %out, %out, %a; ld.global.u32 %r, [%in]; st.param.b32 [given], %r;
"""
PROTOTYPE = "P: .callprototype (.param .b32 _) _ (.param .b32 _); "
CALL = "call (got), %f, (given), P; ld.param.b32 %r, [got]; "
STORE = "st.global.u32 [%out], %r;"
BODIES = {
    "by parity": "and.b32 %u, %t, 1; setp.eq.u32 %p, %u, 0; mov.u64 %f, twice; mov.u64 %a, plus; selp.b64 %f, %f, %a, %p; "
    + PROTOTYPE + CALL + STORE,
    "from tables": "rem.u32 %u, %t, 3; setp.eq.u32 %p, %u, 1; selp.u32 %u, 3, %u, %p; mul.wide.u32 %a, %u, 8; mov.u64 %b, table; add.u64 %a, %a, %b; "
    "ld.global.u64 %f, [%a]; " + PROTOTYPE + CALL + STORE,
    "of a list": "and.b32 %u, %t, 1; mul.wide.u32 %a, %u, 8; mov.u64 %b, few; add.u64 %a, %a, %b; ld.const.u64 %f, [%a]; "
    "call (got), %f, (given), few; ld.param.b32 %r, [got]; st.param.b32 [given], %r; "
    "T: .calltargets twice, plus, nested; call (got), %f, (given), T; ld.param.b32 %r, [got]; " + STORE,
    "by bytes and offsets": "mov.u64 %f, 0; mov.u32 %u, 8; mov.u64 %a, packed; add.u64 %a, %a, 8; "
    "AGAIN: ld.global.u8 %b, [%a]; shl.b64 %f, %f, 8; or.b64 %f, %f, %b; add.u64 %a, %a, -1; add.u32 %u, %u, -1; setp.ne.u32 %p, %u, 0; @%p bra AGAIN; "
    + PROTOTYPE + CALL + "st.param.b32 [given], %r; mov.u64 %a, behind; ld.global.u64 %a, [%a]; ld.global.u64 %f, [%a]; " + CALL
    + "st.param.b32 [given], %r; mov.u64 %a, table; ld.global.u64 %f, [%a+32]; " + CALL + STORE,
    "in a loop": "mov.u64 %f, twice; setp.lt.u32 %p, %t, 9; mov.u64 %a, nested; selp.b64 %f, %a, %f, %p; and.b32 %u, %t, 3; " + PROTOTYPE
    + "AGAIN: " + CALL + "st.param.b32 [given], %r; add.u32 %u, %u, -1; setp.ge.s32 %q, %u, 0; @%q bra AGAIN; " + STORE,
    "guarded": "setp.gt.u32 %p, %t, 20; mov.u64 %f, plus; " + PROTOTYPE + "mov.u32 %r, 1; st.param.b32 [got], %r; "
    "@%p call (got), %f, (given), P; ld.param.b32 %r, [got]; " + STORE,
    "some exit": "setp.lt.u32 %p, %t, 5; mov.u64 %f, ends; mov.u64 %a, plus; selp.b64 %f, %f, %a, %p; " + PROTOTYPE
    + "mov.u32 %u, 77; st.global.u32 [%out], %u; " + CALL + STORE,
    "without a result": "mov.u64 %f, pair; st.param.v2.b32 [two], {%t, %r}; V: .callprototype _ (.param .align 8 .b8 _[8]); "
    "call %f, (two), V; bar.sync 0; mov.u64 %a, seen; ld.global.v2.u32 {%r, %u}, [%a]; xor.b32 %r, %r, %u; " + STORE,
}  # fmt: skip


def module(bodies: dict[str, str]) -> str:
    kernels = [
        f".visible .entry k{n}(.param .u64 in, .param .u64 out) {{ {START} {body} ret; }}"
        for n, body in enumerate(bodies.values())
    ]
    return HEADER + FUNCTIONS.replace(".align 4 .u32 seen", ".align 8 .u32 seen") + "\n".join(kernels)


@pytest.fixture(scope="module")
def calls(simulator):
    with Duel(simulator, module(BODIES)) as duel:
        yield duel


@pytest.mark.parametrize("name", BODIES)
def test_each_lane_calls_its_function(name, calls):
    words = np.arange(1, 33, dtype=np.uint32) * 1001
    mine, theirs = calls.outputs({"in": words}, 128, kernel=f"k{list(BODIES).index(name)}")
    assert mine == theirs
    assert len(set(np.frombuffer(mine, np.uint32))) > 1 or name == "without a result"


# By hand: (branches, those at which lanes parted), each call through a register counting as a branch of its warp.
PARTINGS = {"by parity": (1, 1), "of a list": (2, 2), "guarded": (1, 0)}


def counts(calls: Duel, name: str) -> LaunchCounts:
    buffers = (Buffer("in", "input", 128, 4, np.zeros(32, np.float32)), Buffer("out", "output", 128, 4, None))
    step = KernelLaunch(
        f"k{list(BODIES).index(name)}", (1, 1, 1), (32, 1, 1), 0, False, (Pointer("in"), Pointer("out"))
    )
    outcome = calls.session.run(PlanRun(buffers, (step,), POISON, 10.0, count=True))
    assert outcome.fault is None
    return outcome.counts[0]


@pytest.mark.parametrize("name", PARTINGS)
def test_lanes_that_call_different_functions_part(name, calls):
    found = counts(calls, name)
    assert (found.branches, found.divergent_branches) == PARTINGS[name]


def test_what_is_called_counts_for_the_lanes_that_call_it(calls):
    found = counts(calls, "by parity")
    # 17 instructions of the kernel for all lanes, 4 of each function for half of them.
    assert found.warp_instructions == 17 + 2 * 4
    assert found.thread_instructions == 32 * 17 + 2 * 16 * 4
    assert {kind: number for kind, number in found.by_class.items() if number} == {
        "constant": 8, "move": 4, "integer": 7, "global": 2, "control": 4,
    }  # fmt: skip


# What a pointer must not hold: body, kind, words of the message.
CALLED = "; call (got), %f, (given), P; ret;"
FAULTS = {
    "null": ("mov.u64 %f, 0" + CALLED, "null", "called a null function pointer"),
    "an entry never set": ("mov.u64 %a, table; ld.global.u64 %f, [%a+8]" + CALLED, "null", "null function pointer"),
    "a number": ("mov.u64 %f, 0x400000" + CALLED, "bad_call", "called address 0x400000, where no function is"),
    "a buffer": ("mov.u64 %f, %in" + CALLED, "bad_call", "where no function is"),
    "the middle": ("mov.u64 %f, twice; add.u64 %f, %f, 4" + CALLED, "bad_call", "pointer of another type"),
    "one behind all": ("mov.u64 %f, twice; add.u64 %f, %f, 4096" + CALLED, "bad_call", "where no function is"),
    "the upper half": ("mov.u64 %f, twice; or.b64 %f, %f, 0x8000000000000000" + CALLED, "bad_call", "no function is"),
    "another type": ("mov.u64 %f, pair" + CALLED, "bad_call", "called a function through a pointer of another type"),
    "a kernel by its place": (
        "mov.u64 %f, pair; mov.u64 %a, ends; sub.u64 %a, %f, %a; add.u64 %f, %f, %a" + CALLED, "bad_call", "another type",
    ),
    "none of the list": (
        "mov.u64 %f, nested; T: .calltargets twice, plus; call (got), %f, (given), T; ret;", "bad_call", "another type",
    ),
    "read as data": ("mov.u64 %f, twice; ld.u32 %r, [%f]; ret;", "out_of_bounds", "belongs to no buffer"),
    "written": ("mov.u64 %f, twice; st.u32 [%f], %r; ret;", "out_of_bounds", "belongs to no buffer"),
    "for ever": ("mov.u64 %f, endless" + CALLED, "stack_overflow", "called functions too deep"),
}  # fmt: skip
ENDLESS = """.func (.param .b32 back) endless(.param .b32 what) { .reg .b64 %f; .param .b32 given; .param .b32 got;
mov.u64 %f, endless; P: .callprototype (.param .b32 _) _ (.param .b32 _); call (got), %f, (given), P; ret; }
"""


@pytest.fixture(scope="module")
def faulty(simulator):
    text = module({name: PROTOTYPE + body for name, (body, _, _) in FAULTS.items()})
    return Program(text := HEADER + ENDLESS + text.removeprefix(HEADER), entries_of(parse_ptx(text)), "sm_80")


@pytest.mark.parametrize("name", FAULTS)
def test_an_address_that_is_no_function_is_the_kernels_fault(name, faulty, simulator):
    _, kind, words = FAULTS[name]
    kernel = f"k{list(FAULTS).index(name)}"
    with Duel(simulator, faulty) as duel:
        buffers = (Buffer("in", "input", 128, 4, np.zeros(32, np.float32)), Buffer("out", "output", 128, 4, None))
        step = KernelLaunch(kernel, (1, 1, 1), (32, 1, 1), 0, False, (Pointer("in"), Pointer("out")))
        fault = duel.simulate(buffers, (step,), 5).fault
    assert fault is not None
    assert (fault.kind, fault.kernel) == (kind, kernel)
    assert words in fault.message


REFUSED = {
    "call (got), %f, (given);": "without a prototype",
    "call (got), %f, (given), nothing;": "does not say",
    "call (got), %f, (given), seen;": "does not say",
    "T: .calltargets nothing; call (got), %f, (given), T;": "does not say",
    "T: .calltargets vprintf; call (got), %f, (given), T;": "does not say",
    "T: .calltargets k0; call (got), %f, (given), T;": "does not say",
    "T: .calltargets twice, pair; call (got), %f, (given), T;": "does not say",
    "call (got), %f, (given, given), P;": "other parameters",
    "call %f, (given), P;": "other parameters",
    "call (got), %f, (two), few;": None,  # as long as what is declared: the function reads four bytes of it
    "call (got), 5, (given), P;": "neither a function nor a register",
    "mov.u64 %f, k0;": "the address of k0",
    "mov.u64 %f, vprintf;": "the address of vprintf",
    "call (got), [%f], (given), P;": "neither a function nor a register",
    "P: .callprototype (.reg .b32 _) _ ();": "parameters in registers",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_a_call_that_says_too_little_is_refused(statement):
    declared = ".extern .func (.param .b32 n) vprintf(.param .b64 a, .param .b64 b);\n.global"
    text = module({"k": PROTOTYPE.replace("P:", "P:" if "P: ." not in statement else "Q:") + statement}).replace(
        "\n.global", "\n" + declared, 1
    )
    if REFUSED[statement] is None:
        assert translate(parse_ptx(text)).text
        return
    with pytest.raises(UnsupportedError, match=REFUSED[statement]):
        translate(parse_ptx(text))


@pytest.mark.parametrize("initial", ["twice+8", "k0", "nothing", "generic(twice)+4", "0xFFFF(twice)"])
def test_an_initial_value_that_is_no_address_is_refused(initial):
    text = module({"k": ""}).replace(".u64 table[5] = {twice", f".u64 table[5] = {{{initial}")
    with pytest.raises(UnsupportedError, match="initial value"):
        translate(parse_ptx(text))


def test_no_address_of_this_process_is_in_the_text():
    """A pointer's value chooses among cases; it is an address of the simulated device, at which there is no memory."""
    text = translate(parse_ptx(module(BODIES))).text
    numbers = [
        int(line.split()[1].rstrip(":").removesuffix("ull"))
        for line in text.splitlines()
        if line.startswith("case 5")
    ]
    slot = {(number - (1 << 44)) >> 34 for number in numbers}
    assert slot == {2046}
    assert all(number % 16 == 0 for number in numbers)
    assert "&k" not in text
