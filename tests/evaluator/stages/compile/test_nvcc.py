import dataclasses
import hashlib
import multiprocessing
import threading
from pathlib import Path

import pytest

from common.contract import Phase, Settings, Severity, Status
from evaluator.disk_cache import Cache
from evaluator.errors import InfrastructureError, SandboxError, ToolchainMissingError
from evaluator.sandbox.host.bubblewrap import BubblewrapSandbox
from evaluator.sandbox.host.process import ProcessSandbox
from evaluator.sandbox.retry import MAX_TRIES
from evaluator.sandbox.sandbox import Job, JobResult
from evaluator.stages.compile.nvcc import compile_source
from evaluator.stages.compile.toolchain import find_toolchain

SCALE = """\
extern "C" __global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
"""


class Counting:
    """A real sandbox that writes down which program each job runs."""

    def __init__(self, sandbox, log: Path):
        self.sandbox, self.log, self.name = sandbox, log, sandbox.name
        self._lock = threading.Lock()

    def run(self, job: Job) -> JobResult:
        with self._lock, self.log.open("a") as file:
            file.write(Path(job.argv[0]).name + "\n")
        return self.sandbox.run(job)

    @property
    def ran(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("sandboxes")


@pytest.fixture
def sandbox(work, tmp_path):
    return Counting(ProcessSandbox(work), tmp_path / "ran")


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache", 1 << 28)


@pytest.fixture
def compiled(sandbox, cache):
    def run(source, arch="sm_80", cache=cache, sandbox=sandbox, **settings):
        return compile_source(source, Settings(**settings), arch, find_toolchain(), sandbox, cache)

    return run


def test_a_kernel_compiles_to_a_whole_program(compiled, sandbox):
    found = compiled(SCALE)
    assert found.ruling is None
    assert found.cached is False
    program = found.program
    (entry,) = program.entries
    assert [one.name for one in entry.parameters] == ["x", "y", "n"]
    assert entry.line == 1
    assert ".target sm_80" in program.ptx
    assert '"kernel.cu"' in program.ptx
    assert program.cubin[:4] == b"\x7fELF"
    assert b"scale" in program.cubin
    assert found.kernels[0].kernel == "scale"
    assert found.kernels[0].registers > 0
    assert found.ptx_sha256 == hashlib.sha256(program.ptx.encode()).hexdigest()
    assert found.cubin_sha256 == hashlib.sha256(program.cubin).hexdigest()
    assert found.source_sha256 == hashlib.sha256(SCALE.encode()).hexdigest()
    assert sorted(sandbox.ran) == ["nvcc", "ptxas"], "what the source shows, the compiler need not describe"
    assert found.flags == ("-ptx", "-std=c++17", "-O3", "-lineinfo", "-arch=sm_80")


def test_the_second_time_nothing_runs(compiled, sandbox):
    first = compiled(SCALE)
    before = len(sandbox.ran)
    second = compiled(SCALE)
    assert second.cached
    assert len(sandbox.ran) == before
    assert second.program == first.program
    assert second.kernels == first.kernels
    assert second.duration_s < 0.1


def test_a_comment_shares_the_cubin_and_a_name_the_canonical_hash(compiled, sandbox):
    first = compiled(SCALE)
    commented = compiled(
        "// a comment\n\n" + SCALE.replace(" i ", " index ").replace("[i]", "[index]").replace("(i <", "(index <")
    )
    assert commented.ptx_sha256 != first.ptx_sha256
    assert commented.cubin_sha256 == first.cubin_sha256
    assert sandbox.ran.count("ptxas") == 1
    renamed = compiled(SCALE.replace("scale", "other"))
    assert renamed.canonical_ptx_sha256 == commented.canonical_ptx_sha256 == first.canonical_ptx_sha256
    assert b"other" in renamed.program.cubin
    assert compiled(SCALE.replace("2.0f", "3.0f")).canonical_ptx_sha256 != first.canonical_ptx_sha256


def test_a_kernel_that_is_not_written_plainly_is_described_by_the_compiler(compiled, sandbox):
    found = compiled("typedef float real;\n" + SCALE.replace("float* y", "real* y"))
    assert [(one.name, one.type, one.pointee) for one in found.program.entries[0].parameters] == [
        ("x", "const float*", "float"),
        ("y", "real*", "float"),
        ("n", "int", None),
    ]
    assert sorted(sandbox.ran) == ["nvcc", "nvcc", "ptxas"]


def test_another_plan_compiles_nothing_and_is_told_nothing_of_the_first(compiled, sandbox):
    plan = "// assay: launch scale grid=(1) block=({}) args=(x, y, n)\n"
    first = compiled(plan.format(256) + SCALE)
    again = compiled(plan.format(128) + SCALE)
    assert again.cached
    assert sandbox.ran.count("nvcc") == 1
    assert again.program == first.program
    assert again.source_sha256 != first.source_sha256
    # The compiler finds fault with the line of the plan, where the text ends in the middle of a kernel.
    broken = SCALE[: SCALE.rindex("}")].rstrip() + "\n"
    told = [compiled(broken + plan.format(extent)).ruling.message for extent in (77, 99)]
    assert told[0] == told[1]
    assert not [extent for extent in ("77", "99") if extent in told[1]]


def test_both_sandboxes_give_the_same(compiled, work):
    source = "namespace { __global__ void k(float* a) { a[0] = 1; } }\nvoid host() { k<<<1, 1>>>(0); }\n"
    try:
        wrapped = compiled(source, sandbox=BubblewrapSandbox(work), cache=None)
    except SandboxError as fault:
        pytest.skip(f"no bubblewrap here: {fault}")
    plain = compiled(source, cache=None)
    assert wrapped.program == plain.program
    assert plain.program.entries[0].parameters[0].name == "a"
    assert "anonymous" in plain.program.entries[0].name


def test_flags(compiled):
    found = compiled(SCALE, flags=("--use_fast_math", "-maxrregcount=32", "--extended-lambda", "-std=c++20"))
    assert found.ruling is None
    assert set(found.flags) >= {"--use_fast_math", "-maxrregcount=32", "--extended-lambda", "-std=c++20"}
    assert "-std=c++17" not in found.flags
    parts = ("--fmad=false", "--ftz=true", "-prec-div=false", "-prec-sqrt=true")
    found = compiled(SCALE, flags=parts)
    assert found.ruling is None
    assert set(found.flags) >= {"--fmad=false", "--ftz=true", "--prec-div=false", "--prec-sqrt=true"}


@pytest.mark.parametrize(
    "flags",
    [
        ("-I/etc",),
        ("--use_fast_math", "-use_fast_math"),
        ("-std=c++17", "-std=c++20"),
        ("--fmad=false", "--fmad=true"),
        ("--ftz=maybe",),
        ("-maxrregcount=0",),
        ("-maxrregcount=300",),
        ("-Xcompiler=-include/etc/passwd",),
        ("--use_fast_math\n-I/",),
        ("-arch=native",),
    ],
)
def test_other_flags_are_refused_before_anything_runs(compiled, sandbox, flags):
    ruling = compiled(SCALE, flags=flags).ruling
    assert (ruling.status, ruling.phase) == (Status.INVALID_SUBMISSION, Phase.COMPILE)
    assert sandbox.ran == []


def test_architectures(compiled, sandbox, cache):
    with pytest.raises(ToolchainMissingError, match="sm_20"):
        compiled(SCALE, arch="sm_20")
    asked = compile_source(SCALE, Settings(arch="sm_20"), "sm_20", find_toolchain(), sandbox, cache)
    assert asked.ruling.status is Status.INVALID_SUBMISSION
    assert "sm_80" in asked.ruling.message
    assert ".target sm_90a" in compiled(SCALE, arch="sm_90a").program.ptx


@pytest.mark.parametrize(
    ("source", "line", "said", "hinted"),
    [
        ("__global__ void k(int* a) {\n  int i = 0\n  a[i] = 1;\n}\n", 3, 'expected a ";"', "line 2"),
        ("__global__ void k(int* a) { a[0] = thredIdx.x; }\n", 1, "undefined", "threadIdx"),
        ("__global__ void k(__half* a) {}\n", 1, "__half", "cuda_fp16.h"),
        ("#include <torch/extension.h>\n", 1, "No such file", "launch plan"),
        ("void h();\n__global__ void k() { h(); }\n", 2, "__host__", "__device__"),
        ("__global__ int k() { return 1; }\n", 1, "void", "void"),
        ('__global__ void k(int n) {\n  asm("foo.s32 %0, 1;" :: "r"(n));\n}\n', 2, "foo", "PTX"),
        ("__global__ void k(int* a) { __shared__ int s[20000]; s[a[2]] = 1; __syncthreads(); a[0] = s[a[1]]; }",
         None, "shared", "shared"),
    ],
)  # fmt: skip
def test_errors_say_where_and_what_to_do(compiled, source, line, said, hinted):
    found = compiled(source)
    assert found.program is None
    assert (found.ruling.status, found.ruling.phase) == (Status.COMPILE_ERROR, Phase.COMPILE)
    assert said in found.ruling.message
    assert hinted in found.ruling.hint
    if line is not None:
        assert f"kernel.cu:{line}: " in found.ruling.message
    assert any(one.severity is Severity.ERROR for one in found.diagnostics) or "No such file" in said


def test_a_compile_error_is_remembered(compiled, sandbox):
    first = compiled("__global__ void k() { x; }\n")
    before = len(sandbox.ran)
    again = compiled("__global__ void k() { x; }\n")
    assert (again.ruling, again.diagnostics) == (first.ruling, first.diagnostics)
    assert again.cached
    assert len(sandbox.ran) == before


@pytest.mark.parametrize(
    "source",
    [
        '#include "/etc/passwd"\n__global__ void k() {}\n',
        '#define FILE "/etc/passwd"\n#include FILE\n__global__ void k() {}\n',
        '#include "/usr/../etc/passwd"\n__global__ void k() {}\n',
        "__global__ void k() {}\n/*\n*/ const char* s =\n#include </etc/passwd>\n;\n",
        '#include "/proc/self/environ"\n__global__ void k() {}\n',
        '#line 1 "kernel.cu"\n#include "/etc/group"\n__global__ void k() {}\n',
    ],
)
def test_the_compiler_reads_no_file_of_the_machine(compiled, source):
    found = compiled(source)
    assert found.ruling.status is Status.COMPILE_ERROR
    told = repr(found)
    for secret in ("root:", "daemon", "nologin", "/bin/sh", "PATH="):
        assert secret not in told
    # In a folder that the sandbox does not show there is nothing; in one that it shows in part, it may not be read.
    assert any(said in found.ruling.message for said in ("No such file or directory", "Permission denied"))


def test_no_path_of_the_machine_is_shown(compiled, work):
    source = (
        "#include <cub/does_not_exist.cuh>\n"
        "template <class T> __device__ T f(T x) { return x.foo; }\n"
        "__global__ void k(float* a) { a[0] = f(a[1]); }\n"
    )
    for text in (source, source.partition("\n")[2]):
        found = compiled(text)
        assert found.ruling.status is Status.COMPILE_ERROR
        assert str(work) not in repr(found)
        assert "/usr" not in repr(found)


def test_without_a_kernel(compiled):
    for source, hint in (
        ("int x;\n", "__global__"),
        ("template <class T> __global__ void k(T* a) { a[0] = 1; }\n", "instantiated"),
        ("", "__global__"),
    ):
        ruling = compiled(source).ruling
        assert ruling.status is Status.INVALID_SUBMISSION
        assert hint in ruling.hint


def test_text_that_is_not_unicode(compiled):
    assert compiled("\udcff").ruling.status is Status.INVALID_SUBMISSION


BOMBS = {
    "templates": "template <int A, int B>\n"
    "struct F { static const int v = F<A - 1, B * 2>::v + F<A - 1, B * 2 + 1>::v; };\n"
    "template <int B> struct F<0, B> { static const int v = 1; };\n"
    "__global__ void k(int* a) { a[0] = F<26, 1>::v; }\n",
    "macros": "#define A(x) x x x x x x x x x x x x x x x x\n#define B(x) A(A(A(A(x))))\n#define C(x) B(B(x))\n"
    "__global__ void k(int* a) { C(a[0]++;) }\n",
    "a device": '#include "/dev/zero"\n__global__ void k() {}\n',
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_ends_in_time(compiled, cache, work, kind):
    found = compiled(BOMBS[kind], compile_timeout_s=2.0, memory_bytes=1 << 30)
    assert found.program is None
    assert found.ruling.status in (
        Status.TIMEOUT,
        Status.OUT_OF_MEMORY,
        Status.COMPILE_ERROR,
        Status.INVALID_SUBMISSION,
    )
    assert found.duration_s < 15
    assert not any(work.iterdir())


def test_a_name_bomb_costs_little(compiled):
    types = "".join(f"typedef P<T{level}, T{level}> T{level + 1};\n" for level in range(17))
    source = f"template <class A, class B> struct P {{}};\ntypedef P<int, int> T0;\n{types}"
    found = compiled(source + "__global__ void k(T17* p, int* q) { q[0] = 1; }\n")
    if found.ruling is None:
        assert len(repr(found.program.entries)) < 100_000
        assert [one.name for one in found.program.entries[0].parameters] == ["p", "q"]
    else:
        assert found.ruling.status in (Status.TIMEOUT, Status.OUT_OF_MEMORY)


def test_an_image_that_is_too_large(compiled, monkeypatch):
    monkeypatch.setattr("evaluator.stages.compile.nvcc.MAX_IMAGE_BYTES", 1 << 20)
    source = "struct T { char a[900000]; };\n__device__ T t = {{[899999] = 1}};\n"
    ruling = compiled(source + "__global__ void k(char* p) { p[0] = t.a[threadIdx.x]; }\n").ruling
    assert ruling.status is Status.INVALID_SUBMISSION
    assert "too large" in ruling.message


def test_too_slow_is_a_timeout_that_is_not_remembered(compiled, sandbox):
    found = compiled(SCALE, compile_timeout_s=0.1)
    assert (found.ruling.status, found.ruling.phase) == (Status.TIMEOUT, Phase.COMPILE)
    assert "0.1 s" in found.ruling.message
    assert found.ruling.hint
    assert compiled(SCALE).ruling is None


def test_too_little_memory_is_said_and_not_remembered(compiled):
    found = compiled(SCALE, memory_bytes=48 << 20)
    assert found.ruling.status is Status.OUT_OF_MEMORY
    assert "48 MiB" in found.ruling.message
    assert compiled(SCALE).ruling is None


class Broken:
    """A sandbox in which no program can run."""

    name = "broken"

    def run(self, job):
        return JobResult(exit_code=127, signal=None, stdout=b"", stderr=b"nvcc: not found\n", files={}, wall_s=0.0)


def test_a_compiler_that_does_not_run_is_our_fault(compiled, cache):
    with pytest.raises(InfrastructureError, match="not found"):
        compiled(SCALE, sandbox=Broken())
    assert compiled(SCALE).ruling is None


class Forbidding:
    """A sandbox in which no file of the work folder may be run, as a mount or a policy has it."""

    name = "forbidding"

    def __init__(self, sandbox):
        self._sandbox = sandbox

    def run(self, job):
        copied = (
            'for one in start-*; do if [ -e "$one" ]; then cat "$one" > c && rm -f "$one" && mv c "$one"; fi; done'
        )
        script = f'{copied}; exec "$@"'  # a copy has no right to be run
        return self._sandbox.run(dataclasses.replace(job, argv=("/bin/sh", "-c", script, "sh", *job.argv)))


@pytest.mark.parametrize("source", [SCALE, "__global__ void broken( {"], ids=["right", "wrong"])
def test_a_sandbox_that_runs_nothing_of_its_work_folder_is_our_fault(compiled, sandbox, source):
    with pytest.raises(InfrastructureError, match=r"does not work in the forbidding sandbox: .*Permission denied"):
        compiled(source, sandbox=Forbidding(sandbox))


class Murderous:
    """A sandbox in which someone kills the first programs that run."""

    name = "murderous"

    def __init__(self, sandbox, killed, times):
        self._sandbox, self._killed, self._left = sandbox, killed, times

    def run(self, job):
        if self._left:
            self._left -= 1
            return JobResult(**NOTHING | self._killed)
        return self._sandbox.run(job)


NOTHING = {"exit_code": 1, "signal": None, "stdout": b"", "stderr": b"", "files": {}, "wall_s": 0.1}
KILLED = {
    "nvcc": {"exit_code": None, "signal": 9},
    "one of its programs": {"exit_code": 9, "stderr": b"nvcc error   : 'cicc' died due to signal 9 (Kill signal)\n"},
    "one of its programs, in a shell's words": {
        "exit_code": 9,
        "stderr": b"""nvcc error   : '"$CICC_PATH/cicc"' died due to signal 9 (Kill signal)\n""",
    },
    "one of its programs, by the shell's code": {"exit_code": 137, "stderr": b"Killed\n"},
    "the host compiler": {"stderr": b"nvcc error   : 'x86_64-linux-gnu-g++-12' died due to signal 9 (Kill signal)\n"},
    "one of the host compiler's": {
        "stderr": b"g++-12: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n"
    },
}


@pytest.mark.parametrize("kind", KILLED)
def test_a_compiler_that_someone_kills_is_our_fault_and_not_the_memory_of_the_source(compiled, sandbox, kind):
    with pytest.raises(InfrastructureError, match="killed"):
        compiled(SCALE, sandbox=Murderous(sandbox, KILLED[kind], MAX_TRIES))
    assert compiled(SCALE, sandbox=Murderous(sandbox, KILLED[kind], 1)).ruling is None


@pytest.mark.parametrize("stderr", [b"", b"Killed\n", b"sh: line 1: 4711 Killed cicc kernel.ii\n"])
def test_a_compiler_that_ends_without_a_word_gets_another_chance(compiled, sandbox, stderr):
    assert compiled(SCALE, sandbox=Murderous(sandbox, {"stderr": stderr}, 1)).ruling is None


def test_a_source_on_which_the_compiler_stays_silent_is_refused(compiled, sandbox):
    found = compiled(SCALE, sandbox=Murderous(sandbox, {}, MAX_TRIES))
    assert found.ruling.status is Status.COMPILE_ERROR


def test_names_differ_for_the_debug_compile_only_in_vain(compiled):
    source = (
        "#ifdef __CUDACC_DEBUG__\n__global__ void k(int wrong) {}\n#else\n__global__ void k(int right) {}\n#endif\n"
    )
    (entry,) = compiled(source).program.entries
    assert entry.parameters[0].name == "right"


def test_what_another_caller_had_compiled_is_not_told(work, tmp_path):
    toolchain, cache = find_toolchain(), Cache(tmp_path / "cache", 1 << 28)
    sandbox = Counting(ProcessSandbox(work), tmp_path / "ran")

    def ask(caller):
        found = compile_source(SCALE, Settings(), "sm_80", toolchain, sandbox, cache.of_caller(caller))
        return found.cached, found.duration_s, (tmp_path / "ran").read_text()

    first, took_s, ran = ask("ann")
    strangers, told_s, ran_again = ask("bob")
    assert (first, strangers) == (False, False)
    assert ran == ran_again, "the work is shared"
    # What it says it took is what the compiler took for the other one.
    assert told_s > 0.5 * took_s
    assert [ask(caller)[0] for caller in ("ann", "bob", "cyd", "bob")] == [True, True, False, True]


def test_a_cache_that_cannot_be_written_does_not_stop_grading(compiled, tmp_path):
    (tmp_path / "file").write_text("")
    broken = Cache(tmp_path / "file", 1 << 20)
    assert compiled(SCALE, cache=broken).program is not None
    assert broken.warning


def _compile(root: Path, work: Path, log: Path, answers) -> None:
    sandbox = Counting(ProcessSandbox(work), log)
    found = compile_source(SCALE, Settings(), "sm_80", find_toolchain(), sandbox, Cache(root, 1 << 28))
    answers.put((found.cubin_sha256, found.cached))


def test_eight_processes_compile_once(work, tmp_path):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    log = tmp_path / "ran"
    arguments = (tmp_path / "cache", work, log, answers)
    processes = [context.Process(target=_compile, args=arguments) for _ in range(8)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=200) for _ in processes]
    for process in processes:
        process.join()
    assert len({cubin for cubin, _ in found}) == 1
    assert sorted(log.read_text().split()) == ["nvcc", "ptxas"]
