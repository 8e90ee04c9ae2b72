"""CUDA's math library, as nvcc compiles it, errs no more than documented (`math_library.py`) on the simulator."""

from collections.abc import Iterator

import math_library
import mpmath
import numpy as np
import pytest
from math_library import DOUBLE, SINGLE, Function

from common.contract import Settings
from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer, Session
from evaluator.stages.compile.nvcc import compile_source

COUNT = 256
SLOW_COUNT = 64
SEEDS = range(1, 7)
SUITES = {
    "float": (SINGLE, math_library.standard(single=True), ()),
    "double": (DOUBLE, math_library.standard(single=False), ()),
    "fast": (SINGLE, math_library.intrinsics(), ("--use_fast_math",)),
}
CASES = [(suite, n) for suite, (_, functions, _) in SUITES.items() for n in range(len(functions))]
# So many functions at most are compiled together: nvcc, ptxas and the host's compiler have 30 s each.
TOGETHER = 12


class Library:
    """The functions of one suite, compiled a part at a time."""

    def __init__(self, suite: str, toolbox) -> None:
        self.kind, self.functions, self.flags = SUITES[suite]
        self.codes = list(dict.fromkeys(function.code for function in self.functions))
        self.toolbox = toolbox

    def prepare(self, function: Function) -> tuple[Session, str]:
        """The program with `function`, loaded, and its kernel's name."""
        part, n = divmod(self.codes.index(function.code), TOGETHER)
        text = math_library.source(self.codes[part * TOGETHER : (part + 1) * TOGETHER], self.kind)
        settings, tools = Settings(flags=self.flags, compile_timeout_s=30), self.toolbox
        compiled = compile_source(text, settings, "sm_80", tools.toolchain, tools.sandbox, tools.cache)
        assert compiled.program is not None, compiled.ruling
        return tools.simulator.prepare(compiled.program, settings), f"f{n}"

    def compute(self, function: Function, operands: np.ndarray) -> Iterator[np.ndarray]:
        """Results for the columns of `operands`, in the suite's precision, once for each seed."""
        columns = np.zeros((4, operands.shape[1]), self.kind)
        columns[: len(operands)] = operands
        buffers = tuple(Buffer(x, "input", c.nbytes, 8, c) for x, c in zip("abcd", columns, strict=True))
        buffers += (Buffer("out", "output", columns[0].nbytes, 8, None),)
        pointers, grid = tuple(Pointer(b.name) for b in buffers), (operands.shape[1] // 32, 1, 1)
        loaded, name = self.prepare(function)
        with loaded as session:
            for seed in SEEDS:
                launch = KernelLaunch(name, grid, (32, 1, 1), 0, False, pointers)
                outcome = session.run(PlanRun(buffers, (launch,), 0xFF, 20.0, jitter=seed))
                assert outcome.fault is None, outcome.fault
                yield outcome.contents["out"].view(self.kind)


@pytest.fixture(scope="module")
def libraries(toolbox) -> dict[str, Library]:
    return {suite: Library(suite, toolbox) for suite in SUITES}


def operands_of(function: Function, kind: type) -> np.ndarray:
    rng, count = np.random.default_rng(len(function.name)), SLOW_COUNT if function.slow else COUNT
    return np.array([one.draw(rng, count).astype(kind).astype(np.float64) for one in function.ranges])


def ordinal(values: np.ndarray, kind: type) -> np.ndarray:
    """Where in the order of the format's values each is: neighbours differ by 1."""
    pattern = values.astype(kind).view(np.int32 if kind is SINGLE else np.int64).astype(np.int64)
    lowest = np.int64(-(1 << (31 if kind is SINGLE else 63)))
    return np.where(pattern < 0, lowest - pattern, pattern)


@pytest.mark.parametrize(
    ("suite", "n"), CASES, ids=[f"{suite}-{SUITES[suite][1][n].name}-{n}".replace(" ", "-") for suite, n in CASES]
)
def test_it_errs_no_more_than_documented(suite, n, libraries):
    loaded = libraries[suite]
    function, kind = loaded.functions[n], loaded.kind
    operands = operands_of(function, kind)
    with mpmath.workprec(math_library.PRECISION):
        exact = [function.exact(*(mpmath.mpf(float(x)) for x in column)) for column in operands.T]
        nearest = np.array([math_library.rounded(value, kind) for value in exact])
        for found in loaded.compute(function, operands):
            if function.absolute is not None:
                errors = np.array([float(abs(mpmath.mpf(float(f)) - e)) for f, e in zip(found, exact, strict=True)])
                allowed = np.full(len(found), function.absolute)
            else:
                errors = np.abs(ordinal(found, kind) - ordinal(nearest, kind)).astype(np.float64)
                allowed = function.ulp_of(*operands) if function.ulp_of else np.full(len(found), function.ulp)
            worst = int(np.argmax(errors / np.maximum(allowed, 1e-30)))
            assert np.all(errors <= allowed), (
                f"{function.code} of {operands[:, worst]}: {found[worst]!r}, exactly {nearest[worst]!r}, "
                f"error {errors[worst]} of {allowed[worst]}"
            )


EXACT = [case for case in CASES if SUITES[case[0]][1][case[1]].exactly]


@pytest.mark.parametrize(
    ("suite", "n"), EXACT, ids=[f"{suite}-{SUITES[suite][1][n].name}-{n}".replace(" ", "-") for suite, n in EXACT]
)
def test_what_a_gpu_has_exactly_is_exact(suite, n, libraries):
    loaded = libraries[suite]
    function = loaded.functions[n]
    pairs = list(function.exactly)
    pairs += pairs[:1] * (-len(pairs) % 32)
    operands = np.array([operands for operands, _ in pairs]).T
    expected = np.array([value for _, value in pairs])
    for found in loaded.compute(function, operands):
        np.testing.assert_array_equal(found.astype(np.float64), expected)
