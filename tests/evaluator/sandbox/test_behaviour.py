"""One suite for every kind of sandbox: what it lets a job do, what it does not, and how it ends it."""

import contextlib
import dataclasses
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from sandbox_jobs import python, running, shell

from evaluator.errors import SandboxError
from evaluator.sandbox.host.bubblewrap import BubblewrapSandbox
from evaluator.sandbox.host.result import finished_from
from evaluator.sandbox.host.warden import longest_s
from evaluator.sandbox.sandbox import FIRST_DESCRIPTOR, Job, Limits

# ---- a job's ordinary life ----


def test_files_go_in_and_come_back(sandbox):
    job = shell("tr a-z A-Z < in.txt > out.txt; echo said; echo warned >&2; exit 3", files={"in.txt": b"abc"},
                collect=("out.txt", "in.txt", "missing"))  # fmt: skip
    finished = sandbox.run(job)
    assert (finished.exit_code, finished.signal, finished.succeeded) == (3, None, False)
    assert (finished.stdout, finished.stderr) == (b"said\n", b"warned\n")
    assert finished.files == {"out.txt": b"ABC", "in.txt": b"abc"}


def test_a_signal_is_reported_as_one(sandbox):
    finished = sandbox.run(shell("kill -SEGV $$"))
    assert (finished.exit_code, finished.signal) == (None, signal.SIGSEGV)


def test_starts_with_nothing_but_its_own(sandbox, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "leaked")
    finished = sandbox.run(shell("env; pwd; ls -A; exec ls /proc/self/fd", environment={"GIVEN": "1"}))
    text = finished.stdout.decode()
    assert "SECRET_TOKEN" not in text
    assert "GIVEN=1" in text
    # Three standard streams and the folder that ls reads: no descriptor of the grader or of the warden.
    assert text.splitlines()[-4:] == ["0", "1", "2", "3"]


def test_the_program_may_be_one_of_the_files(sandbox):
    finished = sandbox.run(Job(("./tool", "x"), files={"tool": b"#!/bin/sh\necho got $1 in $TMPDIR\n"}))
    assert finished.stdout.startswith(b"got x in /")


def test_stdin_is_empty_in_a_run(sandbox):
    assert sandbox.run(shell("wc -c")).stdout.strip() == b"0"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/x", "nul\0", "x" * 300])
def test_odd_names_are_refused(sandbox, name):
    with pytest.raises(SandboxError, match="plain file name"):
        sandbox.run(shell("true", files={name: b""}))
    with pytest.raises(SandboxError, match="plain file name"):
        sandbox.run(shell("true", collect=(name,)))


@pytest.mark.parametrize("argv", [(), ("/no/such/program",), ("sh",), ("./absent",), ("/usr",)])
def test_a_missing_program_is_our_fault(sandbox, argv):
    with pytest.raises(SandboxError, match="program"):
        sandbox.run(Job(argv))


def test_a_file_that_is_no_program_fails_as_a_program(sandbox):
    finished = sandbox.run(Job(("./tool",), files={"tool": b"\x7fELFnot really"}))
    assert finished.exit_code not in (0, None)
    assert finished.stderr


def test_a_readable_path_must_exist(sandbox, tmp_path):
    with pytest.raises(SandboxError, match="does not exist"):
        sandbox.run(Job(("/bin/true",), readable=(tmp_path / "absent",)))


def test_readable_paths_are_readable_also_through_links(on_the_host, tmp_path):
    (tmp_path / "toolkit").mkdir()
    (tmp_path / "toolkit" / "file").write_text("tool")
    (tmp_path / "link").symlink_to("toolkit")
    job = shell('cat "$1/file" "$2/file"', str(tmp_path / "link"), str(tmp_path / "toolkit"),
                readable=(tmp_path / "link",))  # fmt: skip
    assert on_the_host.run(job).stdout == b"tooltool"


# ---- what a job leaves in its folder ----


def test_only_regular_files_come_back(sandbox, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    script = 'ln -s "$1" link; ln -s /etc/passwd passwd; mkfifo fifo; mkdir folder; ln -s fifo to; echo ok > plain'
    names = ("link", "passwd", "fifo", "folder", "to", "plain")
    assert sandbox.run(shell(script, str(secret), collect=names)).files == {"plain": b"ok\n"}


def test_a_huge_file_is_stopped_also_when_it_is_sparse(sandbox):
    limits = Limits(wall_s=10, file_bytes=1 << 20)
    finished = sandbox.run(shell("exec head -c 5000000 /dev/zero > big", collect=("big",), limits=limits))
    assert finished.output_exceeded
    assert not finished.succeeded
    assert "1048576" in finished.limit_hit
    assert len(finished.files["big"]) <= 1 << 20
    sparse = sandbox.run(shell("truncate -s 3G sparse; ls", collect=("sparse",), limits=limits))
    assert sparse.files.get("sparse", b"") == b""


def test_the_work_folder_is_bounded(sandbox):
    limits = Limits(wall_s=20, work_bytes=4 << 20)
    finished = sandbox.run(shell("while :; do head -c 500000 /dev/zero > f$((i+=1)); done", limits=limits))
    assert finished.output_exceeded
    assert not finished.timed_out
    quick = sandbox.run(shell("head -c 9000000 /dev/zero > f", limits=limits))
    assert quick.output_exceeded, "also when it ends before anyone looked"


def test_folders_that_resist_removal_are_removed(sandbox):
    script = """
        import os
        os.mkdir("locked"); open("locked/file", "w").close(); os.chmod("locked", 0)
        for _ in range(3000):
            os.mkdir("deep"); os.chdir("deep")
    """
    sandbox.run(python(sandbox, script))  # the fixture looks for what is left


# ---- limits ----


def test_wall_time_ends_stubborn_daemons_too(sandbox):
    mark = secrets.token_hex(8)
    script = """
        trap '' TERM INT HUP
        (env -i setsid /bin/sh -c "trap '' TERM; while :; do sleep 0.02; done" "$1" &)
        while :; do sleep 0.02; done
    """
    assert sandbox.run(shell("true")).succeeded  # the first job of a sandbox also waits for its start
    start = time.monotonic()
    finished = sandbox.run(shell(script, mark, limits=Limits(wall_s=0.4)))
    assert time.monotonic() - start < 3
    assert finished.timed_out
    assert "0.4 s" in finished.limit_hit
    assert running(mark) == []


@contextlib.contextmanager
def crowded(processor, count=4):
    """A processor that others use as well."""
    script = f"""
import os; os.sched_setaffinity(0, {{{processor}}})
print(flush=True)
while os.getppid() == {os.getpid()}: pass
"""
    # Sessions of their own: a kernel that shares out a processor by sessions counts all of one as one.
    command = [sys.executable, "-c", script]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) for _ in range(count)]
    try:
        for other in others:
            assert other.stdout.readline() == b"\n"
        yield
    finally:
        for other in others:
            other.kill()
            other.communicate()


def test_time_in_line_for_a_processor_is_not_the_jobs(sandbox):
    processor = min(os.sched_getaffinity(0))
    script = """
        import os, sys, time
        os.sched_setaffinity(0, {int(sys.argv[1])})
        until = time.process_time() + 0.4
        while time.process_time() < until: pass
    """
    stood_longer_than_its_limit = False
    with crowded(processor):
        # Now and then the kernel lets a newcomer run almost alone.
        for _ in range(10):
            finished = sandbox.run(python(sandbox, script, str(processor), limits=Limits(wall_s=1.0)))
            assert finished.succeeded, finished
            assert finished.wall_s - finished.waited_s < 1.0
            if stood_longer_than_its_limit := finished.wall_s > 1.0:
                break
    assert stood_longer_than_its_limit


def test_a_job_that_has_run_for_long_lets_others_go_first(on_the_host):
    script = """
        import os, time
        def steps(): return os.getpriority(os.PRIO_PROCESS, 0)
        at_first = steps()
        while steps() == at_first and time.process_time() < 15: pass
        print(at_first, steps(), time.process_time() >= 1.5)
    """
    finished = on_the_host.run(python(on_the_host, script, limits=Limits(wall_s=60)))
    assert finished.stdout == b"0 5 True\n", finished


def test_the_time_that_a_job_took_is_told(sandbox):
    told = []
    script = "import time\nwhile time.process_time() < 0.5: pass"
    job = python(sandbox, script, limits=Limits(wall_s=20))
    finished = sandbox.run(dataclasses.replace(job, spent=told.append))
    assert finished.succeeded
    assert [0.4 < used_s < 5 for used_s in told] == [True]


@pytest.mark.parametrize(("steps_back", "longest"), [(False, [31.0, 40.0, 120.0]), (True, [31.0, 60.0, 360.0])])
def test_how_long_a_busy_machine_may_make_a_job(steps_back, longest):
    assert [longest_s(wall_s, steps_back) for wall_s in (1.0, 10.0, 60.0)] == longest


def test_a_job_that_lets_others_go_first_is_given_up_later(tmp_path):
    """Of a job that stands in line all the time, as far as its warden knows."""
    script = """
        import json, socket, sys
        from evaluator.sandbox.host import held_memory, process_tree, warden
        warden.STRETCH_S = 0.0
        process_tree.RunQueueTime.waited_s = lambda self, elapsed_s: elapsed_s
        order = json.loads(sys.argv[1])
        wakeup, (ours, theirs) = warden.wake_on_children(), socket.socketpair()
        memory, child = held_memory.HeldMemory(order), warden.launch(order, (0, 1, 2), [])
        print(json.dumps(warden.supervise(order, child, memory, ours, wakeup, -1)))
    """
    sizes = dict.fromkeys(("memory_bytes", "file_bytes", "work_bytes"), 1 << 30)
    order = {"argv": ["/bin/sleep", "60"], "environment": {}, "drop_capabilities": False, "folder": str(tmp_path)}
    order |= {"wall_s": 0.2, "cpu_s": 9, "processes": 9, "open_files": 99, "address_space": False, **sizes}
    command = [sys.executable, "-c", textwrap.dedent(script), json.dumps(order | {"steps_back": True})]
    ended = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert (ended["reason"], ended["too_busy"]) == ("wall", True)
    assert ended["wall_s"] >= 6 * order["wall_s"]


def test_a_job_that_hardly_ran_is_our_fault():
    limits = Limits(wall_s=1.0)
    ended = {"exit": -9, "reason": "wall", "wall_s": 1.01, "waited_s": 0.0, "too_busy": False, "own_signals": []}
    ended |= {"memory_full": False, "memory_taken": False}
    with_nothing = {"stdout": b"", "stderr": b"", "files": {}, "output_exceeded": False}
    assert finished_from(limits, ended, **with_nothing).timed_out
    with pytest.raises(SandboxError, match=r"too busy: .* for 33\.5 of 34\.0 s"):
        finished_from(limits, ended | {"wall_s": 34.0, "waited_s": 33.5, "too_busy": True}, **with_nothing)


def test_nothing_outlives_a_job_that_ended_well(sandbox):
    mark = secrets.token_hex(8)
    script = 'for i in 1 2 3; do (env -i setsid /bin/sh -c "sleep 60; :" "$1" &); done; exit 0'
    finished = sandbox.run(shell(script, mark))
    assert finished.succeeded
    assert running(mark) == []


def test_cpu_time(sandbox):
    finished = sandbox.run(shell("while :; do :; done", limits=Limits(wall_s=20, cpu_s=1)))
    assert finished.timed_out
    assert "CPU" in finished.limit_hit


def test_a_fork_bomb_is_ended(sandbox):
    mark = secrets.token_hex(8)
    start = time.monotonic()
    # Doubling ten times a second: at once it takes the machine's last process from the tests beside it.
    script = "bomb() { sleep 0.1; bomb | bomb & }; bomb; sleep 60"
    finished = sandbox.run(shell(script, mark, limits=Limits(wall_s=60, processes=32)))
    # Root's processes are counted by the watch; for an ordinary user the kernel refuses to fork first.
    assert "32 processes" in (finished.limit_hit or "") or b"fork" in finished.stderr
    # A tenth of a second, but for a watch that stands in line behind the bomb on a busy machine.
    assert time.monotonic() - start < 45
    assert running(mark) == []


def test_memory_of_one_process_and_of_all(sandbox):
    limits = Limits(wall_s=10, memory_bytes=256 << 20)
    one = sandbox.run(python(sandbox, "bytearray(1 << 30)", limits=limits))
    assert not one.succeeded
    assert b"MemoryError" in one.stderr
    script = """
        import os, time
        for _ in range(4):
            if os.fork() == 0:
                block = bytearray(os.urandom(1 << 20) * 100)
                time.sleep(9)
        os.wait()
    """
    together = sandbox.run(python(sandbox, script, limits=limits))
    assert together.memory_exceeded
    assert not together.timed_out


def test_shared_pages_are_counted_once(sandbox):
    script = """
        import os, time
        block = bytearray(b"x" * (100 << 20))
        for _ in range(4):
            if os.fork() == 0:
                time.sleep(0.3)
                os._exit(0)
        for _ in range(4):
            os.wait()
    """
    finished = sandbox.run(python(sandbox, script, limits=Limits(wall_s=10, memory_bytes=330 << 20)))
    assert finished.succeeded, finished


HIDDEN = """
    import mmap, os, time
    block = b"x" * (1 << 20)
    waiting, done = os.pipe()
    def shared(size_mib):
        made = mmap.mmap(-1, size_mib << 20, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
        for _ in range(size_mib):
            made.write(block)
        return made
    {how}
    time.sleep(20)
"""
# One after another, so that never more than one of them has its pages resident.
WAYS_TO_HIDE = {
    "by a child that has ended": """
    for _ in range(4):
        if os.fork() == 0:
            made = mmap.mmap(-1, 120 << 20, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
            if os.fork() == 0:
                for _ in range(120):
                    made.write(block)
                os._exit(0)
            os.wait()
            os.write(done, b"x")
            time.sleep(20)
        os.read(waiting, 1)
    """,
    "let go": """
    for _ in range(4):
        if os.fork() == 0:
            made = shared(120)
            made.madvise(mmap.MADV_DONTNEED)
            os.write(done, b"x")
            time.sleep(20)
        os.read(waiting, 1)
    """,
}


def hiding(sandbox, way):
    script = textwrap.dedent(HIDDEN).replace("{how}", textwrap.dedent(WAYS_TO_HIDE[way]))
    return python(sandbox, script, limits=Limits(wall_s=15, memory_bytes=400 << 20))


@pytest.mark.parametrize("way", WAYS_TO_HIDE)
def test_memory_that_no_process_has_resident_is_counted(sandbox, way):
    finished = sandbox.run(hiding(sandbox, way))
    assert finished.memory_exceeded, finished
    assert not finished.timed_out


WITHOUT_CAPABILITIES = """
    import ctypes, os, sys
    from pathlib import Path
    libc = ctypes.CDLL(None)
    for capability in (21, 40):  # CAP_SYS_ADMIN, CAP_CHECKPOINT_RESTORE
        libc.prctl(24, capability, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1], *sys.argv[2:]])
"""
RUN_HIDING = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_behaviour import WAYS_TO_HIDE, hiding
from evaluator.sandbox.host.process import ProcessSandbox
sandbox = ProcessSandbox(Path(sys.argv[1]))
print(*(sandbox.run(hiding(sandbox, way)).memory_exceeded for way in WAYS_TO_HIDE))
"""


def test_such_memory_is_counted_also_by_who_may_not_look_behind_mappings(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(WITHOUT_CAPABILITIES), RUN_HIDING, tmp_path, *sys.path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "True True\n", done.stderr


def test_memory_that_processes_share_by_a_mapping_is_counted_once(sandbox):
    script = """
        import mmap, os, time
        made = mmap.mmap(-1, 150 << 20, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
        made.write(b"x" * (150 << 20))
        for _ in range(5):
            if os.fork() == 0:
                made.seek(0)
                while made.read(1 << 20):
                    pass
                time.sleep(0.5)
                os._exit(0)
        for _ in range(5):
            os.wait()
    """
    finished = sandbox.run(python(sandbox, script, limits=Limits(wall_s=15, memory_bytes=400 << 20)))
    assert finished.succeeded, finished


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_is_capped(sandbox, stream):
    redirection = "" if stream == "stdout" else " >&2"
    finished = sandbox.run(shell(f"yes{redirection}", limits=Limits(wall_s=20, output_bytes=100_000)))
    assert finished.output_exceeded
    assert not finished.timed_out
    assert len(getattr(finished, stream)) == 100_000


def test_output_up_to_the_cap_is_whole(sandbox):
    finished = sandbox.run(shell("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2",
                                 limits=Limits(output_bytes=3_000_000)))  # fmt: skip
    assert finished.succeeded
    assert (len(finished.stdout), len(finished.stderr)) == (3_000_000, 3_000_000)


# ---- the jobs it is for ----


def toolkit():
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return None
    # nvcc on PATH may be a wrapper; a dry run names the toolkit.
    shown = subprocess.run([nvcc, "-dryrun", "-x", "cu", "/dev/null"], capture_output=True, text=True, check=False)
    tops = [line.split("=", 1)[1] for line in shown.stderr.splitlines() if line.startswith("#$ TOP=")]
    return Path(tops[0]).resolve() if tops else None


def test_nvcc_makes_ptx(sandbox):
    top = Path("/usr/local/cuda") if sandbox.name == "docker" else toolkit()
    if top is None:
        pytest.skip("there is no nvcc on this machine")
    source = b"__global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n"
    command = (str(top / "bin" / "nvcc"), "-ptx", "-arch=sm_80", "k.cu", "-o", "k.ptx")
    finished = sandbox.run(Job(command, files={"k.cu": source}, collect=("k.ptx",), readable=(top,)))
    assert finished.succeeded, finished
    assert b".visible .entry _Z5twicePf" in finished.files["k.ptx"]


def test_gxx_makes_a_program_that_runs_as_a_session(sandbox):
    compiler = "/usr/bin/g++" if sandbox.name == "docker" else shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++ on this machine")
    source = rb"""
        #include <cstdio>
        #include <vector>
        int main() {
            unsigned long count;
            if (fread(&count, 8, 1, stdin) != 1) return 1;
            std::vector<float> x(count);
            if (fread(x.data(), 4, count, stdin) != count) return 2;
            for (float& v : x) v *= 2;
            fwrite(x.data(), 4, count, stdout);
            return fflush(stdout);
        }"""
    built = sandbox.run(
        Job((compiler, "-O1", "main.cpp", "-o", "main"), files={"main.cpp": source}, collect=("main",))
    )
    assert built.succeeded, built
    values = memoryview(bytes(8 << 20)).cast("f")
    with sandbox.start(Job(("./main",), files={"main": built.files["main"]})) as session:
        session.send(len(values).to_bytes(8, "little"), values.cast("B"))
        assert session.receive(values.nbytes) == bytes(values.nbytes)
    assert session.finish().succeeded


# ---- descriptors and devices ----


def test_a_program_gets_the_descriptors_it_is_given_and_no_others(on_the_host):
    ours, theirs = socket.socketpair()
    script = f"""
        import os, socket
        given = socket.socket(fileno={FIRST_DESCRIPTOR})
        given.sendall(given.recv(100).upper())
        others = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > {FIRST_DESCRIPTOR} + 1]
        given.sendall(b" %d" % len(others))
    """
    with ours, theirs:
        ours.sendall(b"hello")
        finished = on_the_host.run(python(on_the_host, script, descriptors=(theirs.fileno(),)))
        assert finished.succeeded, finished.stderr
        assert ours.recv(100) == b"HELLO 0"


def test_a_device_is_there_only_when_it_was_asked_for(tmp_path):
    sandbox = BubblewrapSandbox(tmp_path / "jobs")
    script = "test -c /dev/kmsg && test -d /sys/bus"
    assert not sandbox.run(shell(script)).succeeded
    assert sandbox.run(shell(script, devices=(Path("/dev/kmsg"),))).succeeded
    # A job with a device may name its threads, and still not change the machine.
    settings = "/proc/sys/kernel"
    named = f"echo x > /proc/self/comm && ! echo x > {settings}/core_pattern && ! echo x > {settings}/domainname"
    assert sandbox.run(shell(named, devices=(Path("/dev/kmsg"),))).succeeded
    with pytest.raises(SandboxError, match="no device"):
        sandbox.run(shell(script, devices=(Path("/etc/passwd"),)))


def test_address_space_can_be_left_unbounded_while_memory_is_not(sandbox):
    script = """
        import mmap
        room = mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE)
        print("reserved", flush=True)
        for at in range(0, 4 << 30, 4096):
            room[at] = 1
    """
    bounded = sandbox.run(python(sandbox, script, limits=Limits(memory_bytes=256 << 20)))
    assert not bounded.succeeded
    assert b"reserved" not in bounded.stdout
    unbounded = sandbox.run(python(sandbox, script, limits=Limits(memory_bytes=256 << 20, address_space=False)))
    assert b"reserved" in unbounded.stdout
    assert unbounded.memory_exceeded
