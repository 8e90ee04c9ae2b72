"""One suite for every kind of sandbox: conversations with a job, and what a grader's accident does to its jobs."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sandbox_jobs import running, shell, soon

from evaluator.errors import SandboxError, StorageError
from evaluator.sandbox.host.work_folder import WorkFolders
from evaluator.sandbox.sandbox import Job, Limits, SessionEndedError

REPOSITORY = Path(__file__).parents[3]

# ---- sessions ----


def test_an_echo_of_100_mb_sent_before_anything_is_received(sandbox):
    data = os.urandom(1 << 20) * 100
    with sandbox.start(Job(("/bin/cat",), limits=Limits(output_bytes=128 << 20))) as session:
        session.send(data[: 1 << 20], memoryview(data)[1 << 20 :])
        assert session.receive(len(data)) == data
    assert session.finish().succeeded


def test_a_conversation(sandbox):
    with sandbox.start(shell("while read x; do echo $((x * 2)); done; echo bye")) as session:
        for number in range(50):
            session.send(b"%d\n" % number)
            expected = b"%d\n" % (2 * number)
            assert session.receive(len(expected)) == expected
    assert session.finish().stdout == b"bye\n"
    assert session.finish() is session.finish()


def test_output_that_nobody_asked_for_is_bounded(sandbox):
    with sandbox.start(Job(("/bin/cat",), limits=Limits(output_bytes=1 << 20))) as session:
        with pytest.raises(SessionEndedError):
            send_until_it_ends(session)
        assert session.finish().output_exceeded


def send_until_it_ends(session):
    # Docker may take in tens of MiB that nobody reads any more; then the next ones notice the end.
    for _ in range(20):
        session.send(bytes(50 << 20))


def send_and_hear(session):
    session.send(bytes(8 << 20))
    # Docker may have taken in what nobody reads; then only the program's end is noticed.
    session.receive(1)


def test_a_program_that_closes_its_stdin(sandbox):
    with sandbox.start(shell("exec <&-; echo ready; sleep 5", limits=Limits(wall_s=10))) as session:
        assert session.receive(6) == b"ready\n"
        unread = "reads no more|sent 0 of the 1" if sandbox.name == "docker" else "reads no more"
        with pytest.raises(SessionEndedError, match=unread):
            send_and_hear(session)


def test_a_program_that_dies_midway(sandbox):
    with sandbox.start(shell("echo partial; kill -ABRT $$")) as session:
        with pytest.raises(SessionEndedError, match=r"sent 8 of the 100 bytes.*signal 6|134"):
            session.receive(100)
        finished = session.finish()
    assert finished.signal == signal.SIGABRT


def test_a_session_has_a_wall_clock(sandbox):
    start = time.monotonic()
    with sandbox.start(shell("sleep 60", limits=Limits(wall_s=0.3))) as session:
        with pytest.raises(SessionEndedError, match=r"0\.3 s"):
            session.receive(1)
        assert session.finish().timed_out
    with sandbox.start(shell("sleep 60", limits=Limits(wall_s=0.3))) as session, pytest.raises(SessionEndedError):
        session.send(bytes(50 << 20))  # nobody reads
    assert time.monotonic() - start < 30  # two containers on a busy machine took 5; the programs would take 120


@pytest.mark.parametrize(
    ("script", "act"),
    [
        ("sleep 60", lambda session: session.receive(1)),
        ("sleep 60", lambda session: session.send(bytes(50 << 20))),
        ("while :; do printf x; sleep 0.01; done", lambda session: session.receive(1 << 20)),
        # Far more than it can write in time, and little enough that to make room for it takes none.
        ("while :; do printf xxxxxxxxxxxxxxxxx; done", lambda session: session.receive(1 << 26)),
        # What was sent may have been taken in by whoever passes it on, and an answer never comes.
        ("exec >&- 2>&-; sleep 60", lambda session: (session.send(bytes(50 << 20)), session.receive(1))),
    ],
    ids=["silent", "deaf", "slow", "endless", "dumb and deaf"],
)
def test_a_program_of_a_session_that_is_late_is_ended(sandbox, script, act):
    with sandbox.start(shell(f"echo; {script}")) as session:
        session.allow(30)
        session.receive(1)
        start = time.monotonic()
        session.allow(0.3)
        with pytest.raises(SessionEndedError):
            act(session)
        assert session.finish().exit_code != 0
        assert 0.2 < time.monotonic() - start < 5


def test_time_that_is_allowed_is_counted_anew_each_time(sandbox):
    with sandbox.start(shell("while read x; do echo $x; done")) as session:
        for _ in range(4):
            session.allow(0.3)
            session.send(b"1\n")
            assert session.receive(2) == b"1\n"
            time.sleep(0.2)
    assert session.finish().succeeded


def test_a_flood_on_stderr_does_not_block_a_session(sandbox):
    script = "head -c 8000000 /dev/zero >&2; echo done"
    with sandbox.start(shell(script)) as session:
        assert session.receive(5) == b"done\n"
    assert len(session.finish().stderr) == 8_000_000


def test_an_exception_in_the_caller_ends_the_session(sandbox):
    mark = secrets.token_hex(8)
    with contextlib.suppress(KeyboardInterrupt), sandbox.start(shell("sleep 60; :", mark)):
        assert running(mark)
        raise KeyboardInterrupt
    assert running(mark) == []


def test_finish_ends_a_program_that_does_not_want_to(sandbox):
    mark = secrets.token_hex(8)
    session = sandbox.start(shell("trap '' TERM HUP; while :; do sleep 1; done", mark))
    finished = session.finish()
    assert finished.signal == signal.SIGKILL
    assert not finished.timed_out
    assert running(mark) == []


# ---- the grader's own accidents ----


def test_eight_threads_at_once(sandbox):
    def one(number):
        payload = b"%d" % number * 200_000
        with sandbox.start(Job(("/bin/cat",))) as session:
            session.send(payload)
            echoed = session.receive(len(payload)) == payload
        finished = sandbox.run(
            shell("cat name; echo $1 > out", str(number), files={"name": payload}, collect=("out",))
        )
        return echoed and finished.stdout == payload and finished.files == {"out": b"%d\n" % number}

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(24)))


def test_ctrl_c_ends_the_tree(sandbox):
    mark = secrets.token_hex(8)
    with subprocess.Popen(["/bin/sh", "-c", f"sleep 0.4; kill -INT {os.getpid()}"]):
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            sandbox.run(shell("sleep 60; :", mark))
        assert time.monotonic() - start < 5
    assert soon(lambda: running(mark) == [])


GRADER = """
import sys
from pathlib import Path
from {module} import {name}
from evaluator.sandbox.sandbox import Job
session = {name}(Path(sys.argv[1])).start(Job(("/bin/sh", "-c", "echo up; setsid sleep 60; :", sys.argv[2])))
session.receive(3)
print("up", flush=True)
session.receive(1)
"""


def test_kill_9_of_the_grader_leaves_nothing(sandbox):
    mark = secrets.token_hex(8)
    code = GRADER.format(module=type(sandbox).__module__, name=type(sandbox).__name__)
    command = [sys.executable, "-c", code, str(sandbox.root), mark]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as grader:
        assert grader.stdout.readline() == b"up\n"
        assert len(list(sandbox.root.iterdir())) == (0 if sandbox.name == "docker" else 1)
        grader.kill()
    assert soon(lambda: running(mark) == [] and not list(sandbox.root.iterdir()))


def test_the_next_job_works_after_the_wardens_were_killed(on_the_host):
    assert on_the_host.run(shell("true")).succeeded
    for pid in running("warden.py"):
        with contextlib.suppress(FileNotFoundError):  # another grader's, which has just ended
            status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if int(status[1]) == os.getpid():
                os.kill(pid, signal.SIGKILL)
    time.sleep(0.05)
    assert on_the_host.run(shell("true")).succeeded


def test_a_killed_warden_is_our_fault_and_leaves_nothing(on_the_host):
    mark = secrets.token_hex(8)
    session = on_the_host.start(shell("echo up; env -i setsid sleep 60; :", mark))
    session.receive(3)
    os.kill(session._warden_pid, signal.SIGKILL)
    with pytest.raises(SandboxError, match="vanished"):
        session.finish()
    assert soon(lambda: running(mark) == [])


def test_works_in_a_forked_child(sandbox):
    assert sandbox.run(shell("true")).succeeded
    child = os.fork()
    if child == 0:
        os._exit(0 if sandbox.run(shell("true")).succeeded else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert sandbox.run(shell("true")).succeeded


def test_stale_folders_are_reaped_and_living_ones_are_not(on_the_host):
    stale = on_the_host.root / "job-1-1-dead"
    (stale / "inner").mkdir(parents=True)
    os.utime(stale, (1, 1))
    with on_the_host.start(Job(("/bin/cat",))) as session:
        os.utime(session.folder, (1, 1))
        type(on_the_host)(on_the_host.root)
        assert not stale.exists()
        assert session.folder.exists()


def test_who_goes_on_working_removes_what_the_killed_left(on_the_host, monkeypatch):
    stale = on_the_host.root / "job-1-1-dead"
    stale.mkdir()
    os.utime(stale, (1, 1))
    assert on_the_host.run(shell("true")).succeeded
    assert stale.exists(), "not at every job"
    monkeypatch.setattr(WorkFolders, "REAP_EVERY_S", 0.0)
    assert on_the_host.run(shell("true")).succeeded
    assert not stale.exists()


def test_a_root_that_someone_cleaned_away_is_made_again(on_the_host):
    shutil.rmtree(on_the_host.root)
    assert on_the_host.run(shell("true")).succeeded


def test_a_root_that_cannot_be_written_is_a_storage_fault(sandbox, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as caught:
        type(sandbox)(tmp_path / "file" / "jobs")
    assert "ASSAY_DATA_DIR" in caught.value.remedy


def test_a_full_disk_is_a_storage_fault(on_the_host):
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root to mount a small file system")
    small = on_the_host.root.parent / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        full = type(on_the_host)(small)
        with pytest.raises(StorageError, match="No space left") as caught:
            full.run(shell("true", files={"big": bytes(1 << 20)}))
        assert "Free some space" in caught.value.remedy
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_starting_is_cheap(sandbox):
    sandbox.run(Job(("/bin/true",)))
    times_s = []
    for _ in range(20):
        start = time.perf_counter()
        sandbox.run(Job(("/bin/true",)))
        times_s.append(time.perf_counter() - start)
    # Measured: 4 to 6 ms (process), 8 to 11 ms (bubblewrap). Containers are started ahead, which others delay.
    assert min(times_s) < (0.5 if sandbox.name == "docker" else 0.1)
