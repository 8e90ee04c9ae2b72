"""Bad input through the real command: a clear verdict or message, the right exit code, nothing left behind."""

import os
import shutil
from pathlib import Path

import pytest

ADVERSARIAL = Path(__file__).parents[1] / "adversarial"
ADD = """
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""


def planned(launch: str, more: str = "") -> str:
    return f"// problem: vector_add\n{more}\n// assay: launch add {launch}\n{ADD}"


# ---- files that cannot be read: the caller's mistake ----


def test_a_file_that_is_not_there(assay):
    ended = assay("grade", "nowhere.cu", "--problem", "vector_add", "--json")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "nowhere.cu does not exist" in ended.stderr


def test_a_folder(assay):
    ended = assay("grade", assay.folder, "--problem", "vector_add", "--json")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "is a folder" in ended.stderr


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["fifo", "endless device"]
)
def test_what_is_not_a_plain_file_is_not_waited_for(make, assay):
    make(assay.folder / "pipe")
    ended = assay("grade", "pipe", "--problem", "vector_add", "--json")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "not a plain file" in ended.stderr


def test_no_problem_named(assay, write):
    ended = assay("grade", write(ADD), "--json")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--problem" in ended.stderr


@pytest.mark.parametrize("in_the_file", [True, False])
def test_an_unknown_problem_names_the_nearest(in_the_file, assay, write):
    file = write(f"// problem: vecotr_add\n{ADD}")
    ended = assay("grade", file, *([] if in_the_file else ["--problem", "vecotr_add"]))
    assert ended.returncode == 2
    assert "vector_add" in ended.stderr


# ---- content that is not a kernel: a verdict ----


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b" \n\t\r\n" * 100, ""),
        (Path("/bin/true").read_bytes(), "ELF"),
        (b"x" * (5 << 20), "1 MiB"),
        (b"// 5 MB of comment \n" * (5 << 20 >> 4) + ADD.encode(), "1 MiB"),
        (ADD.encode() + b"// caf\xe9\n", "UTF-8"),
        (ADD.encode().replace(b"int i", b"int\x00i"), "NUL"),
        (ADD.encode("utf-16"), "UTF-"),
        (b"__device__ float twice(float x) { return 2 * x; }", "__global__"),
        ((ADD + ADD.replace("add(", "add_too(")).encode(), "add_too"),
    ],
    ids=[
        *("empty", "blank", "binary", "5 MB", "5 MB of lines", "latin-1", "NUL byte", "UTF-16", "no kernel"),
        "two kernels and no plan",
    ],
)
def test_content_that_cannot_be_graded(content, message, assay, write):
    verdict = assay.verdict(write(content), "--problem", "vector_add", exit_code=1)
    assert verdict["status"] == "invalid_submission"
    assert message in verdict["message"] + (verdict["hint"] or "")
    assert verdict["reward"]["value"] < 0.5


# ---- launch plans and signatures ----


@pytest.mark.parametrize(
    "source",
    [
        ADD.replace("int n", "int n, int pitch"),
        ADD.replace("const float* b, ", "")
        .replace("b[i]", "a[i]")
        .replace("float* a", "float* left")
        .replace("a[i]", "left[i]"),
        ADD.replace("const float* a", "float a").replace("a[i]", "a"),
        planned("grid=(9**9**9) block=(256) args=(a, b, c, n)"),
        planned("grid=(-1) block=(256) args=(a, b, c, n)"),
        planned("grid=(0) block=(256) args=(a, b, c, n)"),
        planned("grid=(n // 0) block=(256) args=(a, b, c, n)"),
        planned("grid=(1) block=(1025) args=(a, b, c, n)"),
        planned("grid=(1) block=(256) shared=1000000 args=(a, b, c, n)"),
        planned("grid=(1) block=(256) args=(a, b, c)"),
        planned("grid=(1) block=(256) args=(a, b, n, c)"),
        planned("grid=(1) block=(256) args=(a, b, typo, n)"),
        planned("grid=(1) block=(256) args=(a, b, c, n)", "// assay: temp t float64 (1000000, 1000000, 1000)"),
    ],
    ids=[
        *("too many parameters", "too few parameters", "float for a pointer"),
        *("tower of powers", "negative grid", "grid of zero", "division by zero"),
        *("1025 threads", "shared memory", "argument missing", "arguments swapped", "unknown name", "petabytes"),
    ],
)
def test_what_cannot_be_launched_is_an_invalid_submission(source, assay, write):
    verdict = assay.verdict(write(source), "--problem", "vector_add", exit_code=1)
    assert verdict["status"] == "invalid_submission"
    assert verdict["phase"] in ("screen", "compile", "launch")
    assert verdict["correctness"] is None


# ---- hostile source ----


def test_no_line_of_a_foreign_file_is_shown(assay, write):
    report = assay.folder / "report.html"
    file = write(f'// problem: vector_add\n#include "/etc/passwd"\n{ADD}')
    card = assay("grade", file, "--report", report)
    assert card.returncode == 1
    ended = assay("grade", file, "--json")
    everything = card.stdout + card.stderr + ended.stdout + ended.stderr + report.read_text()
    for line in Path("/etc/passwd").read_text().splitlines():
        assert line not in everything
    assert "root:x" not in everything


@pytest.mark.parametrize("bomb", ["template_bomb.cu", "constexpr_bomb.cu", "macro_bomb.cu"])
def test_a_bomb_for_the_compiler_ends_in_time(bomb, assay):
    shutil.copy(ADVERSARIAL / bomb, assay.folder)
    verdict = assay.verdict(bomb, "--problem", "vector_add", "--compile-timeout", "2", exit_code=1)
    assert verdict["phase"] == "compile"
    assert verdict["status"] in ("timeout", "compile_error", "out_of_memory")


# ---- plans, sizes and settings on the command line ----


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (b"{", "is not JSON"),
        (b"", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "recursion"),
        (b'{"steps": []}', "steps"),
        (b'{"steps": [{"kind": "host", "code": "import os"}]}', "steps"),
        (b"null", "it"),
    ],
    ids=["cut off", "empty", "binary", "deep", "no steps", "host code", "null"],
)
def test_a_plan_that_is_no_plan(plan, message, assay, write):
    ended = assay("grade", write(ADD), "--problem", "vector_add", "--plan", write(plan, "plan.json"), "--json")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "plan.json cannot be used" in ended.stderr
    assert message in ended.stderr


def test_a_plan_that_is_not_there(assay, write):
    ended = assay("grade", write(ADD), "--problem", "vector_add", "--plan", "nowhere.json")
    assert ended.returncode == 2
    assert "launch plan" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--size", "n"),
        ("--size", "n=abc"),
        ("--size", "n=-5"),
        ("--size", "n=0"),
        ("--size", "n=²"),
        ("--size", "n=99999999999999999999999"),
        ("--size", "m=5"),
        ("--size", "n=5", "--size", "n=7"),
        ("--timeout", "0"),
        ("--timeout", "nan"),
        ("--timeout", "3600"),
        ("--compile-timeout", "-1"),
        ("--arch", "sm_80; true"),
        ("--reward", "all"),
        ("--backend", "gpu"),
        ("--target-speedup", "inf"),
        ("--timing-precision", "0.2"),
        (*("--flag", "-lineinfo") * 17,),
        ("--unknown",),
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_an_option_that_cannot_be_is_wrong_usage(arguments, assay, write):
    ended = assay("grade", write(ADD), "--problem", "vector_add", *arguments, "--json")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert 10 < len(ended.stderr) < 2000


# ---- the report ----


def test_a_report_where_nothing_can_be_written_is_refused_before_the_work(assay, write):
    file = write(f"// problem: vector_add\n{ADD}")
    for place in (assay.folder, file, "/dev/null/report.html"):
        ended = assay("grade", file, "--report", place)
        assert ended.returncode == 2, place
        assert "report" in ended.stderr
        assert ended.stdout == ""
    assert file.read_text().endswith(ADD), "the source is still there"


def test_a_report_that_cannot_be_written_does_not_cost_the_verdict(assay, write):
    # A device can be opened, and is full only when it is written to.
    ended = assay("grade", write(f"// problem: vector_add\n{ADD}"), "--report", "/dev/full")
    assert ended.returncode == 2
    assert "cannot be written" in ended.stderr
    assert "passed" in ended.stdout


def test_a_place_that_only_looks_writable_is_noticed_before_the_work(assay, write):
    # /proc lets root believe that it can write there.
    ended = assay("grade", write(f"// problem: vector_add\n{ADD}"), "--report", "/proc/assay.html")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "cannot be written" in ended.stderr


# ---- terminals, pipes and names ----


@pytest.mark.parametrize("options", [["--json"], []], ids=["json", "card"])
def test_a_reader_that_stops_reading_does_not_change_the_exit_code(options, assay, write):
    read, written = os.pipe()
    os.close(read)
    with os.fdopen(written, "w") as stdout:
        ended = assay("grade", write(ADD), "--problem", "vector_add", *options, stdout=stdout)
    assert ended.returncode == 0


def test_a_verdict_that_cannot_be_printed_is_not_a_pass(assay, write):
    with open("/dev/full", "w") as stdout:
        ended = assay("grade", write(ADD), "--problem", "vector_add", "--json", stdout=stdout)
    assert ended.returncode == 3


def test_messages_that_cannot_be_printed_do_not_change_the_exit_code(assay, write):
    with open("/dev/full", "w") as full, open(os.devnull, "w") as nowhere:
        ended = assay("grade", write(ADD), "--problem", "vector_add", stdout=nowhere, stderr=full)
        assert ended.returncode == 0
        assert assay("grade", "nowhere.cu", stdout=nowhere, stderr=full).returncode == 2


def test_standard_input(assay):
    assert assay.verdict("-", input=f"// problem: vector_add\n{ADD}", exit_code=0)["status"] == "passed"
    assert assay("grade", "-", "--problem", "relu", input="").returncode == 1
    closed = assay("grade", "-", "--problem", "relu", preexec_fn=lambda: os.close(0))
    assert closed.returncode == 2
    assert "Standard input is closed" in closed.stderr


@pytest.mark.parametrize("columns", ["0", "1", "40", "300", "wide"])
def test_a_card_can_be_read_at_any_width(columns, assay, write):
    assay.environment["COLUMNS"] = columns
    ended = assay("grade", write(ADD), "--problem", "vector_add")
    assert ended.returncode == 0
    assert "passed" in ended.stdout
    widest = max(map(len, ended.stdout.splitlines()))
    assert widest <= max(40, int(columns)) if columns.isdigit() else widest == 80


def test_no_colour_and_a_plain_locale(assay, write):
    assay.environment |= {"NO_COLOR": "1", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assay.environment["FORCE_COLOR"] = "1"
    ended = assay("grade", write(ADD), "--problem", "vector_add")
    assert ended.returncode == 0
    assert ended.stdout.isascii()
    assert "\x1b[3" not in ended.stdout


@pytest.mark.parametrize(
    "name",
    ["my kernel.cu", "two\nlines.cu", "[bold red]x[dim].cu", "\x1b[31mred.cu", "-rf.cu", "bad\udcff.cu", "é" * 100],
)
def test_odd_file_names(name, assay, write):
    write(f"// problem: vector_add\n{ADD}", name)
    report = assay.folder / f"{name}.html"
    assay.environment["PYTHONIOENCODING"] = "utf-8"
    ended = assay("grade", f"./{name}", "--report", report)
    assert ended.returncode == 0, ended.stderr
    assert "\x1b" not in ended.stdout
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")
    missing = assay("grade", f"./no{name}")
    assert missing.returncode == 2
    assert "\x1b" not in missing.stderr


def test_a_problem_named_behind_a_byte_order_mark_or_a_code_fence(assay, write):
    named = f"// problem: vector_add\n{ADD}"
    for source in (f"\ufeff{named}", f"```cuda\n{named}```\n", named.replace("\n", "\r\n")):
        assert assay.verdict(write(source), exit_code=0)["problem"] == "vector_add"
