"""What one file does to its process, to the zygote or to the machine around it matters to no other file."""

import fcntl
import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evaluator.cancellation import CancelledError, CancelToken
from evaluator.errors import JobKilledError
from evaluator.foreign import zygote
from evaluator.foreign.inside import process as file_process
from evaluator.foreign.inside.process import NO_PROCESS, STEPPED_BACK
from evaluator.foreign.reference import ReferenceProcess, ReferenceRefusedError
from evaluator.pipeline.toolbox import Toolbox
from evaluator.sandbox import selftest
from evaluator.sandbox.host import warden
from evaluator.sandbox.sandbox import Sandbox

RIGHT = (Path(__file__).parent / "references" / "relu.py").read_bytes()
HEAD = "import os, sys, torch\nfrom torch import nn\nclass Model(nn.Module):\n    def forward(self, x):\n"
TAIL = "\n        return x * 2.0\ndef get_inputs():\n    return [torch.randn(4, 6)]\n"


@pytest.fixture
def sandbox(toolbox: Toolbox) -> Iterator[Sandbox]:
    zygote.KEPT.end_all()
    yield toolbox.sandbox
    zygote.KEPT.end_all()


def described(sandbox: Sandbox, text: bytes, name: str = "some.py") -> dict[str, int]:
    process = ReferenceProcess(sandbox, text, name)
    try:
        return dict(process.describe({}).sizes)
    finally:
        process.close()


def outcome(sandbox: Sandbox, text: bytes) -> str:
    """Why it is refused; empty where it is not."""
    try:
        described(sandbox, text)
    except ReferenceRefusedError as refused:
        return str(refused)
    return ""


def poison(deed: str) -> bytes:
    return f"{HEAD}        {deed}{TAIL}".encode()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[zygote.Zygote]:
    found: list[zygote.Zygote] = []
    before = zygote.Zygote.__init__

    def counted(self: zygote.Zygote, *given: object) -> None:
        before(self, *given)  # type: ignore[arg-type]
        found.append(self)

    monkeypatch.setattr(zygote.Zygote, "__init__", counted)
    return found


IN_MEMORY = {
    "an operator": "torch.Tensor.numel = lambda self: 3",
    "a module": "import json; json.dumps = lambda *_: '{}'",
    "the default type": "torch.set_default_dtype(torch.float64)",
    "the folder": "os.chdir('/')",
    "open files": "torch.kept = [open('/dev/null') for _ in range(200)]",
    "what it prints": "os.write(2, b'secret of another caller')",
}
LEFT_BEHIND = {
    "a process": "os.fork() or (os.setsid(), __import__('time').sleep(60))",
    "an orphan": "os.fork() or (os.fork() and os._exit(0)) or __import__('time').sleep(60)",
    "a file": "open('reference_.py', 'w').write('x')",
    "a file in memory": "open('/dev/shm/x', 'w').write('x')",
    "a folder": "os.path.isfile('reference.py') and (os.unlink('reference.py'), os.mkdir('reference.py'))",
    "answers of its own": "[os.write(int(each), b'0' * 64) for each in os.listdir('/proc/self/fd') "
    "if os.path.exists(f'/proc/self/fd/{each}') and __import__('fcntl').fcntl(int(each), 3) & 3 == 1]",
    "an end of its own": "os._exit(3)",
}
IN_NAMESPACES = {
    "a hidden file": "open('/dev/shm/x', 'w').write('x'); os.chmod('/dev/shm', 0o300)",
    "a hidden file in the work folder": "open('x', 'w').write('x'); os.chmod('.', 0o300)",
    "another mode of a folder": "os.chmod('/tmp', 0o701)",
    "its niceness": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "its scheduling class": "os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))",
    "its place before the disk": "__import__('ctypes').CDLL(None).syscall(NUMBER, 1, os.getppid(), 3 << 13)",
    "its processors": "os.sched_setaffinity(os.getppid(), {min(os.sched_getaffinity(0))})",
}
"""Without namespaces the filter of system calls refuses these."""
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}


def test_a_machine_that_starts_no_process_is_no_fault_of_the_file(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor can a file say so of the machine: that would have its evaluation tried again and again."""
    ended = outcome(sandbox, poison(f"os._exit({NO_PROCESS})"))
    assert ended.startswith("some.py: its process ended before it could be described")

    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(file_process, "_FORK_S", 0.1)
    monkeypatch.setattr(os, "fork", refuse)
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit, match=str(NO_PROCESS)):
        file_process._forked()


def test_what_stays_in_memory_ends_with_the_process_of_the_file(
    sandbox: Sandbox, started: list[zygote.Zygote]
) -> None:
    sizes = described(sandbox, RIGHT)
    for deed in IN_MEMORY.values():
        assert "secret" not in outcome(sandbox, poison(deed))
        assert described(sandbox, RIGHT) == sizes, deed
    ended = outcome(sandbox, poison("os._exit(3)"))
    assert ended.startswith("some.py: its process ended before it could be described")
    assert "secret" not in ended
    refusals = [deed for deed in IN_MEMORY.values() if "json" in deed]
    assert len(started) <= 1 + len(refusals)


@pytest.mark.parametrize("deed", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_what_is_left_outside_ends_the_zygote(deed: str, sandbox: Sandbox, started: list[zygote.Zygote]) -> None:
    assert outcome(sandbox, poison(deed))[:7] in ("", "some.py")
    assert described(sandbox, RIGHT) == {"batch_size": 16, "dim": 1000}
    assert len(started) == 2
    assert described(sandbox, RIGHT) == {"batch_size": 16, "dim": 1000}
    assert len(started) == 2


def test_a_file_that_kills_the_zygote_ends_its_own_evaluation_alone(
    sandbox: Sandbox, started: list[zygote.Zygote]
) -> None:
    with pytest.raises(JobKilledError):
        described(sandbox, poison("os.kill(os.getppid(), 9)"))
    assert described(sandbox, RIGHT) == {"batch_size": 16, "dim": 1000}
    assert len(started) == 2


@pytest.mark.parametrize("deed", IN_NAMESPACES.values(), ids=IN_NAMESPACES)
def test_a_change_around_it_ends_the_zygote(deed: str, sandbox: Sandbox, started: list[zygote.Zygote]) -> None:
    if sandbox.name != "bubblewrap" or ("affinity" in deed and len(os.sched_getaffinity(0)) == 1):
        pytest.skip("this cannot be changed here")
    deed = deed.replace("NUMBER", str(_IOPRIO_SET[platform.machine()]))
    assert outcome(sandbox, poison(deed)) == ""
    assert described(sandbox, RIGHT) == {"batch_size": 16, "dim": 1000}
    assert len(started) == 2


def test_it_goes_on_where_the_sandbox_has_it_let_others_go_first(
    sandbox: Sandbox, started: list[zygote.Zygote]
) -> None:
    assert STEPPED_BACK == warden.STEP_BACK
    if sandbox.name != "bubblewrap":
        pytest.skip("the filter of system calls refuses it")
    assert outcome(sandbox, poison(f"os.setpriority(os.PRIO_PROCESS, os.getppid(), {STEPPED_BACK})")) == ""
    assert described(sandbox, RIGHT) == {"batch_size": 16, "dim": 1000}
    assert len(started) == 1


def test_what_a_file_does_to_the_pipe_of_its_answers_reaches_no_other_answer(
    sandbox: Sandbox, started: list[zygote.Zygote]
) -> None:
    # More than a pipe holds, so that who cannot wait for the reader fails.
    text = poison("pass").replace(b"4, 6", b"1000, 1000")
    inputs = {"x": np.ones((1000, 1000), np.float32)}
    for command, value in ((fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC), (fcntl.F_SETPIPE_SZ, 4096)):
        # Not every number is an open file, nor is every file a pipe that is written to.
        change = f"fcntl(each, 3) & 3 == 1 and fcntl(each, {command}, {value})"
        deed = f"from fcntl import fcntl\n        for each in range(3, 64):\n            try: {change}"
        deed += "\n            except OSError: pass"
        assert outcome(sandbox, poison(deed)) == ""
        process = ReferenceProcess(sandbox, text, "some.py")
        try:
            process.describe({})
            found = process.answered(inputs, {})["value_0"]
        finally:
            process.close()
        assert found.shape == (1000, 1000)
        assert (found == 2.0).all()
    assert len(started) == 1


def test_a_file_cannot_look_into_the_zygote(sandbox: Sandbox) -> None:
    deed = (
        "tried = []\n        for each in ('mem', 'fd/0', 'environ'):\n            try:\n"
        "                open(f'/proc/{os.getppid()}/{each}', 'rb')\n                tried.append(each)\n"
        "            except PermissionError: pass\n        if tried: raise RuntimeError(tried)"
    )
    assert described(sandbox, poison(deed)) == {}
    with pytest.raises(ReferenceRefusedError, match="RuntimeError: \\['mem'"):
        described(sandbox, poison(deed.replace("os.getppid()", "os.getpid()").replace(", 'fd/0', 'environ'", ",")))


def test_it_serves_so_many_files_so_long_and_is_kept_once(
    sandbox: Sandbox, started: list[zygote.Zygote], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygote, "_MOST_FILES", 2)
    monkeypatch.setattr(zygote, "_IDLE_S", 0.2)
    for _ in range(2):
        described(sandbox, RIGHT)
    assert len(started) == 1
    described(sandbox, RIGHT)
    assert len(started) == 2
    until_s = time.monotonic() + 60
    while zygote.KEPT.idle and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not zygote.KEPT.idle


def test_cancelling_ends_it(sandbox: Sandbox, started: list[zygote.Zygote]) -> None:
    token = CancelToken()
    process = ReferenceProcess(sandbox, poison("__import__('time').sleep(60)"), "some.py", token)
    threading.Timer(3.0, token.cancel).start()
    with pytest.raises(CancelledError):
        process.describe({})
    process.close()
    assert described(sandbox, RIGHT)
    assert len(started) == 2


def test_the_sandbox_of_a_process_does_too(toolbox: Toolbox, tmp_path: Path) -> None:
    plain = selftest.choose(tmp_path, "process")
    assert described(plain, RIGHT) == described(plain, RIGHT) == {"batch_size": 16, "dim": 1000}
    zygote.KEPT.end_all()
