"""Wheel and sdist: built as `make dist` does, installed into an empty environment, used far from a checkout."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from pathlib import Path

import pytest

from evaluator.problems.catalogue import problems
from evaluator.stages.compile.toolchain import find_toolchain

ROOT = Path(__file__).parents[2]
PINS = ROOT / "constraints-dev.txt"
GRADE = """
from assay import Client, Submission, grade

source = open("relu.cu").read()
print(grade(source, "relu").status, grade("", "relu").status)
with Client("ADDRESS") as client:
    print(client.evaluate(Submission(problem="relu", source=source)).status)
"""


def run(*command, **options):
    ended = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=600, **options
    )
    return ended.returncode, ended.stdout, ended.stderr


def built(folder):
    """The wheel and the sdist; the wheel is made from the sdist, so that holds all that is needed."""
    environment = {**os.environ, "PIP_CONSTRAINT": str(PINS)}
    code, _, said = run(sys.executable, "-m", "build", "-q", "--outdir", folder, ROOT, env=environment)
    assert code == 0, said[-3000:]
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def installed(wheel, folder):
    """An environment with nothing but the wheel, what it needs and what a service needs; its `bin`."""
    code, _, said = run(sys.executable, "-m", "venv", "--without-pip", folder)
    assert code == 0, said
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    code, _, said = run(*pip, "install", "-q", "--no-compile", "-c", PINS, f"{wheel}[service]")
    assert code == 0, said[-3000:]
    return folder / "bin"


@pytest.fixture
def environment(tmp_path):
    """A data folder of its own with the suite's compiled programs, this machine's compiler, and no other Python."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cache").symlink_to(ROOT / ".assay" / "tests" / "cache")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "PYTHON"))}
    return {**kept, "ASSAY_DATA_DIR": str(tmp_path / "data"), "ASSAY_NVCC": str(find_toolchain().nvcc)}


def check_contents(wheel, sdist):
    """All that git knows of the packages is in the wheel, and the examples; nothing else lands in site-packages."""
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names} == {
        *("assay", "common", "evaluator", "trainer"),
        f"{wheel.name.split('-py3')[0]}.dist-info",
    }
    for package in ("assay", "common", "evaluator", "trainer"):
        files = {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*") if path.is_file()}
        assert {name for name in files - names if "__pycache__" not in name} == set()
    assert {"assay/py.typed", "common/py.typed", "evaluator/py.typed"} <= names
    examples = {f"evaluator/cli/examples/{path.name}" for path in (ROOT / "examples").glob("*.cu")}
    assert len(examples) > 3
    assert examples <= names
    with tarfile.open(sdist) as archive:
        tops = {Path(name).parts[1] for name in archive.getnames() if len(Path(name).parts) > 1}
    assert {"examples", "README.md", "LICENSE", "pyproject.toml", "constraints-dev.txt"} <= tops
    assert not {"tests", ".venv", ".assay", ".ci"} & tops


# Half of it is pip; beside other tests on few cores that can take minutes.
@pytest.mark.timeout(900)
def test_the_wheel_does_all_that_a_user_does_without_a_checkout(tmp_path, environment):
    wheel, sdist = built(tmp_path / "dist")
    check_contents(wheel, sdist)
    binaries = installed(wheel, tmp_path / "venv")
    assay, here = binaries / "assay", tmp_path / "here"
    here.mkdir()
    at = {"cwd": here, "env": {**environment, "PATH": f"{binaries}:{environment['PATH']}"}}

    code, said, _ = run(assay, "--help", **at)
    assert (code, "Grade CUDA kernels" in said) == (0, True)

    code, said, wrong = run(assay, "doctor", **at)
    assert code == 0, said + wrong
    assert re.search(r"^ok +simulator", said, re.MULTILINE)
    assert "make " not in said, "a remedy for those who have a checkout"

    code, said, wrong = run(assay, "demo", **at)
    assert code == 0, said + wrong
    assert "Graded 6 kernels" in said
    assert "Over HTTP: relu passed" in said
    assert "Next:      assay problems softmax --starter" in said
    assert (here / "assay-report.html").stat().st_size > 10_000

    code, starter, _ = run(assay, "problems", "softmax", "--starter", **at)
    (here / "my.cu").write_text(starter)
    code, said, wrong = run(assay, "grade", "my.cu", "--problem", "softmax", "--json", **at)
    assert (code, json.loads(said)["status"]) == (1, "incorrect"), wrong
    assert "never written" in json.loads(said)["message"]

    code, _, wrong = run(
        assay, "grade", "my.cu", "--problem", "softmax", cwd=here, env={**at["env"], "ASSAY_NVCC": "/no"}
    )
    assert code == 3
    assert "make " not in wrong

    (here / "relu.cu").write_text(problems()["relu"].naive.source)
    serving = subprocess.Popen(
        [assay, "serve", "--port", "0", "--workers", "1"], stdout=subprocess.PIPE, text=True, **at
    )
    try:
        address = serving.stdout.readline().split()[-1]
        code, said, wrong = run(assay, "grade", "relu.cu", "--problem", "relu", "--server", address, **at)
        assert (code, "passed" in said) == (0, True), said + wrong
        program = textwrap.dedent(GRADE).replace("ADDRESS", address)
        code, said, wrong = run(binaries / "python", "-c", program, **at)
        assert code == 0, wrong
        assert said.split() == ["passed", "invalid_submission", "passed"]
    finally:
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=60)
    assert serving.returncode == 0
