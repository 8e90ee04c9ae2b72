"""Host code through the whole pipeline, before a referee over its socket: on the processor, all else for real."""

import contextlib
import io
import json
import socket
import threading

import pytest
from rich.console import Console
from stand_in import StandInServices, serve_until_closed

from common.contract import Settings, Status, Submission
from evaluator.backends.gpu.device.health import Gpu
from evaluator.pipeline.gpu import host_judging
from evaluator.pipeline.gpu.client import GpuReferee
from evaluator.pipeline.gpu.turns import GpuTurn
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.receipts.checks import CheckOutcome, Expectations, examine_verdict, verified
from evaluator.report import html, terminal
from evaluator.settings import MachineSettings

GPU = Gpu(0, "GPU-0", "stand-in", "sm_90", 1 << 33, 1 << 33, "1.0", (13, 0), None, "default", None)
SOURCE = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""


@pytest.fixture(scope="module")
def toolbox(tmp_path_factory):
    made = Toolbox(MachineSettings(tmp_path_factory.mktemp("data"), host_tier="on"))
    referee = GpuReferee(GPU, made.settings)
    referee._socket.parent.mkdir(parents=True)
    services = StandInServices(made.sandbox)
    made.__dict__["gpu"] = referee
    with (
        contextlib.closing(services.runtime),
        contextlib.closing(services.host_runtime),
        socket.socket(socket.AF_UNIX) as listener,
    ):
        listener.bind(str(referee._socket))
        listener.listen(16)
        threading.Thread(target=serve_until_closed, args=(listener, services), daemon=True).start()
        yield made


def graded(toolbox, **settings):
    how = {"host_tier": "allowed", "verification": "quick", "sizes": {"n": 4096}, "max_launches": 10}
    submission = Submission(
        problem="relu", source=SOURCE, dialect="kernelbench", settings=Settings(**{**how, **settings})
    )
    return evaluate(submission, toolbox)


@pytest.fixture
def order(monkeypatch):
    """In which order a call is profiled and the GPU taken from all others."""
    found, covered, alone = [], host_judging._covered, GpuTurn.alone
    monkeypatch.setattr(host_judging, "_covered", lambda *given: found.append("profile") or covered(*given))
    monkeypatch.setattr(GpuTurn, "alone", lambda turn: found.append("alone") or alone(turn))
    return found


def test_a_profile_that_decides_nothing_keeps_nobody_waiting(toolbox, order):
    verdict = graded(toolbox, timing=False)
    assert verdict.status is Status.PASSED, verdict.message
    assert order == ["profile", "alone"]
    assert verdict.profile.coverage == 0.0


def test_what_cannot_be_recorded_runs_and_is_timed_and_everyone_knows_it(toolbox):
    verdict = graded(toolbox, reward="coverage")
    assert verdict.status is Status.PASSED, verdict.message
    compiled = verdict.compile
    assert (compiled.tier, compiled.lifting, verdict.correctness.plan_source) == ("host", None, "host")
    assert compiled.host.entry == "ModelNew.forward(x)"
    assert "torch.relu" in compiled.host.why
    assert compiled.host.libraries == ("aten::relu",)
    assert "null submission" in compiled.times_include
    assert verdict.profile.coverage == 0.0
    assert (verdict.reward.value, verdict.reward.maximum) == (0.0, 1.0)
    if verdict.timing is None:  # a machine so busy that its clock tells nothing
        assert any("nothing is said about the speed" in warning for warning in verdict.correctness.warnings)
    else:
        assert verdict.timing.clock == "referee"
        assert verdict.timing.checked_launches == verdict.timing.launches
    beside = Expectations(SOURCE.encode(), None, {toolbox.signer.public_key: "this grader"})
    _, checks = examine_verdict(verdict.model_dump_json().encode(), beside)
    assert [check for check in checks if check.outcome is CheckOutcome.FAILED] == []
    assert verified(checks)
    assert "ModelNew.forward(x)" in html.render(verdict, SOURCE)
    console = Console(record=True, width=160, file=io.StringIO())
    console.print(terminal.verdict_card(verdict, SOURCE))
    assert "ran: ModelNew.forward(x)" in console.export_text()
    assert json.loads(verdict.model_dump_json())["receipt"]["settings"]["host_tier"] == "allowed"


def test_the_caller_can_ask_for_kernels_of_its_own(toolbox, order):
    verdict = graded(toolbox, timing=False, min_coverage=0.5)
    assert (verdict.status, verdict.phase) == (Status.REJECTED, "profile")
    assert "aten::relu" in verdict.message
    assert order == ["alone", "profile"]  # this one decides


def test_nothing_runs_that_was_not_asked_for_or_is_not_allowed(toolbox, monkeypatch):
    verdict = graded(toolbox, host_tier="off")
    assert (verdict.status, verdict.phase, verdict.compile.tier) == (Status.UNSUPPORTED, "lift", "device")
    assert "host tier" not in verdict.hint
    monkeypatch.setattr(toolbox, "settings", MachineSettings(toolbox.settings.data_dir, host_tier="off"))
    refused = graded(toolbox)
    assert (refused.status, refused.reward) == (Status.UNSUPPORTED, None)
    assert "The host tier would run it, but this evaluator does not run host code" in refused.hint
