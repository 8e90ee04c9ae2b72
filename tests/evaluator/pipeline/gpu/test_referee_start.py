"""The referee's real process, started where it cannot start: why is said at once, and starts become rare.

There is no GPU here: what is real is the command, its imports, its end and what it leaves.
"""

import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from stand_in import program, relu_plan

from common.contract import Settings
from evaluator.backends.gpu.device.health import Gpu
from evaluator.backends.gpu.runner.channel import socket_address
from evaluator.errors import GpuError
from evaluator.pipeline.gpu.client import GpuReferee
from evaluator.pipeline.referee import JudgeRequest
from evaluator.python_command import last_words, own_python
from evaluator.settings import MachineSettings

GPU = Gpu(0, "GPU-0", "stand-in", "sm_90", 1 << 33, 1 << 33, "1.0", (13, 0), None, "default", None)
PROGRAM = program("relu")
REQUEST = JudgeRequest(PROGRAM, relu_plan(PROGRAM), Settings(), local_memory=False, secret=bytes(32))
HOSTILE = ("queue", "random", "socket", "click", "torch", "evaluator", "common", "runpy")


@pytest.fixture
def hostile(tmp_path):
    """A folder in which modules lie that are named like those of the standard library, of others, and ours."""
    folder = tmp_path / "hostile"
    for name in HOSTILE:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise ImportError('{name} of the working folder')")
    return folder


def refused(referee):
    """Why it could not be started, said by a call that wants to know at once."""
    with pytest.raises(GpuError) as caught:
        referee.facts()
    return caught.value


def test_the_working_folder_hides_no_module(hostile):
    run = subprocess.run(
        own_python("evaluator", "--version"), cwd=hostile, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    assert "assay" in run.stdout.lower()


def test_a_package_that_only_the_working_folder_shows_is_found_from_elsewhere(tmp_path):
    """A checkout that is not installed: the child has no such folder, and no installed copy."""
    script = (
        "import sys; sys.path = [path for path in sys.path if 'site-packages' not in path]\n"
        f"sys.path.append({str(Path(__file__).parents[4])!r})\n"
        "import json, evaluator.python_command as own; print(json.dumps(own.own_python('evaluator.errors')))"
    )
    told = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    command = json.loads(told.stdout)
    command.insert(1, "-S")
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    # Found, and run as far as it goes without the packages that -S hides.
    assert "No module named evaluator" not in run.stderr
    assert run.returncode == 0 or "pydantic" in run.stderr, run.stderr


@pytest.mark.parametrize("place", ["", "work", "hostile"])
def test_a_working_folder_inside_the_data_folder_is_no_reason(place, tmp_path, hostile, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / place)
    said = str(refused(GpuReferee(GPU, MachineSettings(tmp_path))))
    assert "could not be started (exit code" in said
    assert "may not read" not in said
    assert "of the working folder" not in said


def test_a_working_folder_that_is_gone_is_no_reason(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        said = str(refused(GpuReferee(GPU, MachineSettings(tmp_path, sandbox="docker"))))
    finally:
        monkeypatch.undo()
    assert "could not be started (exit code 3)" in said
    assert "getcwd" not in said


def _broken_import(tmp_path, monkeypatch):
    (tmp_path / "path" / "numpy").mkdir(parents=True)
    (tmp_path / "path" / "numpy" / "__init__.py").write_text("raise ImportError('libcublas.so.13: no such file')")
    # What is not installed but lies on the path, as on a machine that runs a checkout, is found after it.
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"), prepend=os.pathsep)
    return "ImportError: libcublas.so.13: no such file"


def _no_docker(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    return "ocker"


def _killed(tmp_path, monkeypatch):
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text("import os; os.kill(os.getpid(), 9)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    return "ended by SIGKILL): it left no message"


def _no_folder(tmp_path, monkeypatch):
    (tmp_path / "referees").write_text("a file")
    return "referees: File exists"


def _full_disk(tmp_path, monkeypatch):
    (tmp_path / "referees").mkdir()
    (tmp_path / "referees" / "GPU-0.log").symlink_to("/dev/full/log")
    return "GPU-0.log: Not a directory"


@pytest.mark.parametrize(("kills", "starts", "words"), [(2, 3, "exit code 3"), (99, 4, "ended by SIGKILL")])
def test_a_referee_that_is_killed_at_its_start_is_started_again(kills, starts, words, tmp_path, monkeypatch):
    (tmp_path / "path").mkdir()
    counted = tmp_path / "starts"
    counted.touch()
    (tmp_path / "path" / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'evaluator.pipeline.gpu.server' in sys.orig_argv and 'supervisor' not in ' '.join(sys.orig_argv):\n"
        f"    open({str(counted)!r}, 'a').write('.')\n"
        f"    os.path.getsize({str(counted)!r}) <= {kills} and os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"), prepend=os.pathsep)
    fault = refused(GpuReferee(GPU, MachineSettings(tmp_path)))
    assert words in str(fault)
    assert counted.stat().st_size == starts


@pytest.mark.parametrize("cause", [_broken_import, _no_docker, _killed, _no_folder, _full_disk])
def test_each_reason_is_stated_within_seconds(cause, tmp_path, monkeypatch):
    words = cause(tmp_path, monkeypatch)
    referee = GpuReferee(GPU, MachineSettings(tmp_path, sandbox="docker"))
    began_s = time.monotonic()
    fault = refused(referee)
    assert time.monotonic() - began_s < 15
    assert words in str(fault)
    assert fault.remedy
    assert referee.trouble.reason == str(fault)
    assert referee.bound_to(None).trouble == referee.trouble


def test_no_processes_left_is_a_reason(tmp_path, monkeypatch):
    referee = GpuReferee(GPU, MachineSettings(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        for descriptor in held[-2:]:
            os.close(descriptor)
        trouble = referee.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held[:-2]:
            os.close(descriptor)
    assert "Too many open files" in trouble.reason


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A referee that cannot start, and how often that was tried."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(
        f"open({str(tmp_path / 'tried')!r}, 'a').write('x'); raise SystemExit('no driver')"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    settings = MachineSettings(tmp_path)
    return settings, lambda: (tmp_path / "tried").stat().st_size


def test_many_graders_try_once_and_all_are_told(counted):
    settings, tried = counted
    said = []

    def judge():
        try:
            GpuReferee(GPU, settings).judge(REQUEST, lambda text: None)
        except GpuError as fault:
            said.append(str(fault))

    threads = [threading.Thread(target=judge) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(said) == 12
    assert tried() == 1


def test_starts_wait_longer_and_longer(counted):
    settings, tried = counted
    referee = GpuReferee(GPU, settings)
    until_s = time.monotonic() + 5
    while time.monotonic() < until_s:
        with pytest.raises(GpuError, match="could not be started"):
            referee.judge(REQUEST, lambda text: None)
    assert 2 <= tried() <= 4
    pauses_s = [replace(referee.trouble, failures=n).due_s - referee.trouble.at_s for n in (1, 2, 3, 10, 5000)]
    # A difference of two times since the machine started, which are large where it runs for long.
    assert pauses_s == pytest.approx([1, 2, 4, 30, 30])


def test_what_an_earlier_start_of_the_machine_left_counts_for_nothing(tmp_path):
    referee = GpuReferee(GPU, MachineSettings(tmp_path))
    file = tmp_path / "referees" / "GPU-0.trouble"
    file.parent.mkdir()
    for at_s in (time.monotonic() + 1e6, time.monotonic() - 1e4):
        file.write_text(json.dumps({"reason": "r", "remedy": None, "failures": 9, "at_s": at_s}))
        assert referee.trouble is None
    for damaged in ("", "{", "[]", '{"reason": 1}', "\0"):
        file.write_text(damaged)
        assert referee.trouble is None


def test_one_that_runs_ends_the_trouble(counted):
    settings, _ = counted
    referee = GpuReferee(GPU, settings)
    assert referee.start() is not None
    with (
        socket.socket(socket.AF_UNIX) as listener,
        socket_address(settings.data_dir / "referees/GPU-0.sock") as place,
    ):
        listener.bind(place)
        listener.listen()
        assert referee.start() is None
        assert referee.trouble is None


def test_a_long_data_folder_has_a_socket_all_the_same(tmp_path):
    folder = tmp_path / ("d" * 100) / ("e" * 100)
    referee = GpuReferee(GPU, MachineSettings(folder))
    (folder / "referees").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        with socket_address(folder / "referees" / "GPU-0.sock") as place:
            listener.bind(place)
        listener.listen()
        assert referee.start() is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        ("a\nb\n", "a\nb"),
        ('x\nTraceback (most recent call last):\n  File "a"\n    b\nOSError: no\n', "OSError: no"),
        (
            'Traceback (most recent call last):\n  File "a"\n    b\n',
            'Traceback (most recent call last):\n  File "a"\n    b',
        ),
        ("y" * 9000, "y" * 500),
    ],
)
def test_last_words(text, words):
    assert last_words(text) == words
