"""30 seeded faults are found and named, and none of the mended kernels is accused."""

import numpy as np
import pytest

from benchmarks.simulator.seeded_faults import FOLDER, accusation, entry_of, named_right, run, seeded_in, simulated
from common.contract import Settings
from evaluator.stages.compile.nvcc import compile_source

SEEDED = {fault.name: (path, fault) for path in sorted(FOLDER.glob("*.cu")) for fault in seeded_in(path.read_text())}
UNDEFINED = [name for name, (_, fault) in SEEDED.items() if fault.kind == "undefined_read"]


def test_there_are_thirty_and_their_lines_are_marked():
    assert len(SEEDED) >= 30
    assert all(1 <= len(fault.lines) <= 2 for _, fault in SEEDED.values())


def test_each_seeded_fault_is_named_and_no_mended_kernel_is_accused(toolbox):
    # In one test: each process that has a part of them would have to run them all.
    results = {fault.name: (fault, wrong, mended) for fault, wrong, mended in simulated(toolbox)}
    assert set(results) == set(SEEDED)
    not_named = {name for name, (fault, wrong, _) in results.items() if not named_right(fault, accusation(wrong))}
    assert not not_named, [(results[name][1].fault, results[name][1].hazards) for name in not_named]
    accused = {name: (mended.fault, mended.hazards) for name, (*_, mended) in results.items()}
    assert accused == dict.fromkeys(SEEDED, (None, ()))
    for _, _, mended in results.values():
        assert mended.watched_blocks[0] == mended.watched_blocks[1] > 0


@pytest.mark.parametrize("name", UNDEFINED)
def test_two_poisons_tell_a_read_of_undefined_memory(name, toolbox):
    path, fault = SEEDED[name]
    toolchain, sandbox, cache = toolbox.toolchain, toolbox.sandbox, toolbox.cache
    program = compile_source(path.read_text(), Settings(), "sm_80", toolchain, sandbox, cache).program
    assert entry_of(program, name, mended=True) != entry_of(program, name, mended=False)
    with toolbox.simulator.prepare(program, Settings()) as session:
        wrong = [run(session, program, fault, False, poison).contents["y"] for poison in (0xFF, 0x5B)]
        right = [run(session, program, fault, True, poison).contents["y"] for poison in (0xFF, 0x5B)]
    written = fault.grid * fault.block * 4 if name != "sum_not_zeroed" else fault.grid * 4
    assert not np.array_equal(wrong[0][:written], wrong[1][:written])
    assert np.array_equal(right[0][:written], right[1][:written])
