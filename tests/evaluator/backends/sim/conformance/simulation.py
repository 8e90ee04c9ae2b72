"""What the simulator leaves of forms."""

from collections.abc import Iterable, Iterator

import numpy as np
from conformance.forms import Form
from conformance.modules import POISON, Kernel, kernel, kernels
from duel import entries_of

from common.contract import Settings
from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer, Program, UnsupportedError
from evaluator.backends.sim.backend import Simulator
from evaluator.backends.sim.codegen.module import translate
from evaluator.backends.sim.ptx import parser

_TIME_LIMIT_S = 60.0


def known(forms: Iterable[Form]) -> tuple[list[Form], dict[Form, str]]:
    """Those that the simulator runs, and why it does not run the others."""
    runs: list[Form] = []
    lacks: dict[Form, str] = {}
    for form in forms:
        try:
            translate(parser.parse_ptx(kernel([form]).ptx()))
        except UnsupportedError as reason:
            lacks[form] = str(reason)
        else:
            runs.append(form)
    return runs, lacks


def simulated(simulator: Simulator, forms: list[Form], most: int) -> Iterator[tuple[Form, np.ndarray]]:
    """Each form with its results: a row for each thread, a column for each result."""
    for one in kernels(forms, most):
        yield from one.results(_memory(simulator, one))


def _memory(simulator: Simulator, one: Kernel) -> bytes:
    text = one.ptx()
    inputs = np.frombuffer(one.inputs(), np.uint64)
    buffers = (
        Buffer("inputs", "input", inputs.nbytes, 8, inputs),
        Buffer("results", "output", one.result_bytes, 8, None),
    )
    launch = KernelLaunch(
        "k",
        (one.launch.blocks, 1, 1),
        (one.launch.block_threads, 1, 1),
        0,
        False,
        (Pointer("inputs"), Pointer("results")),
    )
    program = Program(text, entries_of(parser.parse_ptx(text)), "sm_90")
    with simulator.prepare(program, Settings()) as session:
        outcome = session.run(PlanRun(buffers, (launch,), POISON, _TIME_LIMIT_S))
    assert outcome.fault is None, outcome.fault
    return bytes(outcome.contents["results"])
