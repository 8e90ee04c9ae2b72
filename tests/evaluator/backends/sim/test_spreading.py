# ruff: noqa: E501 - PTX reads best one statement after the other
"""Blocks over cores: the same bits, counts and faults as on one core, and one core where an order matters."""

from collections.abc import Iterator

import numpy as np
import pytest
from duel import HEADER, POISON, entries_of

from common.contract import Settings
from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer, Program, RunOutcome
from evaluator.backends.sim.backend import Simulator
from evaluator.backends.sim.ptx import parser
from evaluator.backends.sim.session import SimulatorSession

BLOCKS, THREADS = 1500, 128
TURNS = 2500
# A loop in which every block takes its time, and then what the kernel is about.
BODY = """
ld.param.u64 %from, [from]; ld.param.u64 %to, [to]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mad.lo.u32 %i, %b, 128, %t;
mul.wide.u32 %d, %i, 4; add.u64 %in, %from, %d; add.u64 %out, %to, %d; ld.global.u32 %x, [%in]; mov.u32 %n, 0;
T: mad.lo.u32 %x, %x, 1664525, 1013904223; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, TURNS; @%p bra T;
"""
KERNELS = {
    "plain": "st.global.u32 [%out], %x;",
    "tiled": """mul.lo.u32 %s, %t, 4; st.shared.u32 [tile], %x; mov.u32 %n, tile; add.u32 %s, %s, %n; st.shared.u32 [%s], %x;
        bar.sync 0; ld.shared.u32 %n, [tile+4]; add.u32 %x, %x, %n; st.global.u32 [%out], %x;""",
    "shared_counter": """mul.wide.u32 %d, %b, 4; add.u64 %out, %to, %d; mov.u32 %n, tile; st.shared.u32 [tile], 0; bar.sync 0;
        red.shared.add.u32 [tile], 1; bar.sync 0; ld.shared.u32 %x, [tile]; st.global.u32 [%out], %x;""",
    "ordered": "atom.global.add.u32 %n, [counter], 1; st.global.u32 [%out], %n;",
    "module": "mul.wide.u32 %d, %b, 4; mov.u64 %in, kept; add.u64 %in, %in, %d; st.global.u32 [%in], %b;",
    "told": "mul.wide.u32 %d, %b, 4; mov.u64 %in, kept; add.u64 %in, %in, %d; ld.global.u32 %x, [%in]; st.global.u32 [%out], %x;",
    "faulty": "setp.eq.u32 %p, %b, 700; setp.eq.u32 %q, %b, 1400; or.pred %p, %p, %q; @%p st.global.u32 [4], %x; st.global.u32 [%out], %x;",
    "shuffling": "shfl.sync.bfly.b32 %x, %x, 1, 31, -1; st.global.u32 [%out], %x;",
}
ALONE = """.visible .entry {0}(.param .u64 from, .param .u64 to) {{
    .reg .pred %p, %q; .reg .b32 %t, %b, %i, %s, %x, %n; .reg .b64 %from, %to, %d, %in, %out;
    .shared .align 16 .b8 tile[512];
    {1} {2} ret; }}
"""


def _program(kernels: dict[str, str]) -> Program:
    text = HEADER + ".global .align 4 .u32 counter;\n" + f".global .align 4 .b8 kept[{4 * BLOCKS}];\n"
    text += "".join(ALONE.format(name, BODY.replace("TURNS", str(TURNS)), body) for name, body in kernels.items())
    return Program(text, entries_of(parser.parse_ptx(text)), "sm_80")


INPUT = np.arange(BLOCKS * THREADS, dtype=np.uint32)


class Pair:
    """One program on one core and on three, however many this machine has."""

    def __init__(self, one: SimulatorSession, three: SimulatorSession) -> None:
        self.one, self.three = one, three

    @staticmethod
    def run(
        session: SimulatorSession, *kernels: str, blocks: int = BLOCKS, limit_s: float = 60.0, **options: bool
    ) -> RunOutcome:
        buffers = (Buffer("from", "input", INPUT.nbytes, 4, INPUT), Buffer("to", "output", INPUT.nbytes, 4, None))
        pointers = (Pointer("from"), Pointer("to"))
        steps = tuple(KernelLaunch(k, (blocks, 1, 1), (THREADS, 1, 1), 0, False, pointers) for k in kernels)
        return session.run(PlanRun(buffers, steps, POISON, limit_s, **options))

    def both(self, *kernels: str) -> tuple[RunOutcome, RunOutcome]:
        return self.run(self.one, *kernels), self.run(self.three, *kernels)


def _simulators(simulator: Simulator) -> tuple[Simulator, Simulator]:
    one, three = (
        Simulator(simulator.sandbox, simulator.builds, simulator.host_compiler, simulator.readable, cores)
        for cores in (1, 3)
    )
    return one, three


@pytest.fixture(scope="module")
def pair(simulator: Simulator) -> Iterator[Pair]:
    program = _program({name: body for name, body in KERNELS.items() if name != "ordered"})
    one, three = _simulators(simulator)
    with one.prepare(program, Settings()) as alone, three.prepare(program, Settings()) as together:
        yield Pair(alone, together)


@pytest.mark.parametrize("kernel", ["plain", "tiled", "shared_counter", "shuffling"])
def test_spread_blocks_leave_the_same_bits_and_counts(pair: Pair, kernel: str) -> None:
    alone, together = pair.both(kernel)
    assert alone.facts["spread_launches"] == 0
    assert together.facts["spread_launches"] == 1
    assert bytes(alone.contents["to"]) == bytes(together.contents["to"])
    assert alone.thread_instructions == together.thread_instructions
    assert alone.facts["shuffles"] == together.facts["shuffles"]


def test_what_spread_blocks_wrote_is_there_for_later_launches_and_runs(pair: Pair) -> None:
    outcome = pair.run(pair.three, "module", "told")
    assert outcome.facts["spread_launches"] == 2
    expected = np.repeat(np.arange(BLOCKS, dtype=np.uint32), THREADS)
    assert np.array_equal(outcome.contents["to"].view(np.uint32), expected)
    again = pair.run(pair.three, "told")
    assert np.array_equal(again.contents["to"].view(np.uint32), expected)


def test_the_lowest_block_that_faults_is_named(simulator: Simulator) -> None:
    program = _program({"faulty": KERNELS["faulty"]})
    found = []
    for one in _simulators(simulator):
        with one.prepare(program, Settings()) as session:
            outcome = Pair.run(session, "faulty")
        assert outcome.fault is not None
        found.append(outcome.fault)
    assert found[0] == found[1]
    assert (found[0].kind, found[0].block, found[0].thread) == ("null", (700, 0, 0), (0, 0, 0))


def test_what_depends_on_an_order_stays_on_one_core(simulator: Simulator) -> None:
    _, three = _simulators(simulator)
    with three.prepare(_program({"ordered": KERNELS["ordered"]}), Settings()) as session:
        outcome = Pair.run(session, "ordered")
    assert outcome.facts["spread_launches"] == 0
    assert outcome.fault is None
    assert np.array_equal(outcome.contents["to"].view(np.uint32), INPUT)


def test_small_launches_and_counting_ones_stay_on_one_core(pair: Pair) -> None:
    assert pair.run(pair.three, "plain", blocks=4).facts["spread_launches"] == 0
    assert pair.run(pair.three, "plain", count=True).facts["spread_launches"] == 0
    assert pair.run(pair.three, "plain", backwards=True).facts["spread_launches"] == 0


def test_the_time_limit_holds_for_spread_blocks(simulator: Simulator) -> None:
    _, three = _simulators(simulator)
    with three.prepare(_program({"ordered": KERNELS["plain"]}), Settings()) as session:
        assert Pair.run(session, "ordered").facts["spread_launches"] == 1  # in time
        outcome = Pair.run(session, *["ordered"] * 40, limit_s=0.2)
    assert outcome.fault is not None
    assert outcome.fault.kind == "watchdog"
