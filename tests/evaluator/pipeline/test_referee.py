"""A rehearsal on the simulator: what it watches is told beside what a GPU showed, and a race ends the evaluation."""

from pathlib import Path

import pytest

from common.contract import Settings, Status
from evaluator.backends.sim import backend
from evaluator.backends.sim.codegen import module
from evaluator.backends.sim.ptx import parser
from evaluator.pipeline.build import build
from evaluator.pipeline.progress import unheard
from evaluator.pipeline.referee import JudgeRequest
from evaluator.pipeline.sim_referee import SimulatorReferee, also_rehearsed, rehearse
from evaluator.pipeline.stage_values import SubmittedSource
from evaluator.problems.catalogue import find_problem

CORPUS = Path(__file__).parents[2]


def judge_request(toolbox, path: Path, problem: str) -> JudgeRequest:
    settings = Settings()
    built = build(SubmittedSource(find_problem(problem), path.read_bytes(), None, settings, "sm_80"), toolbox)
    return JudgeRequest(built.program, built.checked_plan, settings, local_memory=False, secret=bytes(range(32)))


@pytest.fixture(scope="module")
def referee(toolbox):
    return SimulatorReferee(toolbox.simulator, rehearses=True)


def test_what_was_watched_is_told_beside_what_the_device_showed(toolbox, referee):
    asked = judge_request(toolbox, CORPUS / "kernels" / "transpose_padded_tile.cu", "transpose")
    rehearsed = rehearse(referee, asked)
    assert rehearsed.verified.ruling is None
    watched = rehearsed.verified.correctness.watched
    assert watched
    assert all(" of " in said for said in watched)
    on_device = SimulatorReferee(toolbox.simulator).judge(asked, unheard)
    told = also_rehearsed(on_device, rehearsed).verified.correctness
    assert told.watched == watched
    assert told.trials == on_device.verified.correctness.trials
    assert also_rehearsed(on_device, None) is on_device


@pytest.mark.parametrize("quickly", [False, True], ids=["as always", "compiled quickly"])
def test_a_race_is_named_with_both_threads_and_lines(toolbox, referee, monkeypatch, quickly):
    monkeypatch.setattr(toolbox.simulator, "quick_below", 1_000_000 if quickly else 0)
    path = CORPUS / "adversarial" / "race_without_barrier.cu"
    judged = rehearse(referee, judge_request(toolbox, path, "transpose"))
    assert judged.verified.ruling.status is Status.INCORRECT
    assert "In the rehearsal" in judged.verified.ruling.message
    fault = judged.verified.correctness.fault
    lines = {n for n, line in enumerate(path.read_text().splitlines(), 1) if "tile[threadIdx" in line}
    assert (fault.kind, fault.buffer) == ("race", "tile")
    assert {fault.line, fault.other.line} == lines
    assert (fault.thread, fault.block) != (fault.other.thread, fault.other.block)
    assert {fault.other.act} <= {"read", "write"}
    assert "`__syncthreads()`" in judged.verified.ruling.hint


def test_a_large_program_is_compiled_quickly_where_its_frames_have_room(toolbox, monkeypatch):
    asked = judge_request(toolbox, CORPUS / "kernels" / "transpose_padded_tile.cu", "transpose")

    def slower(quick_below, below, little=True):
        monkeypatch.setattr(toolbox.simulator, "quick_below", quick_below)
        monkeypatch.setattr(backend, "_FRAMES_BELOW_BYTES", below)
        with toolbox.simulator.prepare(asked.program, asked.settings, runs_little=little) as session:
            return session.slower

    below = backend._FRAMES_BELOW_BYTES
    large, small = 1_000_000, 100
    assert slower(large, below) > 1
    assert slower(large, below, little=False) == slower(small, below) == 1
    frame_bytes = module.translate(parser.parse_ptx(asked.program.ptx)).frame_bytes
    assert slower(large, frame_bytes - 16) == 1, "the compiler refuses it, and it is compiled as always"
    monkeypatch.setattr(backend, "_LONG_TEXT", 1000)
    assert slower(small, below, little=False) > 1, "all of it is run, and it is very long"
