"""A referee that someone kills counts against no job, one that ends of itself does: only its device is a stand-in."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import stand_in_referee
from stand_in import program, relu_plan

from common.contract import Settings
from evaluator.backends.gpu.device.health import Gpu
from evaluator.cancellation import CancelToken
from evaluator.errors import GpuError
from evaluator.pipeline.gpu.client import GpuReferee, RefereeKilledError
from evaluator.pipeline.gpu.referee_supervisor import how_it_ended
from evaluator.pipeline.referee import JudgeRequest
from evaluator.pipeline.toolbox import Toolbox
from evaluator.python_command import own_python
from evaluator.sandbox.host.process_tree import descendants
from evaluator.settings import MachineSettings

GPU = Gpu(0, "GPU-0", "stand-in", "sm_90", 1 << 33, 1 << 33, "1.0", (13, 0), None, "default", None)
SCRIPT = Path(stand_in_referee.__file__)


class Referee(GpuReferee):
    def _command(self):
        return [sys.executable, str(SCRIPT), str(self._socket), str(self._settings.data_dir)]


def processes():
    """The referee's and its supervisor's, by whether they are the supervisor."""
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if bytes(SCRIPT) in command:
                yield any(b"referee_supervisor" in word for word in command), pid


@pytest.fixture
def referee(tmp_path):
    yield Referee(GPU, MachineSettings(tmp_path))
    for _, pid in list(processes()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def request(deed):
    made = program(deed)
    settings = Settings(verification="quick", sizes={"n": 3000}, run_timeout_s=20, max_launches=20)
    return JudgeRequest(made, relu_plan(made), settings, local_memory=False, secret=os.urandom(32))


def judged(referee, number, supervisor=False, times=100):
    """What comes of a job while the first referees that have begun it are sent a signal."""
    hit = []

    def progress(event):
        for is_supervisor, pid in processes():
            if is_supervisor is supervisor and pid not in hit and len(hit) < times:
                hit.append(pid)
                os.kill(pid, number)

    try:
        return referee.judge(request("relu"), progress), hit
    except GpuError as fault:
        return fault, hit


@pytest.mark.parametrize(
    ("name", "supervisor", "words"),
    [("KILL", False, "SIGKILL"), ("TERM", True, "SIGTERM"), ("KILL", True, "its supervisor too")],
)
def test_a_referee_that_is_killed_each_time_counts_against_nobody(referee, name, supervisor, words):
    fault, hit = judged(referee, signal.Signals[f"SIG{name}"], supervisor)
    assert isinstance(fault, RefereeKilledError)
    assert f"killed from outside in the middle of a job (ended by {words})".replace("ended by its", "its") in str(
        fault
    )
    assert len(hit) == 3
    tools = Toolbox(referee._settings).bound_to(CancelToken())
    tools.note(fault)
    assert tools.killed_from_outside
    assert referee.judge(request("relu"), lambda event: None).verified.ruling is None


def test_a_referee_that_is_killed_twice_judges_the_third_time(referee):
    found, hit = judged(referee, signal.SIGKILL, times=2)
    assert len(hit) == 2
    assert found.verified.ruling is None


def _end_all():
    for _, pid in list(processes()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class KilledAtItsStart(Referee):
    """By whoever kills all that is new; the first `kills` times."""

    kills = 2
    number = "KILL"

    def _command(self):
        self.kills -= 1
        return ["/bin/sh", "-c", f"kill -{self.number} $$"] if self.kills >= 0 else super()._command()


def test_a_referee_that_is_killed_at_its_start_counts_against_nobody(tmp_path):
    referee = KilledAtItsStart(GPU, MachineSettings(tmp_path))
    try:
        assert referee.judge(request("relu"), lambda event: None).verified.ruling is None
        assert referee.trouble is None
    finally:
        _end_all()
    always = KilledAtItsStart(GPU, MachineSettings(tmp_path / "always"))
    always.kills = 4
    for _ in range(2):  # who asks before the next start is due hears the same
        with pytest.raises(RefereeKilledError, match=r"could not be started \(ended by SIGKILL\)"):
            always.judge(request("relu"), lambda event: None)
    time.sleep(max(0.0, always.trouble.due_s - time.monotonic()))
    try:
        assert always.judge(request("relu"), lambda event: None).verified.ruling is None
    finally:
        _end_all()
    crashing = KilledAtItsStart(GPU, MachineSettings(tmp_path / "other"))
    crashing.number = "SEGV"
    with pytest.raises(GpuError, match="could not be started") as fault:
        crashing.judge(request("relu"), lambda event: None)
    assert not isinstance(fault.value, RefereeKilledError)


def test_a_referee_that_crashes_in_a_job_twice_counts_against_the_job(referee):
    fault, hit = judged(referee, signal.SIGSEGV)
    assert len(hit) == 2
    assert not isinstance(fault, RefereeKilledError)
    assert "ended in the middle of a job (ended by SIGSEGV)" in str(fault)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", -9), ("kill -ABRT $$", -6)]
)
def test_the_end_of_a_process_is_known_to_those_who_did_not_start_it(tmp_path, script, code):
    command = own_python("evaluator.pipeline.gpu.referee_supervisor", str(tmp_path / "ended"))
    supervisor = subprocess.Popen(
        [*command, "/bin/sh", "-c", f"echo $$; {script}"], stdout=subprocess.PIPE, text=True
    )
    pid = int(supervisor.stdout.readline())
    assert how_it_ended(tmp_path / "ended", pid) == code
    assert supervisor.wait(60) == code
    supervisor.stdout.close()


def test_a_referee_does_not_outlive_its_supervisor(tmp_path):
    command = own_python("evaluator.pipeline.gpu.referee_supervisor", str(tmp_path / "ended"))
    with subprocess.Popen(
        [*command, "/bin/sh", "-c", "echo $$; exec sleep 60"], stdout=subprocess.PIPE
    ) as supervisor:
        pid = int(supervisor.stdout.readline())
        assert how_it_ended(tmp_path / "ended", pid) == 0, "it lives"
        supervisor.kill()
    deadline_s = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    assert how_it_ended(tmp_path / "ended", pid) is None
