"""A rehearsal on the simulator: what it watches is told beside what a GPU showed, and a race ends the evaluation."""

from pathlib import Path

import pytest

from common.contract import Settings, Status
from evaluator.pipeline.referee import Order, SimulatorReferee, also_rehearsed, rehearse
from evaluator.problems.catalogue import find
from evaluator.stages.compile.nvcc import compile_source
from evaluator.stages.launch.planning import plan_launches

CORPUS = Path(__file__).parents[2]


def order(workshop, path: Path, problem: str) -> Order:
    source, settings = path.read_text(), Settings()
    compiled = compile_source(source, settings, "sm_80", workshop.toolchain, workshop.sandbox, workshop.cache)
    shared = {kernel.kernel: kernel.shared_bytes for kernel in compiled.kernels}
    launchable = plan_launches(find(problem), compiled.program, None, source, shared).launchable
    return Order(
        problem=problem,
        program=compiled.program,
        plan=launchable.plan,
        plan_source=launchable.plan_source,
        binding=launchable.binding,
        static_shared_bytes=shared,
        settings=settings,
        local_memory=False,
        secret=bytes(range(32)),
    )


@pytest.fixture(scope="module")
def referee(workshop):
    return SimulatorReferee(workshop.simulator, rehearses=True)


def test_what_was_watched_is_told_beside_what_the_device_showed(workshop, referee):
    asked = order(workshop, CORPUS / "kernels" / "transpose_padded_tile.cu", "transpose")
    rehearsed = rehearse(referee, asked)
    assert rehearsed.verified.ruling is None
    watched = rehearsed.verified.correctness.watched
    assert watched
    assert all(" of " in said for said in watched)
    on_device = SimulatorReferee(workshop.simulator).judge(asked, lambda text: None)
    told = also_rehearsed(on_device, rehearsed).verified.correctness
    assert told.watched == watched
    assert told.trials == on_device.verified.correctness.trials
    assert also_rehearsed(on_device, None) is on_device


def test_a_race_is_named_with_both_threads_and_lines(workshop, referee):
    path = CORPUS / "adversarial" / "race_without_barrier.cu"
    judged = rehearse(referee, order(workshop, path, "transpose"))
    assert judged.verified.ruling.status is Status.INCORRECT
    assert "In the rehearsal" in judged.verified.ruling.message
    fault = judged.verified.correctness.fault
    lines = {n for n, line in enumerate(path.read_text().splitlines(), 1) if "tile[threadIdx" in line}
    assert (fault.kind, fault.buffer) == ("race", "tile")
    assert {fault.line, fault.other.line} == lines
    assert (fault.thread, fault.block) != (fault.other.thread, fault.other.block)
    assert {fault.other.act} <= {"read", "write"}
    assert "`__syncthreads()`" in judged.verified.ruling.hint
