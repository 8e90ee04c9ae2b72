"""Signals from outside while a right kernel is graded: no verdict comes of them, and nothing of them is kept."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from common.contract import Settings, Status, Submission
from evaluator.backends.sim.backend import Simulator
from evaluator.disk_cache import Cache, key_of
from evaluator.errors import JobKilledError, ToolchainMissingError
from evaluator.pipeline.pipeline import evaluate
from evaluator.sandbox.host import supervision
from evaluator.sandbox.host.bubblewrap import BubblewrapSandbox
from evaluator.sandbox.host.process import ProcessSandbox
from evaluator.sandbox.host.process_tree import descendants
from evaluator.sandbox.retry import run_in_tries
from evaluator.sandbox.sandbox import Job, JobResult, Limits
from evaluator.stages.compile import toolchain
from evaluator.stages.compile.compiler_exit import CompilerRun, crash, refused, signals_told, until_it_tells
from evaluator.stages.compile.nvcc import compile_source
from evaluator.stages.compile.toolchain import find_toolchain
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.dialects import EntryFunction
from evaluator.stages.lift.host_program import HostBuild, form_of_entry

SCALE = """\
extern "C" __global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
"""
RELU = """\
__global__ void relu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && i > %d) y[i] = x[i] > 0.0f ? x[i] : 0.0f;
}
"""
KINDS = {"process": ProcessSandbox, "bubblewrap": BubblewrapSandbox}
# Each compiler with signals of different habits: those that drivers speak of as a death, as an error of their own,
# and not at all; and those that look like our own limits.
CASES = (
    ("nvcc", "HUP"),
    ("nvcc", "XCPU"),
    ("cc1plus", "TERM"),
    ("cc1plus", "PIPE"),
    ("cc1plus", "USR1"),
    ("gcc", "TERM"),
    ("cicc", "TERM"),
    ("cicc", "XFSZ"),
    ("ptxas", "TERM"),
    ("ptxas", "XFSZ"),
    ("ptxas", "SEGV"),
    ("ptxas", "STOP"),
)


# Where `gcc` is a link, nvcc starts it by the link's name or by that behind it, which the kernel cuts off.
ALSO_CALLED = {"gcc": "x86_64-linux-gn"}


class Sender(threading.Thread):
    """Sends a signal to the processes of a name below this one, `times` in all, as soon as they appear."""

    def __init__(self, name, number, times=1):
        super().__init__()
        self._names, self._number, self._times = {name, ALSO_CALLED.get(name)}, number, times
        self._over = threading.Event()
        self.hit = set()

    def run(self):
        while len(self.hit) < self._times and not self._over.is_set():
            for pid in descendants(os.getpid()):
                with contextlib.suppress(OSError):
                    if pid not in self.hit and Path(f"/proc/{pid}/comm").read_text().strip() in self._names:
                        os.kill(pid, self._number)
                        self.hit.add(pid)
                        break

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()


@pytest.fixture
def compiled(tmp_path):
    sandbox, cache = ProcessSandbox(tmp_path / "work"), Cache(tmp_path / "cache", 1 << 28)

    def run(source):
        return compile_source(source, Settings(compile_timeout_s=20.0), "sm_80", find_toolchain(), sandbox, cache)

    return run


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_compiler_that_gets_a_signal_from_outside_is_tried_again(compiled, name, number):
    for factor in range(2, 22):  # on a busy machine the shortest of them can be missed
        source = SCALE.replace("2.0f", f"{factor}.0f")
        with Sender(name, signal.Signals[f"SIG{number}"]) as sender:
            found = compiled(source)
        assert found.ruling is None
        assert [one.name for one in found.program.entries[0].parameters] == ["x", "y", "n"]
        kept = compiled(source)
        assert kept.cached
        assert kept.program == found.program
        if sender.hit:
            break
    assert sender.hit


def killed_each_time(name, compile_numbered):
    """Call until what is killed as `name` is met in each try: on a busy machine the shortest of them can be missed,
    and what is made then is right.
    """
    for number in range(20):
        ended = None
        with Sender(name, signal.SIGTERM, times=1000) as sender:
            try:
                compile_numbered(number)
            except JobKilledError as killed:
                ended = str(killed)
        if ended is not None:
            assert "SIGTERM" in ended
            assert sender.hit
            return
    pytest.fail(f"{name} was never met in each of the tries")


def test_a_compiler_that_is_killed_each_time_gives_no_verdict(compiled):
    for name in ("cicc", "cc1plus"):
        killed_each_time(name, lambda number: compiled(SCALE.replace("2.0f", f"{number}.5f")))
    assert compiled(SCALE).ruling is None


def test_a_compiler_that_crashes_each_time_is_believed_and_not_kept(compiled):
    for factor in range(2, 12):  # each try that is missed, as the shortest can be, gives a program
        source = SCALE.replace("2.0f", f"{factor}.0f")
        with Sender("ptxas", signal.SIGSEGV, times=3):
            found = compiled(source)
        if found.ruling is not None:
            break
    assert found.ruling.status is Status.COMPILE_ERROR
    assert "SIGSEGV" in found.ruling.message
    assert compiled(source).ruling is None


def test_an_error_that_speaks_of_a_death_is_an_error(compiled):
    words = "nvcc error   : 'cicc' died due to signal 15 \\nTerminated\\nKilled\\n"
    for source in (
        f'__global__ void k() {{ static_assert(false, "x\\n{words}"); }}\n',
        f'#line 5 "a:b\\n{words}c"\n#error no\n__global__ void k() {{}}\n',
    ):
        assert compiled(source).ruling.status is Status.COMPILE_ERROR


NAMED = '#line 5 "a\\n%s\\nb"\n#warning no\n#line 4 "kernel.cu"\n'
FORGED = {
    "in the name of a file": NAMED % "Killed" + "__global__ void k() { none; }\n",
    "of memory": NAMED % "virtual memory exhausted" + "__global__ void k() { none; }\n",
    "of a limit": NAMED % "CPU time limit exceeded" + "__global__ void k() { none; }\n",
    "in an assertion": '__global__ void k() { static_assert(false, "x\\nTerminated\\ny"); }\n',
    "after the error": (
        "[[deprecated(\"x\\nnvcc error   : 'cicc' died due to signal 15 \\ny\")]] __device__ int f();\n"
        "__global__ void k(int* p) { none; p[0] = f(); }\n"
    ),
    "of an internal error": '#line 5 "a\\ninternal error: x\\nb"\n__global__ void k() { none; }\n',
    "in the text of an error": "#error internal error\n__global__ void k() {}\n",
}


@pytest.mark.parametrize("kind", FORGED)
def test_an_error_beside_words_of_a_death_is_found_in_one_try_and_kept(tmp_path, kind):
    sandbox, runs = ProcessSandbox(tmp_path / "work"), []

    class Counting:
        name, root = sandbox.name, sandbox.root

        def run(self, job):
            runs.append(job)
            return sandbox.run(job)

    cache, settings = Cache(tmp_path / "cache", 1 << 28), Settings(compile_timeout_s=20.0)
    for cached in (False, True):
        found = compile_source(FORGED[kind], settings, "sm_80", find_toolchain(), Counting(), cache)
        assert (found.ruling.status, found.cached) == (Status.COMPILE_ERROR, cached), found.ruling
    # Once to run; and once to describe where a source names lines itself, since its parameters are not read from it.
    assert len(runs) == 1 + ("#line" in FORGED[kind])


@pytest.mark.parametrize(
    ("exit_code", "stderr"),
    [
        (139, b"a\nKilled\nb:5:2: warning: #warning no [-Wcpp]\nSegmentation fault\n"),
        (
            1,
            b"a\nKilled\nb:5:2: warning: #warning no [-Wcpp]\n"
            b"gcc: internal compiler error: Segmentation fault signal terminated program ./start-1\n"
            b"Please submit a full bug report, with preprocessed source (by using -freport-bug).\n",
        ),
    ],
)
def test_a_crash_after_words_of_a_kill_is_a_crash(exit_code, stderr):
    run = CompilerRun(exit_code, None, b"", stderr, {}, wall_s=0.1, witness="start-1")
    assert until_it_tells(lambda: run) is run
    assert crash(run) == "ended by SIGSEGV"


DIED = "nvcc error   : 'cicc' died due to signal %d (Core dumped)\n"


@pytest.mark.parametrize("numbers", [(6, 6, 8), (11, 6, 11), (11, 11, None)])
def test_a_compiler_that_breaks_down_in_other_ways_was_hit_by_others(numbers):
    """As those do that get signals from outside which they could also have caused themselves."""
    ended = [
        JobResult(
            exit_code=1 if number is None else 128 + number,
            signal=None,
            stdout=b"",
            stderr=b"" if number is None else (DIED % number).encode(),
            files={},
            wall_s=0.1,
        )
        for number in numbers
    ]
    runs = iter(ended)
    with pytest.raises(JobKilledError, match="another way"):
        until_it_tells(lambda: next(runs))
    assert until_it_tells(lambda: ended[0]) is ended[0]


@pytest.mark.parametrize(
    "stderr",
    [
        b"kernel.cu(1): error: no\n",
        b"kernel.cu:1:2: warning: #warning as of f(1): error [-Wcpp]\n",
    ],
)
def test_a_kill_after_words_of_an_error_is_a_kill(stderr):
    stderr += b"gcc: fatal error: Killed signal terminated program ./start-1\ncompilation terminated.\n"
    run = CompilerRun(1, None, b"", stderr, {}, wall_s=0.1, witness="start-1")
    assert not refused(run)
    assert signals_told(run) == {signal.SIGKILL}


@pytest.mark.parametrize(
    ("exit_code", "stderr", "fields"),
    [
        (1, "/tmp/a.s: g++: fatal error: Terminated signal terminated program ./start-1\n", {"witness": "start-1"}),
        (1, "ld: x.o: in collect2: fatal error: ld terminated with signal 15 [Terminated]\n", {"linked": True}),
        (15, "kernel.cu(1): error: nvcc error   : 'cicc' died due to signal 15 \n", {"witness": "start-1"}),
        (4, "kernel.cu(1): error: Compilation terminated.\n", {"witness": "start-1"}),
        (254, "kernel.cu:1:2: error: clang++: error: unable to execute command: Terminated\n", {}),
    ],
)
def test_a_kill_in_the_middle_of_a_line_of_words_is_a_kill(exit_code, stderr, fields):
    """As on a busy machine, where a compiler can be stopped between two pieces of what it has to say."""
    run = CompilerRun(exit_code, None, b"", stderr.encode(), {}, wall_s=0.1, **fields)
    assert signals_told(run) == {signal.SIGTERM}
    assert not refused(run)


HOST = """\
__global__ void scale(float* x, float* y, int n) { if (n) y[0] = 2.0f * x[0]; }
extern "C" void solve(float* x, float* y, int n) { scale<<<1, 1>>>(x, y, n); }
#ifndef __CUDA_ARCH__
%s
#endif
"""
DEATH = (
    "Killed\\\\ng++: fatal error: Killed signal terminated program as\\\\ncompilation terminated.\\\\n"
    "nvcc error   : 'g++' died due to signal 9 (Kill signal)"
)
# Each with a real error of the source: it is found in one try, whatever else the assembler was made to say.
ASSEMBLY = {
    "printed": f'asm(".print \\"{DEATH}\\"\\n.bogus");',
    "an error": f'asm(".error \\"x\\\\n{DEATH}\\"");',
    "a warning": f'asm(".bogus\\n.warning \\"x\\\\n{DEATH}\\"");',
    "an error at another place": f'asm("# 5 \\"a b\\"\\n.error \\"x\\\\n{DEATH}\\"");',
    "an error of want of memory": 'asm(".error \\"x\\\\nvirtual memory exhausted\\"");',
    "an error of want of room": 'asm(".error \\"x\\\\nNo space left on device\\"");',
    "an error that breaks down": 'asm(".error \\"x\\\\ninternal compiler error: Segmentation fault\\"");',
    "an end": 'asm(".abort");',
    "no instruction": 'asm("no such thing");',
}


class Counting:
    """A sandbox that counts the jobs whose program is nvcc."""

    def __init__(self, root):
        self._sandbox = ProcessSandbox(root)
        self.name, self.root, self.runs = self._sandbox.name, root, 0

    def run(self, job):
        self.runs += job.argv[0].endswith("nvcc")
        return self._sandbox.run(job)


@pytest.fixture(scope="module")
def cache_of_hosts(tmp_path_factory):
    """One for all of these tests: the recorder alone takes seconds to compile."""
    return Cache(tmp_path_factory.mktemp("hosts"), 1 << 28)


@pytest.fixture
def host_build(tmp_path, cache_of_hosts):
    sandbox, cache = Counting(tmp_path / "work"), cache_of_hosts

    def made(said):
        source = HOST % said
        form, settings = (
            form_of_entry(source, EntryFunction("solve", ("x", "y", "n"), 2)),
            Settings(compile_timeout_s=20),
        )
        return HostBuild(source, form, settings, "sm_80", find_toolchain(), sandbox, cache), sandbox

    return made


@pytest.mark.parametrize("kind", ASSEMBLY)
def test_what_the_assembler_refuses_is_found_in_one_try_and_kept(host_build, kind):
    for _ in range(2):
        build, sandbox = host_build(ASSEMBLY[kind])
        with pytest.raises(LiftRefusedError, match="the assembler of the host refuses") as refusal:
            build.program()
        assert refusal.value.ruling.status is Status.COMPILE_ERROR
    assert sandbox.runs == 1


@pytest.mark.parametrize("name", ["as", "cc1plus", "cicc", "cudafe++"])
def test_a_compiler_that_is_killed_is_no_error_of_a_source_that_imitates_one(host_build, name):
    """Warnings in the words of an assembler's error, then a real kill in each try."""
    # Bytes that are repeated keep the assembler for a tenth of a second: a moment is missed on a busy machine.
    slow = 'asm(".pushsection .comment\\n.rept 700000\\n.byte 0\\n.endr\\n.popsection");\n' if name == "as" else ""
    said = slow + 'asm(".warning \\"x\\\\nkernel.s:1: Error: no\\"");\n#warning as of f(1): error : no %s\n'
    killed_each_time(name, lambda number: host_build(said % f"{name} {number}")[0].program())
    assert host_build(said % name)[0].program().host


SLOW_SOLVE = """\
#include <unistd.h>
__global__ void scale(const float* x, float* y, float alpha, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = alpha * x[i];
}
extern "C" void solve(const float* x, float* y, float alpha, int n) {
  usleep(100000);
  scale<<<(n + 255) / 256, 256>>>(x, y, alpha, n);
}
"""


def test_host_code_that_someone_kills_is_run_again(toolbox):
    settings = Settings(estimate_for=None, verification="quick")
    submission = Submission(problem="scalar_multiply", source=SLOW_SOLVE, dialect="solve", settings=settings)
    with Sender("host", signal.SIGKILL) as sender:
        verdict = evaluate(submission, toolbox)
    assert sender.hit
    assert verdict.status is Status.PASSED, verdict.message


def test_what_was_cached_by_earlier_rules_is_not_served(tmp_path):
    root, found = tmp_path / "cache", find_toolchain()
    cache = Cache(root, 1 << 28)
    flags = "\n".join(("-ptx", "-std=c++17", "-O3", "-lineinfo", "-arch=sm_80"))
    ruling = b'{"status": "compile_error", "phase": "compile", "message": "no", "hint": null}'
    facts = b'{"ruling": %s, "diagnostics": [], "entries": [], "canonical_sha256": ""}' % ruling
    cache.get_or_make(key_of("ptx", SCALE.encode(), flags, found.digest), lambda: {"facts": facts, "ptx": b""})
    sandbox = ProcessSandbox(tmp_path / "work")
    assert compile_source(SCALE, Settings(), "sm_80", found, sandbox, cache).ruling is None


@pytest.mark.parametrize(
    ("name", "number"), [("ld", "INT"), ("collect2", "TERM"), ("as", "HUP"), ("program", "XCPU")]
)
def test_a_simulator_that_gets_a_signal_from_outside_is_tried_again(toolbox, tmp_path, monkeypatch, name, number):
    simulator = toolbox.simulator
    simulator.warm_up()
    for _ in range(20):  # on a busy machine the shortest of them can be missed
        source = RELU % (-2 - time.time_ns() % 100_000_000)  # a program that has not been linked yet
        submission = Submission(problem="relu", source=source, backend="sim", settings=Settings(verification="quick"))
        with Sender(name, signal.Signals[f"SIG{number}"]) as sender:
            assert evaluate(submission, toolbox).status is Status.PASSED
        if sender.hit:
            break
    assert sender.hit
    assert evaluate(submission, toolbox).status is Status.PASSED


def test_half_a_program_that_a_killed_linker_left_is_not_kept(tmp_path):
    """As a linker does when it is killed late: it leaves a file, and fails."""
    compiler = tmp_path / "g++"
    compiler.write_text('#!/bin/sh\nfor last; do :; done\nprintf half > "$last"\nkill -INT $$\n')
    compiler.chmod(0o755)
    kept = Cache(tmp_path / "cache", 1 << 28)
    simulator = Simulator(ProcessSandbox(tmp_path / "work"), kept, compiler)
    with pytest.raises(JobKilledError, match="SIGINT"):
        simulator.warm_up()
    assert not list((tmp_path / "cache").glob("??/*"))


@pytest.fixture(params=KINDS)
def sandbox(request, tmp_path):
    return KINDS[request.param](tmp_path)


def shell(script, **fields):
    return Job(("/bin/sh", "-c", script), **fields)


@pytest.mark.parametrize("name", ["XCPU", "XFSZ", "TERM", "KILL"])
def test_a_signal_that_no_limit_sent_is_no_limit(sandbox, name):
    finished = sandbox.run(shell(f"kill -{name} $$"))
    assert finished.signal == signal.Signals[f"SIG{name}"]
    assert not finished.own_signals
    assert (finished.timed_out, finished.output_exceeded, finished.limit_hit) == (False, False, None)


def test_limits_that_are_met_are_told_from_signals(sandbox):
    limits = Limits(wall_s=20, cpu_s=1, file_bytes=1 << 20)
    assert sandbox.run(shell("while :; do :; done", limits=limits)).own_signals == {signal.SIGXCPU}
    # The file is gone when the job ends, as a compiler's that cleans up.
    script = "head -c 5000000 /dev/zero > big; code=$?; sleep 0.3; rm big; exit $code"
    finished = sandbox.run(shell(script, limits=limits))
    assert finished.exit_code == 128 + signal.SIGXFSZ or finished.signal == signal.SIGXFSZ
    assert signal.SIGXFSZ in finished.own_signals


def test_a_job_that_someone_stops_goes_on(sandbox):
    finished = sandbox.run(shell("kill -STOP $$; echo on", limits=Limits(wall_s=10)))
    assert finished.stdout == b"on\n"
    assert finished.wall_s < 5


def test_a_grader_whose_warden_someone_stopped_goes_on(tmp_path, monkeypatch):
    sandbox = ProcessSandbox(tmp_path)
    assert sandbox.run(shell("true")).succeeded
    monkeypatch.setattr(supervision, "PATIENCE_S", 0.5)
    os.kill(supervision._parent_warden._process.pid, signal.SIGSTOP)
    assert run_in_tries(sandbox, shell("true")).succeeded


def test_what_a_compiler_said_until_it_was_killed_is_not_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = tmp_path / "nvcc"
    for script, error in (("kill -TERM $$", JobKilledError), ("exit 1", ToolchainMissingError)):
        program.write_text(f"#!/bin/sh\necho sm_80\n{script}\n")
        program.chmod(0o755)
        with pytest.raises(error):
            toolchain._ask(program, "--list-gpu-code")
