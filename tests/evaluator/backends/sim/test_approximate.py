"""Approximate instructions: within their documented error of the exact value, and not at it (PTX ISA 9.0, 9.7.3)."""

import numpy as np
import pytest
from duel import HEADER, entries_of
from hypothesis import given, settings
from hypothesis import strategies as st

from common.contract import Settings
from evaluator.backends.backend import Buffer, KernelLaunch, PlanRun, Pointer, Program
from evaluator.backends.sim import parsing

COUNT = 4096


def relative(bound):
    return lambda exact: bound * np.abs(exact)


def absolute(bound):
    return lambda exact: np.full_like(exact, bound)


def ulps(count):
    return lambda exact: count * np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)


# Instruction: (exact function, range of operands, bound, whether the operand is positive)
TABLE = {
    "rcp.approx.f32": (lambda x: 1 / x, (1e-3, 1e3), ulps(1)),
    "sqrt.approx.f32": (np.sqrt, (1e-3, 1e3), relative(2**-23)),
    "rsqrt.approx.f32": (lambda x: 1 / np.sqrt(x), (1e-3, 1e3), relative(2**-22.9)),
    "ex2.approx.f32": (np.exp2, (-20, 20), ulps(2)),
    "lg2.approx.f32": (np.log2, (0.5, 2), absolute(2**-22)),
    "sin.approx.f32": (np.sin, (-6.28, 6.28), absolute(2**-20.5)),
    "cos.approx.f32": (np.cos, (-6.28, 6.28), absolute(2**-20.5)),
    "tanh.approx.f32": (np.tanh, (-3, 3), relative(2**-11)),
}


def module() -> str:
    kernels = [
        f".visible .entry k{number}(.param .u64 in, .param .u64 out) {{ .reg .b64 %i, %o, %a; .reg .b32 %t, %c; "
        ".reg .f32 %x; ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; "
        "mad.lo.u32 %t, %c, 256, %t; mul.wide.u32 %a, %t, 4; add.s64 %i, %i, %a; add.s64 %o, %o, %a; "
        f"ld.global.f32 %x, [%i]; {name} %x, %x; st.global.f32 [%o], %x; ret; }}"
        for number, name in enumerate(TABLE)
    ]
    return HEADER + "\n".join(kernels)


@pytest.fixture(scope="module")
def session(simulator):
    text = module()
    with simulator.prepare(Program(text, entries_of(parsing.parse(text)), "sm_80"), Settings()) as loaded:
        yield loaded


def computed(session, name: str, x: np.ndarray, jitter: int) -> np.ndarray:
    buffers = (Buffer("in", "input", x.nbytes, 4, x), Buffer("out", "output", x.nbytes, 4, None))
    symbol = f"k{list(TABLE).index(name)}"
    launch = KernelLaunch(symbol, (COUNT // 256, 1, 1), (256, 1, 1), 0, False, (Pointer("in"), Pointer("out")))
    outcome = session.run(PlanRun(buffers, (launch,), 0xFF, 20.0, jitter=jitter))
    assert outcome.fault is None
    return outcome.contents["out"].view(np.float32)


@pytest.mark.parametrize("name", TABLE)
@settings(max_examples=10, deadline=None)
@given(jitter=st.integers(1, 2**62 - 1))
def test_it_errs_within_what_is_documented(name, session, jitter):
    function, (low, high), bound = TABLE[name]
    x = np.random.default_rng(jitter).uniform(low, high, COUNT).astype(np.float32)
    exact = function(x.astype(np.float64))
    accurate, given_ = computed(session, name, x, 0), computed(session, name, x, jitter)
    assert np.all(np.abs(given_ - exact) <= bound(exact))
    assert np.mean(given_ != accurate) > 0.1
    assert np.array_equal(given_, computed(session, name, x, jitter))
    assert not np.array_equal(given_, computed(session, name, x, jitter + 1))


@pytest.mark.parametrize("name", TABLE)
def test_special_values_and_powers_of_two_stay_exact(name, session):
    x = np.resize(np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, 2, 4, 16, 0.25], np.float32), COUNT)
    if name.startswith(("sin", "cos", "tanh")):
        x = np.resize(np.array([0, -0.0, np.nan, np.inf], np.float32), COUNT)
    if name.startswith("ex2"):
        x = np.rint(x)
    accurate = computed(session, name, x, 0)
    assert np.array_equal(accurate.view(np.uint32), computed(session, name, x, 12345).view(np.uint32))
