"""The shadow memory accuses no kernel that is ordered, whichever blocks are watched, and changes no answer."""

import re
from pathlib import Path

import numpy as np
import pytest

from common.contract import Settings
from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer, Watch
from evaluator.stages.compile.nvcc import compile_source

SOURCE = (Path(__file__).parent / "ordered.cu").read_text()
NAMES = re.findall(r"__global__ void (\w+)\(", SOURCE)
BLOCKS, ELEMENTS = 4, 256


@pytest.fixture(scope="module")
def session(toolbox):
    compiled = compile_source(SOURCE, Settings(), "sm_80", toolbox.toolchain, toolbox.sandbox, toolbox.cache)
    with toolbox.simulator.prepare(compiled.program, Settings()) as loaded:
        yield loaded, {re.search(r"(\w+)\(", e.name)[1]: e.symbol for e in compiled.program.entries}


def run(session, name, **options):
    loaded, symbols = session
    zero = np.zeros(ELEMENTS, np.float32)
    buffers = (
        Buffer("x", "input", 4 * ELEMENTS, 4, np.linspace(-1, 1, ELEMENTS, dtype=np.float32)),
        *(Buffer(n, "input", 4 * ELEMENTS, 4, zero) for n in ("y", "t", "state")),
    )
    launch = KernelLaunch(
        symbols[name], (BLOCKS, 1, 1), (64, 1, 1), 0, False, tuple(Pointer(b.name) for b in buffers)
    )
    return loaded.run(PlanRun(buffers, (launch,), 0x5B, 20.0, **options))


@pytest.mark.parametrize("share", [1.0, 0.5, 0.25])
@pytest.mark.parametrize("name", NAMES)
def test_nobody_accuses_what_is_ordered(name, share, session):
    for seed in range(1 if share == 1 else 8):
        outcome = run(session, name, watch=Watch(share, seed))
        assert outcome.fault is None
        assert [found.fault.message for found in outcome.hazards if found.kind != "harmless_race"] == []
        assert outcome.watched_blocks[1] == BLOCKS
        assert share < 1 or outcome.watched_blocks[0] == BLOCKS


@pytest.mark.parametrize("name", NAMES)
def test_watching_changes_no_answer(name, session):
    plain, watched = run(session, name), run(session, name, watch=Watch())
    assert plain.watched_blocks == (0, BLOCKS)
    assert plain.thread_instructions == watched.thread_instructions
    assert all(np.array_equal(plain.contents[n], watched.contents[n]) for n in ("y", "t", "state"))


def test_neighbouring_blocks_are_drawn_together_and_the_first_two_always(session):
    def watched(share):
        return {run(session, "pipeline", watch=Watch(share, seed)).watched_blocks[0] for seed in range(0, 40, 2)}

    assert watched(0.5) == {2, 4}
    assert watched(1e-4) == {2}
    assert watched(0.0) == {0}
