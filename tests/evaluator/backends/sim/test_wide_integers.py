"""Integers of 128 bits, as nvcc compiles them: chains of carries, against Python's own integers."""

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest

from common.contract import Settings
from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer
from evaluator.stages.compile.nvcc import compile_source

THREADS = 1024
BITS = 128
EXPRESSIONS = (
    "a + b",
    "a - b",
    "a * b",
    "a / b",
    "a % b",
    "a < b",
    "a >= b",
    "-a",
    "a << (b & 127)",
    "a >> (b & 127)",
)
SOURCE = "\n".join(
    f"""
extern "C" __global__ void {kind}_numbers(const {kind} __int128* x, {kind} __int128* y)
{{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const {kind} __int128 a = x[2 * i], b = x[2 * i + 1];
    {" ".join(f"y[{len(EXPRESSIONS)} * i + {n}] = {text};" for n, text in enumerate(EXPRESSIONS))}
}}"""
    for kind in ("signed", "unsigned")
)


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


IN_PYTHON: tuple[Callable[[int, int], int], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    _truncated,
    lambda a, b: a - b * _truncated(a, b),
    lambda a, b: int(a < b),
    lambda a, b: int(a >= b),
    lambda a, b: -a,
    lambda a, b: a << (b & 127),
    lambda a, b: a >> (b & 127),
)


def operands(source: random.Random) -> int:
    """Zero, all ones, powers of two and their neighbours, a few bits, any bits: as an unsigned number."""
    power = 1 << source.randrange(BITS)
    return source.choice(
        [
            lambda: source.choice([0, 1, 2, 3, 10, -1, -2, 1 << 64, (1 << 64) - 1, 1 << 127, (1 << 127) - 1]),
            lambda: power + source.randrange(-2, 3),
            lambda: -power + source.randrange(-2, 3),
            lambda: source.getrandbits(source.randrange(1, BITS + 1)),
            lambda: source.getrandbits(BITS) & -power,
        ]
    )() % (1 << BITS)


@pytest.fixture(scope="module")
def session(toolbox):
    compiled = compile_source(SOURCE, Settings(), "sm_90", toolbox.toolchain, toolbox.sandbox, toolbox.cache)
    assert compiled.program is not None, compiled.ruling
    with toolbox.simulator.prepare(compiled.program, Settings()) as loaded:
        yield loaded


@pytest.mark.parametrize("kind", ["signed", "unsigned"])
@pytest.mark.parametrize("seed", range(6))
def test_wide_integers_are_pythons(kind, seed, session):
    source = random.Random(seed)
    pairs = [(operands(source), operands(source) or 1) for _ in range(THREADS)]
    if kind == "signed":
        # The one quotient that does not fit is undefined in C++.
        pairs = [(a, 1 if (a, b) == (1 << 127, (1 << BITS) - 1) else b) for a, b in pairs]
    given = np.frombuffer(b"".join(n.to_bytes(16, "little") for pair in pairs for n in pair), np.uint8)
    size = 16 * len(EXPRESSIONS) * THREADS
    buffers = (Buffer("x", "input", given.nbytes, 16, given), Buffer("y", "output", size, 16, None))
    launch = KernelLaunch(
        f"{kind}_numbers", (THREADS // 256, 1, 1), (256, 1, 1), 0, False, (Pointer("x"), Pointer("y"))
    )
    # Division begins with an approximate reciprocal: 0 computes it accurately, others as inexactly as a GPU.
    outcome = session.run(PlanRun(buffers, (launch,), 0x5B, 60.0, jitter=seed))
    assert outcome.fault is None, outcome.fault
    found = bytes(outcome.contents["y"])
    wrong = []
    for i, pair in enumerate(pairs):
        a, b = (n - (n >> 127 << BITS) if kind == "signed" else n for n in pair)
        for n, (text, rule) in enumerate(zip(EXPRESSIONS, IN_PYTHON, strict=True)):
            at = 16 * (len(EXPRESSIONS) * i + n)
            result = int.from_bytes(found[at : at + 16], "little")
            if result != rule(a, b) % (1 << BITS):
                wrong.append(f"{text} of {a:#x}, {b:#x}: {result:#x}")
    assert not wrong, f"{len(wrong)} wrong\n" + "\n".join(wrong[:20])


def test_division_builds_on_the_carry_of_a_subtraction(toolbox):
    """If nvcc compiled this some other way, the division above would show nothing."""
    compiled = compile_source(SOURCE, Settings(), "sm_90", toolbox.toolchain, toolbox.sandbox, toolbox.cache)
    assert compiled.program is not None
    lines = [line.split()[0] for line in compiled.program.ptx.splitlines() if line.strip().startswith(("sub", "add"))]
    pairs = set(itertools.pairwise(lines))
    assert any(first.startswith(("sub.cc", "subc.cc")) and then.startswith("addc") for first, then in pairs)
