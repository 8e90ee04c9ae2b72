"""Problems of others before a GPU's referee: on a device that needs no GPU, all else for real."""

import base64
import contextlib
import json
import os
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from stand_in import StandInServices, program, serve_until_closed

from common.contract import Settings, Status
from evaluator.backends.gpu.device.health import Gpu
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.reference import ReferenceProcess, ReferenceRefusedError
from evaluator.pipeline.gpu.client import GpuReferee
from evaluator.pipeline.referee import JudgeRequest
from evaluator.pipeline.timing import roofline_of, timed
from evaluator.sandbox import selftest
from evaluator.sandbox.sandbox import Job
from evaluator.settings import MachineSettings
from evaluator.stages.launch.planning import plan_launches
from evaluator.stages.time.statistics import Pooled

RELU = Path(__file__).parents[2] / "foreign" / "references" / "relu.py"
GPU = Gpu(0, "GPU-0", "stand-in", "sm_90", 1 << 33, 1 << 33, "1.0", (13, 0), None, "default", None)


@pytest.fixture(scope="module")
def referee(tmp_path_factory):
    settings = MachineSettings(tmp_path_factory.mktemp("data"))
    made = GpuReferee(GPU, settings)
    made._socket.parent.mkdir(parents=True)
    services = StandInServices(selftest.choose(settings.data_dir / "work"))
    with contextlib.closing(services.runtime), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(made._socket))
        listener.listen(16)
        threading.Thread(target=serve_until_closed, args=(listener, services), daemon=True).start()
        yield made


@pytest.fixture(scope="module")
def problem(toolbox):
    with foreign_problem(RELU.read_bytes(), "relu.py", toolbox.sandbox, toolbox.cache, backend="gpu") as stated:
        yield stated


def request_for(problem, deed, **settings):
    made = program(deed)
    directives = (
        "// assay: launch k grid=(ceil_div(batch_size * dim, 256)) block=(256) args=(x, out, batch_size * dim)\n"
    )
    planned = plan_launches(problem, made, None, directives).checked_plan
    return JudgeRequest(made, planned, Settings(**settings), local_memory=False, secret=os.urandom(32))


def test_a_right_kernel_is_judged_by_the_file_and_compared_with_it_in_eager_pytorch(referee, problem):
    said = []
    asked = request_for(problem, "relu", max_launches=20)
    found = referee.judge(asked, said.append)
    assert found.verified.ruling is None
    trials = found.verified.correctness.trials
    assert {one.distribution for one in trials} == {one.name for one in problem.distributions}
    assert {str(one.sizes) for one in trials} == {"{'batch_size': 16, 'dim': 1000}"}
    measurement = found.look.measurement
    assert measurement.checked_launches >= 1
    (eager,) = measurement.baselines
    assert eager.name == "eager"
    assert eager.launches == len(measurement.baseline_us) >= 20
    assert "eager: Model(*get_init_inputs()) of relu.py" in measurement.compared_with
    # What a reference does is not the least that any answer takes, so nothing is too fast.
    assert roofline_of(asked.checked_plan, found.look) is None
    timing = timed(asked.checked_plan, found, lambda one: Pooled(one.event_us, one.baseline_us)).timing
    assert timing.baselines == measurement.baselines
    assert timing.speedup == pytest.approx(timing.baseline_us / timing.latency_us)


def test_a_wrong_kernel_fails_and_a_baseline_that_cannot_be_had_is_named(referee, problem):
    ruling = referee.judge(request_for(problem, "wrong"), print).verified.ruling
    assert (ruling.status, ruling.message.split(":")[0]) == (
        Status.INCORRECT,
        "At batch_size=16, dim=1000 with as_drawn inputs",
    )
    look = referee.judge(request_for(problem, "relu", max_launches=20, baseline="cuda_graph"), print).look
    graph = next(one for one in look.measurement.baselines if one.name == "cuda_graph")
    assert graph.latency_us is None
    assert "a CUDA graph needs a GPU" in graph.why_not
    assert look.measurement.notes[-1] == "so it is compared with eager"
    assert "PyTorch" in look.measurement.compared_with
    assert "eager:" in look.measurement.compared_with


def test_at_a_large_size_each_draw_but_the_first_costs_no_scale(referee, problem, monkeypatch):
    """But for the first: an answer with its scale is nine runs, which take seconds of millions of elements."""
    monkeypatch.setattr("evaluator.foreign.answers._VALUE_FIRST", 1000)
    asked = []
    for name in ("answered", "valued", "valued_if_finite"):
        own = getattr(ReferenceProcess, name)
        monkeypatch.setattr(
            ReferenceProcess, name, lambda *given, own=own, name=name: asked.append(name) or own(*given)
        )
    found = referee.judge(request_for(problem, "relu", max_launches=20), print)
    assert found.verified.ruling is None
    trials, checked = found.verified.correctness.trials, found.look.measurement.checked_launches
    assert len({one.distribution for one in trials}) > 1
    assert asked.count("answered") == 1
    assert len(asked) - 1 >= len(trials) - 1 + checked
    ruling = referee.judge(request_for(problem, "wrong"), print).verified.ruling
    assert ruling.status is Status.INCORRECT


def test_a_reference_that_fails_at_the_referee_is_held_against_the_problem(referee, problem):
    """What travels is the text: where it is another one than was learned, it fails there."""
    told = json.loads(problem.origin)
    text = RELU.read_bytes().replace(b"torch.relu(x)", b"x @ x")
    lying = replace(problem, origin=json.dumps({**told, "text": base64.b64encode(text).decode()}).encode())
    asked = request_for(problem, "relu")
    with pytest.raises(ReferenceRefusedError, match=r"relu.py:\d+: .*fails"):
        referee.judge(replace(asked, checked_plan=replace(asked.checked_plan, problem=lying)), print)


def test_where_no_baseline_can_be_had_the_kernel_is_judged_and_not_timed(referee, problem, monkeypatch):
    monkeypatch.setattr("evaluator.foreign.baselines._job", lambda gpu: Job(argv=("/bin/true",)))
    monkeypatch.setattr("evaluator.foreign.baselines.BaselineStore._read", lambda self, subject, name: None)
    found = referee.judge(request_for(problem, "relu"), print)
    assert found.verified.ruling is None
    assert found.look is None
    assert "no baseline could be had, so nothing was timed" in found.verified.correctness.warnings[-1]
