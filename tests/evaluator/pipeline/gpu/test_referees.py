"""Several GPUs: real referees on stand-in devices, each behind its own socket; where jobs go, and where not."""

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from stand_in import StandInServices, program, relu_plan, serve_until_closed

from common.contract import Settings
from evaluator.backends.gpu.device import health
from evaluator.backends.gpu.device.health import Gpu
from evaluator.backends.gpu.session import UnfitError
from evaluator.cancellation import CancelToken
from evaluator.errors import GpuError, UsageError
from evaluator.pipeline.gpu import referees as referees_module
from evaluator.pipeline.gpu.client import GpuReferee, GpuUnfitError
from evaluator.pipeline.gpu.referees import GpuReferees, waiting
from evaluator.pipeline.referee import JudgeRequest
from evaluator.pipeline.toolbox import Toolbox
from evaluator.sandbox import selftest
from evaluator.settings import MachineSettings


def gpu(index, name="NVIDIA H200", arch="sm_90"):
    return Gpu(index, f"GPU-{index}", name, arch, 1 << 33, 1 << 33, "1.0", (13, 0), None, "default", None)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """Two GPUs, whose referees are threads of this process."""
    settings = MachineSettings(tmp_path_factory.mktemp("data"))
    place = selftest.choose(settings.data_dir / "work")
    with contextlib.ExitStack() as stack:
        single = []
        for index in range(2):
            referee = GpuReferee(gpu(index), settings)
            referee._socket.parent.mkdir(parents=True, exist_ok=True)
            referee.services = StandInServices(place)
            stack.enter_context(contextlib.closing(referee.services.runtime))
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(referee._socket))
            listener.listen(16)
            threading.Thread(target=serve_until_closed, args=(listener, referee.services), daemon=True).start()
            single.append(referee)
        yield single


@pytest.fixture
def referees(machine):
    folder = machine[0]._socket.parent
    for file in folder.glob("*.ill"):
        file.unlink()
    return GpuReferees(machine, folder)


def request(deed="relu", limit_s=30.0, settings=None, **more):
    settings = settings or Settings(verification="quick", sizes={"n": 3000}, timing=False, run_timeout_s=limit_s)
    made = program(deed, **more)
    return JudgeRequest(made, relu_plan(made), settings, local_memory=False, secret=os.urandom(32))


def judged_on(referees, deed="relu", limit_s=30.0):
    """The GPU that had the job, and what came of it."""
    bound = referees.bound_to(CancelToken())
    result = bound.judge(request(deed, limit_s), lambda event: None)
    return bound.device, result.verified.ruling


def test_an_idle_machine_judges_on_the_first_and_says_so(referees):
    assert "2 GPUs" in referees.device
    device, ruling = judged_on(referees)
    assert "GPU-0" in device
    assert "2 GPUs" not in device
    assert ruling is None


def test_a_job_goes_to_the_one_that_has_least_to_do(referees):
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(judged_on, referees, "hang", 20.0)
        while waiting(referees._jobs(referees._referees[0])) == 0:
            time.sleep(0.01)
        assert "GPU-1" in judged_on(referees)[0]
        assert not hanging.done()
        device, ruling = hanging.result()
    assert "GPU-0" in device
    assert ruling.status == "timeout"
    assert [waiting(referees._jobs(one)) for one in referees._referees] == [0, 0]


def test_many_at_once_are_shared_out(referees):
    with ThreadPoolExecutor(6) as pool:
        devices = [device for device, _ in pool.map(lambda _: judged_on(referees), range(12))]
    counts = [sum(f"GPU-{index}" in device for device in devices) for index in range(2)]
    assert sum(counts) == 12
    assert min(counts) >= 3


@pytest.fixture
def ill(machine, monkeypatch):
    """The first GPU fails its check, as often as it is checked; says how often that was."""
    runtime, checks = machine[0].services.runtime, []

    def fails():
        checks.append(1)
        raise UnfitError("The GPU failed its check: a wrong sum.", "Replace it.")

    monkeypatch.setattr(runtime, "_doubt", True)
    monkeypatch.setattr(runtime, "_reassure", fails)
    return checks


def test_a_gpu_that_fails_its_check_leaves_the_rest(referees, ill, monkeypatch):
    for _ in range(3):
        device, ruling = judged_on(referees)
        assert "GPU-1" in device
        assert ruling is None
    assert len(ill) == 1, "it is left alone for a while"
    monkeypatch.setattr(referees_module, "_ILL_S", 0.0)
    assert "GPU-1" in judged_on(referees)[0]
    assert len(ill) == 2, "and tried again"


def test_where_all_are_ill_that_is_what_a_job_is_told(machine, referees, ill, monkeypatch):
    monkeypatch.setattr(machine[1].services.runtime, "_doubt", True)
    monkeypatch.setattr(machine[1].services.runtime, "_reassure", machine[0].services.runtime._reassure)
    with pytest.raises(GpuUnfitError, match="failed its check"):
        judged_on(referees)


def test_what_a_job_did_itself_does_not_go_on_to_the_next_gpu(referees, machine, monkeypatch):
    """The GPU fails its check in the middle of a job: the next one might after it."""
    other = []
    runtime = machine[0].services.runtime
    opened = runtime.open

    def open_once(*arguments, **more):
        if other:
            raise UnfitError("The GPU failed its check.", "Replace it.")
        other.append(1)
        return opened(*arguments, **more)

    monkeypatch.setattr(runtime, "open", open_once)
    monkeypatch.setattr("evaluator.pipeline.gpu.judging._suspicious", lambda *look: True)
    timed = request()
    timed = replace(timed, settings=timed.settings.model_copy(update={"timing": True, "max_launches": 10}))
    with pytest.raises(GpuError, match="failed its check") as caught:
        referees.judge(timed, lambda event: None)
    assert not isinstance(caught.value, GpuUnfitError)


def test_one_whose_referee_cannot_be_started_is_left_out(tmp_path, machine):
    missing = GpuReferee(gpu(2), replace(machine[0]._settings, sandbox="none such"))
    both = GpuReferees([missing, machine[1]], tmp_path)
    device, ruling = judged_on(both)
    assert "GPU-1" in device
    assert ruling is None
    assert both.trouble is None, "one can be used"
    assert both.start() is None
    alone = GpuReferees([missing, missing], tmp_path)
    assert alone.trouble.reason
    assert alone.log == missing.log


_HOLD = """\
import fcntl, sys
held = open(sys.argv[1], "wb")
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_who_ends_waits_no_more(tmp_path):
    file = tmp_path / "job"
    command = [sys.executable, "-c", _HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        assert waiting(tmp_path) == 1
        process.kill()
        process.wait()
    assert waiting(tmp_path) == 0
    assert not file.exists()
    with file.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert waiting(tmp_path) == 1
    assert waiting(tmp_path / "none") == 0


@pytest.fixture
def has(monkeypatch, tmp_path):
    """A machine that has these GPUs, and what its settings choose."""

    def chosen(*found, wanted=""):
        monkeypatch.setattr(health, "gpus", lambda: found)
        monkeypatch.setattr(health, "why_not", lambda: None)
        toolbox = Toolbox(MachineSettings(tmp_path, gpu=wanted))
        uuids = [one.uuid for one in getattr(toolbox.gpu, "_referees", (toolbox.gpu,))]
        assert toolbox.referee_count == len(uuids)
        return uuids

    return chosen


def test_all_gpus_of_the_first_ones_kind_are_used_unless_some_are_named(has):
    assert has(gpu(0)) == ["GPU-0"]
    assert has(gpu(0), gpu(1), gpu(2)) == ["GPU-0", "GPU-1", "GPU-2"]
    assert has(gpu(0), gpu(1, "NVIDIA A10", "sm_86"), gpu(2)) == ["GPU-0", "GPU-2"]
    assert has(gpu(0), gpu(1), gpu(2), wanted="0, GPU-2") == ["GPU-0", "GPU-2"], "the other one is left to a trainer"
    assert has(gpu(0), gpu(1), wanted="1") == ["GPU-1"]


def test_a_gpu_has_as_many_referees_as_its_memory_has_room_for(has):
    assert has(replace(gpu(0), memory_bytes=24 << 30)) == ["GPU-0"]
    assert has(replace(gpu(0), memory_bytes=40 << 30)) == ["GPU-0"] * 2
    large = [replace(gpu(number), memory_bytes=140 << 30) for number in range(2)]
    assert has(*large) == ["GPU-0"] * 3 + ["GPU-1"] * 3


def test_a_gpu_that_is_not_there_and_several_kinds_are_refused(has):
    with pytest.raises(UsageError, match="UUID or number 7"):
        has(gpu(0), gpu(1), wanted="0,7")
    with pytest.raises(UsageError, match="several kinds"):
        has(gpu(0), gpu(1, "NVIDIA A10", "sm_86"), wanted="0,1")
