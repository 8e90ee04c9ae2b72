"""A rehearsal on the simulator: what it watches is told beside what a GPU showed, and a race ends the evaluation."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from common.contract import Settings, Status
from evaluator.backends.sim import backend
from evaluator.backends.sim.codegen import module
from evaluator.backends.sim.ptx import parser
from evaluator.disk_cache import Cache
from evaluator.errors import InfrastructureError, StorageError
from evaluator.pipeline.build import build
from evaluator.pipeline.progress import unheard
from evaluator.pipeline.referee import JudgeRequest
from evaluator.pipeline.sim_referee import SimulatorReferee, also_rehearsed, rehearse
from evaluator.pipeline.stage_values import SubmittedSource
from evaluator.problems.catalogue import find_problem
from evaluator.sandbox.sandbox import JobResult

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


class Builds:
    """A cache that alters libraries."""

    def __init__(self, builds, alter):
        self._builds, self._alter = builds, alter

    def get_or_make(self, key, make):
        found, hit = self._builds.get_or_make(key, make)
        return {name: self._alter(data) if name == "library" else data for name, data in found.items()}, hit


def test_a_library_that_cannot_be_loaded_is_our_fault_and_says_what_to_do(toolbox, referee, monkeypatch):
    asked = judge_request(toolbox, CORPUS / "kernels" / "transpose_padded_tile.cu", "transpose")
    monkeypatch.setattr(toolbox.simulator, "builds", Builds(toolbox.simulator.builds, lambda data: data[:100]))
    with pytest.raises(
        InfrastructureError, match=r"could not load the program that it was to run: \./library"
    ) as fault:
        rehearse(referee, asked)
    assert "fapolicyd" in fault.value.remedy


def test_what_is_kept_and_broken_on_disk_is_made_again(tmp_path, toolbox, monkeypatch):
    asked = judge_request(toolbox, CORPUS / "kernels" / "transpose_padded_tile.cu", "transpose")
    kept = Cache(tmp_path, 1 << 30)
    monkeypatch.setattr(toolbox.simulator, "builds", kept)
    referee = SimulatorReferee(toolbox.simulator, rehearses=True)
    for _ in range(2):
        assert rehearse(referee, asked).verified.ruling is None
        for path in tmp_path.glob("[0-9a-f][0-9a-f]/*"):
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


class FullOnce:
    """A sandbox whose disk is full when a library is compiled for the first time."""

    def __init__(self, sandbox):
        self._sandbox, self.refused = sandbox, 0

    def __getattr__(self, name):
        return getattr(self._sandbox, name)

    def run(self, job):
        if "library" in job.collect and not self.refused:
            self.refused += 1
            said = b"/usr/bin/ld: final link failed: No space left on device\n"
            return JobResult(exit_code=1, signal=None, stdout=b"", stderr=said, files={}, wall_s=0.1)
        return self._sandbox.run(job)


@pytest.mark.parametrize("free_bytes", [0, 1 << 40], ids=["whole_disk", "quota"])
def test_a_disk_that_was_full_once_is_our_fault_and_slows_no_program_for_ever(
    tmp_path, toolbox, monkeypatch, free_bytes
):
    asked = judge_request(toolbox, CORPUS / "kernels" / "transpose_padded_tile.cu", "transpose")
    simulator = toolbox.simulator
    full = FullOnce(simulator.sandbox)
    monkeypatch.setattr(simulator, "sandbox", full)
    monkeypatch.setattr(simulator, "builds", Cache(tmp_path, 1 << 30))
    usage = SimpleNamespace(free=free_bytes)
    monkeypatch.setattr(backend, "shutil", SimpleNamespace(disk_usage=lambda place: usage))
    found = []
    for _ in range(2):
        try:
            with simulator.prepare(asked.program, asked.settings, runs_little=True) as session:
                found.append("quickly" if session.slower > 1 else "as always")
        except StorageError as fault:
            found.append(fault.remedy.partition(",")[0])
    assert found == ["as always" if free_bytes else "Free some space there", "quickly"]
    assert full.refused == 1
