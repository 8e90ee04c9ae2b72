import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract import Severity
from evaluator.sandbox.sandbox import JobResult
from evaluator.stages.compile.compiler_exit import CompilerRun, crash, out_of_memory, refused, signals_told
from evaluator.stages.compile.diagnostics import MAX_DIAGNOSTICS, hint, parse_diagnostics, source_lines, unplaced

HEADERS = (Path("/opt/cuda/include"), Path("/usr/include/c++/12"))
SOURCE = "\n".join(f"line {number};" for number in range(1, 40))

EDG = """\
kernel.cu(5): error: expected a ";"
    a[i] = sqrtff(a[i]);
    ^

kernel.cu(8): warning #224-D: the format string requires additional arguments
    printf("%d");
               ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

/tmp/job-17/kernel.cu(2): error: expression must have class type but it has type "float"
  template <class T> __attribute__((device)) T f(T x) { return x.foo; }
                                                               ^
          detected during instantiation of "T f(T) [with T=float]" at line 7

At end of source: error: expected a "}"

3 errors detected in the compilation of "kernel.cu".
"""


def test_front_end_messages():
    found = parse_diagnostics(EDG, SOURCE, HEADERS)
    assert [(one.file, one.line, one.severity, one.code) for one in found] == [
        ("kernel.cu", 5, Severity.ERROR, None),
        ("kernel.cu", 8, Severity.WARNING, "#224-D"),
        ("kernel.cu", 2, Severity.ERROR, None),
        ("kernel.cu", 39, Severity.ERROR, None),
    ]
    assert found[0].text == 'expected a ";"'
    assert found[2].text.endswith('detected during instantiation of "T f(T) [with T=float]" at line 7')
    assert not any("sqrtff" in one.text or "return x.foo" in one.text for one in found)


def test_preprocessor_messages():
    told = """\
In file included from kernel.cu:3:
kernel.cu:1:10: fatal error: x.h: No such file or directory
    1 | #include "x.h"
      |          ^~~~~
compilation terminated.
kernel.cu:10:2: warning: #warning "hello" [-Wcpp]
   10 | #warning "hello"
      |  ^~~~~~~
"""
    first, second = parse_diagnostics(told, SOURCE, HEADERS)
    assert (first.line, first.column, first.severity) == (1, 10, Severity.ERROR)
    assert first.text == "x.h: No such file or directory"
    assert (second.code, second.text) == ("-Wcpp", '#warning "hello"')


def test_toolkit_headers_have_short_names():
    (one,) = parse_diagnostics(
        "/opt/cuda/include/cuda_fp16.hpp(12): error: bad thing in /opt/cuda/include/mma.h\n", SOURCE, HEADERS
    )
    assert (one.file, one.line, one.text) == ("cuda_fp16.hpp", 12, "bad thing in mma.h")


@pytest.mark.parametrize(
    "told",
    [
        '/etc/passwd(1): error: identifier "root" is undefined\n  root:x:0:0:root:/root:/bin/sh\n  ^\n',
        '/etc/secret.h:3:2: error: #error "root"\n    3 | #error "root"\n      |  ^~~~\n',
        '/opt/cuda/include/../../../etc/passwd(1): error: identifier "root" is undefined\n',
        'secret(1): error: identifier "root" is undefined\n',
        'kernel.cu(4000): error: identifier "root" is undefined\n',
    ],
)
def test_other_files_are_not_quoted(told):
    (one,) = parse_diagnostics(told, SOURCE, HEADERS)
    assert "root" not in one.model_dump_json()
    assert one.file is None
    assert one.severity is Severity.ERROR


def test_paths_of_the_machine_are_left_out_unless_the_source_has_them():
    told = "kernel.cu(1): error: cannot do /home/someone/work/thing\n"
    assert "/home" not in parse_diagnostics(told, SOURCE, HEADERS)[0].text
    assert "/home" in parse_diagnostics(told, "// /home/someone/work/thing", HEADERS)[0].text


def test_errors_survive_a_flood_of_warnings():
    told = "".join(f"kernel.cu({number % 39 + 1}): warning #1-D: number {number}\n\n" for number in range(200))
    found = parse_diagnostics(told + "kernel.cu(3): error: here\n", SOURCE, HEADERS)
    assert len(found) == MAX_DIAGNOSTICS
    assert found[-1].text == "here"


def test_the_same_message_is_said_once():
    assert len(parse_diagnostics("kernel.cu(3): error: here\n\n" * 5, SOURCE, HEADERS)) == 1


PTX = """\
.visible .entry k(
)
{
\t.loc\t1 5 0
\tmov.u32 %r1, 1;
\t.loc\t2 77 3, function_name $L__info_string0, inlined_at 1 6 30
\tfoo.bar %r1;
}
\t.file\t1 "kernel.cu"
\t.file\t2 "cuda_fp16.hpp"
"""


def test_ptxas_errors_go_back_to_the_source():
    lines = source_lines(PTX)
    assert (lines[5], lines[7]) == (5, 6)
    told = (
        "ptxas kernel.ptx, line 7; error   : Not a name of any known instruction: 'foo'\n"
        "ptxas fatal   : Ptx assembly aborted due to errors\n"
        "ptxas info    : 0 bytes gmem\n"
        "ptxas error   : Entry function 'k' uses too much shared data (0x13880 bytes, 0xc000 max)\n"
    )
    first, second = parse_diagnostics(told, SOURCE, HEADERS, lines)
    assert (first.file, first.line, first.severity) == ("kernel.cu", 6, Severity.ERROR)
    assert "PTX" in hint(first, SOURCE)
    assert (second.file, second.line) == (None, None)
    assert "shared" in hint(second, SOURCE)


@pytest.mark.parametrize(
    ("message", "source", "expected"),
    [
        ('expected a ";"', "int a\nint b;", "line 2"),
        ('expected a ";"', "\nint a\n// b\nint b;", "at the end of line 2"),
        ('expected a ";"', "int a;\n\nint b int c;", "in line 3"),
        ('function "k" has already been defined (previous definition at line 2)', "", "Keep one of the two"),
        ("kernel launch from __device__ or __global__ functions requires separate compilation", "", "from the plan"),
        ('identifier "import" is undefined', "import triton", "looks like Python"),
        ('identifier "__half" is undefined', "__half x;", "cuda_fp16.h"),
        ('identifier "half" is undefined', "half x;", "cuda_fp16.h"),
        ('identifier "__nv_bfloat16" is undefined', "", "cuda_bf16.h"),
        ('identifier "thredIdx" is undefined', "int i = thredIdx.x;", "`threadIdx`"),
        ('identifier "strde" is undefined', "int stride; strde = 1;", "`stride`"),
        ('name followed by "::" must be a class or namespace name', "", None),
        ('identifier "zzz" is undefined', "zzz = 1;", None),
        ('calling a __host__ function("helper()") from a __global__ function("k") is not allowed', "", "__device__"),
        ('namespace "std" has no member "vector"', "", "plain arrays"),
        ('namespace "cooperative_groups" has no member "this_cluster"', "", "sm_90a"),
        ("__cluster_dims__ is not supported for this GPU architecture", "", "sm_90a"),
        ('#error "for Hopper"', "#if __CUDA_ARCH__ < 900", "sm_90a"),
        ("torch/extension.h: No such file or directory", "", "launch plan"),
        ("cublas_v2.h: No such file or directory", "", "no libraries"),
        ("mine.h: No such file or directory", "", "one file"),
        ('a "__global__" function must have a void return type', "", "returns void"),
        (
            "__host__ or __device__ annotation on lambda requires --extended-lambda nvcc flag",
            "auto f = [=] __device__ (int i) { return i; };",
            "the flag --extended-lambda",
        ),
    ],
)
def test_hints(message, source, expected):
    (error,) = parse_diagnostics(f"kernel.cu(3): error: {message}\n", source + "\n\n\n", HEADERS)
    found = hint(error, source)
    assert found is None if expected is None else expected in found


@given(st.text(max_size=400))
def test_any_text_is_survived(text):
    for one in parse_diagnostics(text + "\nkernel.cu(3): error: " + text, SOURCE, HEADERS):
        assert len(one.text) <= 1000


def test_ptxas_speaks_of_kernels_by_name_and_of_numbers_in_decimal():
    told = "ptxas error   : Entry function '_ZN2my3bigILi20000EEEvPKfPfi' uses too much shared data (0x13880 bytes)\n"
    (error,) = parse_diagnostics(told, SOURCE, HEADERS)
    assert error.text == (
        "Entry function 'my::big<20000>(float const*, float*, int)' uses too much shared data (80000 bytes)"
    )


@pytest.mark.parametrize("directive", ["#line 900", "# 900", "%: line 900"])
def test_a_line_that_only_a_directive_claims_keeps_its_message(directive):
    told = 'kernel.cu(901): error: identifier "zzz" is undefined\n'
    (error,) = parse_diagnostics(told, f"{directive}\n{SOURCE}", HEADERS)
    assert (error.file, error.line) == ("kernel.cu", None)
    assert error.text == 'identifier "zzz" is undefined (line 901 by the source\'s own #line; the file has 40)'
    (hidden,) = parse_diagnostics(told, SOURCE, HEADERS)
    assert "zzz" not in hidden.text


def test_endless_line_numbers_are_survived():
    assert source_lines('.file 1 "kernel.cu"\n.loc 1 ' + "9" * 5000 + " 0\nadd;\n") == {}


@pytest.mark.parametrize("mark", ["\f", "\v", "\x1c", "\x1e", "\x85", "\u2028", "\r"])
def test_quoted_source_cannot_begin_a_line_of_the_compilers(mark):
    """Characters that Python takes for line ends and no compiler does."""
    told = (
        f'kernel.cu:2:2: warning: #warning "x{mark}cc1plus: fatal error: Killed signal terminated program" [-Wcpp]\n'
        f'    2 | #warning "x{mark}kernel.cu(7): error: made up"\n'
        "      |  ^~~~~~~\n"
        "kernel.cu(3): error: a real one\n"
    )
    assert [one.line for one in parse_diagnostics(told, SOURCE, HEADERS)] == [2, 3]
    run = JobResult(1, None, b"", told.encode(), {}, 0.1)
    assert signals_told(run) == frozenset()
    assert "Killed" not in unplaced(told)


def test_the_ptxs_lines_are_those_that_ptxas_counts():
    ptx = '.file 1 "kernel.cu"\n.entry k()\n{\n// \f \u2028 \v\n.loc 1 7 3\nret;\n}\n'
    assert source_lines(ptx)[6] == 7


LINES = {
    "names of a driver": "clang" * 200_000,
    "names of a linker": "collect2" * 120_000,
    "fatal errors": "x:1: Fatal error: " * 55_000 + "memory",
    "flags": ("k:1:1: warning: " + " [-W" * 990 + "\n") * 250,
    "paths": "".join("kernel.cu:1:1: warning: " + f" /a/b{number}" * 490 + "\n" for number in range(250)),
    "files": "".join(f"/a/b{number}:1:1: warning: x\n" for number in range(40_000)),
}


@pytest.mark.parametrize("kind", LINES)
def test_no_text_that_a_compiler_prints_takes_the_square_of_its_length_to_read(kind):
    """A source has nearly anything printed, and who reads it is a worker, outside of every sandbox."""
    source = "x" * (1 << 20)
    run = JobResult(1, None, b"", f"a\n{LINES[kind]}\nb:5:2: warning: #warning no [-Wcpp]\n".encode(), {}, 0.1)
    began_s = time.process_time()
    for linked in (False, True):
        compiled = CompilerRun(1, None, b"", run.stderr, {}, 0.1, witness="start-1", linked=linked)
        assert not signals_told(compiled)
        assert not out_of_memory(compiled)
        refused(compiled)
        crash(compiled)
    parse_diagnostics(run.stderr.decode(), source, HEADERS)
    assert time.process_time() - began_s < 5
