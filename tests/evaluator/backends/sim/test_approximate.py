"""Approximate instructions err no more than an H200 (`approximate_h200.csv`) or the PTX ISA says, and do err."""

import csv
from pathlib import Path

import numpy as np
import pytest
from duel import HEADER, Duel, entries_of
from hypothesis import given, settings
from hypothesis import strategies as st

from common.contract import Settings
from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer, Program
from evaluator.backends.sim.ptx import parser

COUNT = 4096
SEEDS = st.integers(1, 2**62 - 1)


def division(x):
    """By an operand of its own for each dividend."""
    return x / divisor(x)


def divisor(x):
    return np.roll(x, 1)


# Instruction: its exact function, for operands in double precision.
FUNCTIONS = {
    "rcp.approx.f32": lambda x: 1 / x,
    "sqrt.approx.f32": np.sqrt,
    "rsqrt.approx.f32": lambda x: 1 / np.sqrt(x),
    "ex2.approx.f32": np.exp2,
    "lg2.approx.f32": np.log2,
    "sin.approx.f32": np.sin,
    "cos.approx.f32": np.cos,
    "tanh.approx.f32": np.tanh,
    "div.approx.f32": division,
    "div.full.f32": division,
    "rcp.approx.ftz.f64": lambda x: 1 / upper(x),
    "rsqrt.approx.ftz.f64": lambda x: 1 / np.sqrt(upper(x)),
    "rsqrt.approx.f64": lambda x: 1 / np.sqrt(x.astype(np.longdouble)),
}
NAMES = list(FUNCTIONS)
# The documented bounds (PTX ISA 9.0, 9.7.3): instruction, range of operands, kind of error, its maximum. Units in the
# last place are counted from the correctly rounded result, which is up to half a unit from the exact one.
DOCUMENTED = [
    ("rcp.approx.f32", 2**-126, 2**126, "ulp", 1),
    ("sqrt.approx.f32", 2**-126, 2**127, "relative", 2**-23),
    ("rsqrt.approx.f32", 2**-126, 2**127, "relative", 2**-22.9),
    ("ex2.approx.f32", -126, 127, "ulp", 2.5),
    ("lg2.approx.f32", 0.5, 2, "absolute", 2**-22),
    ("lg2.approx.f32", 2**-126, 0.5, "relative", 2**-22),
    ("lg2.approx.f32", 2, 2**127, "relative", 2**-22),
    ("sin.approx.f32", -2 * np.pi, 2 * np.pi, "absolute", 2**-20.5),
    ("cos.approx.f32", -2 * np.pi, 2 * np.pi, "absolute", 2**-20.5),
    ("sin.approx.f32", -100 * np.pi, 100 * np.pi, "absolute", 2**-14.7),
    ("cos.approx.f32", -100 * np.pi, 100 * np.pi, "absolute", 2**-14.7),
    ("tanh.approx.f32", -10, 10, "relative", 2**-11),
    ("div.approx.f32", 2**-60, 2**60, "ulp", 2.5),
    ("div.full.f32", 2**-60, 2**60, "ulp", 2.5),
]


def measured() -> list[tuple[str, float, float, str, float]]:
    text = (Path(__file__).parent / "approximate_h200.csv").read_text()
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return [
        (row["instruction"], float.fromhex(row["from"]), float.fromhex(row["to"]), row["unit"], float(row["largest"]))
        for row in rows
    ]


def upper(x: np.ndarray) -> np.ndarray:
    return (x.view(np.uint64) & np.uint64(0xFFFFFFFF << 32)).view(np.float64)


def kernel(number: int, name: str) -> str:
    """k{number}: out[i] = name(in[i]), of a division with the element before it as divisor."""
    wide = name.endswith("f64")
    f, size = ("f64", 8) if wide else ("f32", 4)
    sources = "%x, %y" if name.startswith("div") else "%x"
    return f"""
        .visible .entry k{number}(.param .u64 in, .param .u64 out) {{
        .reg .b64 %i, %o, %a, %b; .reg .b32 %t, %c, %p; .reg .{f} %x, %y;
        ld.param.u64 %i, [in]; ld.param.u64 %o, [out];
        mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mad.lo.u32 %t, %c, 256, %t;
        mul.wide.u32 %a, %t, {size}; add.u32 %p, %t, {COUNT - 1}; and.b32 %p, %p, {COUNT - 1};
        mul.wide.u32 %b, %p, {size}; add.s64 %b, %i, %b; add.s64 %i, %i, %a; add.s64 %o, %o, %a;
        ld.global.{f} %x, [%i]; ld.global.{f} %y, [%b];
        {name} %x, {sources};
        st.global.{f} [%o], %x; ret; }}"""


@pytest.fixture(scope="module")
def session(simulator):
    text = HEADER + "\n".join(kernel(number, name) for number, name in enumerate(NAMES))
    with simulator.prepare(Program(text, entries_of(parser.parse_ptx(text)), "sm_80"), Settings()) as loaded:
        yield loaded


def computed(session, name: str, x: np.ndarray, jitter: int) -> np.ndarray:
    buffers = (Buffer("in", "input", x.nbytes, 8, x), Buffer("out", "output", x.nbytes, 8, None))
    symbol = f"k{NAMES.index(name)}"
    launch = KernelLaunch(symbol, (COUNT // 256, 1, 1), (256, 1, 1), 0, False, (Pointer("in"), Pointer("out")))
    outcome = session.run(PlanRun(buffers, (launch,), 0xFF, 20.0, jitter=jitter))
    assert outcome.fault is None
    return outcome.contents["out"].view(x.dtype)


def operands(name: str, low: float, high: float, rng: np.random.Generator) -> np.ndarray:
    """Even over the range, and over its exponents; negative too where the function is symmetric."""
    kind = np.float64 if name.endswith("f64") else np.float32
    if low < 0:
        return rng.uniform(low, high, COUNT).astype(kind)
    smallest = np.finfo(kind).minexp
    x = np.exp2(rng.uniform(np.log2(float(low)) if low > 0 else smallest, np.log2(float(high)), COUNT))
    if high <= 1024:
        x = np.where(rng.random(COUNT) < 0.5, x, rng.uniform(low, high, COUNT))
    if name.startswith(("rcp", "sin", "cos", "tanh", "div")):
        x *= rng.choice((-1, 1), COUNT)
    # Rounded to float, an operand must not leave the range.
    edge = np.nextafter(kind(min(float(high), float(np.finfo(kind).max))), kind(0))
    return np.clip(x, -float(edge), float(edge)).astype(kind)


BOUNDS = [*measured(), *DOCUMENTED]


@pytest.mark.parametrize("bound", BOUNDS, ids=[f"{b[0]}-{b[1]:.4g}-{b[2]:.4g}-{b[3]}-{b[4]:.3g}" for b in BOUNDS])
@settings(max_examples=5, deadline=None)
@given(jitter=SEEDS)
def test_it_errs_no_more_than_measured_and_documented(bound, session, jitter):
    name, low, high, unit, largest = bound
    x = operands(name, low, high, np.random.default_rng(jitter))
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.longdouble) if name == "rsqrt.approx.f64" else x.astype(np.float64))
    found = computed(session, name, x, jitter)
    errors = np.abs(found - exact)
    if unit == "ulp":
        errors = errors / np.spacing(np.abs(exact).astype(x.dtype))
    elif unit == "relative":
        errors = errors / np.abs(exact)
    # The reference has a double's rounding itself.
    assert np.all(errors <= largest * (1 + 1e-6))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=5, deadline=None)
@given(jitter=SEEDS)
def test_it_does_err_and_the_same_operand_always_gives_the_same_result(name, session, jitter):
    low, high = (-6, 6) if name.startswith(("ex2", "sin", "cos")) else (1, 1000)
    if name.startswith("tanh"):
        low, high = 0.1, 2
    x = operands(name, low, high, np.random.default_rng(jitter))
    accurate, found = computed(session, name, x, 0), computed(session, name, x, jitter)
    if not name.endswith("ftz.f64"):
        assert np.mean(found != accurate) > 0.02
    assert np.array_equal(found, computed(session, name, x, jitter))
    assert not np.array_equal(found, computed(session, name, x, jitter + 1))
    order = np.random.default_rng(1).permutation(COUNT)
    if not name.startswith("div"):
        assert np.array_equal(found[order], computed(session, name, x[order], jitter))


@pytest.mark.parametrize("name", ["rcp", "sqrt", "rsqrt", "ex2", "lg2"])
@settings(max_examples=10, deadline=None)
@given(jitter=SEEDS, start=st.floats(2**-20, 2**20, width=32))
def test_a_monotonic_function_stays_monotonic(name, session, jitter, start):
    first = int(np.float32(start).view(np.uint32)) - COUNT // 2
    x = np.arange(first, first + COUNT, dtype=np.uint32).view(np.float32)
    if name == "ex2":
        x = x / np.float32(2**14) if jitter % 2 else -x / np.float32(2**14)
    falls = name in ("rcp", "rsqrt")
    rises = np.diff(computed(session, f"{name}.approx.f32", x, jitter)) * np.sign(np.diff(x))
    assert np.all(rises <= 0) if falls else np.all(rises >= 0)


INF, NAN = np.inf, np.nan
ROUND = [2.0**n for n in range(-60, 61)]
EXACT = {
    "rcp.approx.f32": [(0, INF), (-0.0, -INF), (INF, 0), (-INF, -0.0), (NAN, NAN), *((x, 1 / x) for x in ROUND)],
    "sqrt.approx.f32": [
        (0, 0),
        (-0.0, -0.0),
        (-1, NAN),
        (INF, INF),
        (NAN, NAN),
        *((n * n, n) for n in range(1, 4096)),
    ],
    "rsqrt.approx.f32": [(0, INF), (-0.0, -INF), (-1, NAN), (INF, 0), (NAN, NAN), *((x * x, 1 / x) for x in ROUND)],
    "ex2.approx.f32": [(-INF, 0), (INF, INF), (NAN, NAN), (-0.0, 1), *((n, 2.0**n) for n in range(-149, 128))],
    "lg2.approx.f32": [(0, -INF), (-1, NAN), (INF, INF), (NAN, NAN), *((2.0**n, n) for n in range(128))],
    "sin.approx.f32": [(0, 0), (-0.0, -0.0), (INF, NAN), (NAN, NAN)],
    "cos.approx.f32": [(0, 1), (-0.0, 1), (INF, NAN), (NAN, NAN)],
    "tanh.approx.f32": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (1e-40, 1e-40), (20, 1), (-20, -1)],
    "rcp.approx.ftz.f64": [(0, INF), (-1e-310, -INF), (INF, 0), (1e308, 0), (NAN, NAN), *((x, 1 / x) for x in ROUND)],
    "rsqrt.approx.ftz.f64": [(-0.0, -INF), (1e-310, INF), (-1, NAN), (INF, 0), *((x * x, 1 / x) for x in ROUND)],
    "rsqrt.approx.f64": [(0, INF), (-1, NAN), (INF, 0), (5e-324, 2.0**537), *((x * x, 1 / x) for x in ROUND)],
}


@pytest.mark.parametrize("name", EXACT)
def test_what_an_h200_has_exactly_is_exact(name, session):
    kind = np.float64 if name.endswith("f64") else np.float32
    pairs = np.array(EXACT[name], np.float64)
    x, expected = (np.resize(column, COUNT).astype(kind) for column in pairs.T)
    for jitter in (0, 1, 2, 3, 4, 5):
        found = computed(session, name, x, jitter)
        np.testing.assert_array_equal(found, expected)
        assert np.array_equal(np.signbit(found[expected == 0]), np.signbit(expected[expected == 0]))


def test_a_gross_result_has_no_lower_word_and_takes_none(session):
    x = np.random.default_rng(1).uniform(1, 1000, COUNT)
    for name in ("rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"):
        for jitter in (0, 7):
            found = computed(session, name, x, jitter)
            assert np.array_equal(found, upper(found))
            assert np.array_equal(found, computed(session, name, upper(x), jitter))


def test_logarithms_of_small_powers_of_two_are_one_unit_off_as_on_an_h200(session):
    x = np.resize(np.exp2(-np.arange(1.0, 120.0)), COUNT).astype(np.float32)
    found = {tuple(computed(session, "lg2.approx.f32", x, jitter) == np.log2(x)) for jitter in range(1, 9)}
    assert any(not all(one) for one in found)


def test_an_operand_divided_by_itself_is_not_always_one_as_on_an_h200(session):
    pair = np.random.default_rng(2).uniform(1, 2, COUNT // 2).astype(np.float32)
    x = np.repeat(pair, 2)
    assert any(np.any(computed(session, "div.full.f32", x, jitter)[1::2] != 1) for jitter in range(1, 9))


@pytest.mark.parametrize("name", ["rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64", "rsqrt.approx.f64"])
def test_the_interpreter_agrees(name, simulator):
    x = np.random.default_rng(3).uniform(-2, 2, COUNT) * 2.0 ** np.random.default_rng(4).integers(-1000, 1000, COUNT)
    x[:8] = [0, -0.0, INF, -INF, NAN, 5e-324, 1e308, -1e308]
    with Duel(simulator, HEADER + kernel(0, name)) as duel:
        simulated, interpreted = duel.outputs({"in": x}, x.nbytes, "k0", grid=1, block=256)
    simulated, interpreted = (np.frombuffer(data, np.uint64)[:256] for data in (simulated, interpreted))
    nans = np.isnan(interpreted.view(np.float64))
    assert np.array_equal(nans, np.isnan(simulated.view(np.float64)))
    assert np.array_equal(simulated[~nans], interpreted[~nans])
