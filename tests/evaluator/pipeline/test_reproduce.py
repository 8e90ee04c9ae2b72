"""`assay grade --shrink` and `--repro`: what is written, and the words where nothing can be."""

import json

import pytest
from click.testing import CliRunner

from common.contract import Verdict
from evaluator.cli import chosen_problem
from evaluator.cli.main import main
from evaluator.pipeline import pipeline, reproduce
from evaluator.problems.catalogue import find_problem

RIGHT = (
    "// problem: relu\n__global__ void relu(const float* x, float* y, int n)\n"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = fmaxf(x[i], 0.0f); }\n"
)
WRONG = RIGHT.replace("y[i] =", "y[i] = n > 2 ? 7.0f :")
BROKEN = RIGHT.replace("fmaxf", "maximum_of")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {"right.cu": RIGHT, "wrong.cu": WRONG, "broken.cu": BROKEN}.items():
        (tmp_path / name).write_text(text)
    return lambda *arguments: CliRunner().invoke(main, ["grade", *arguments])


def test_a_wrong_kernel_gets_its_program(run, tmp_path):
    result = run("wrong.cu", "--repro", "made/shown.cu", "--json")
    assert result.exit_code == 1, result.output
    verdict = Verdict.model_validate(json.loads(result.stdout))
    assert verdict.message.endswith("Already wrong at n=3, with zeros in x.")
    text = (tmp_path / "made/shown.cu").read_text()
    assert " -o shown shown.cu\n//     ./shown\n" in text
    assert WRONG in text
    assert "int main(int argc, char** argv)" in text


def test_the_problem_is_looked_up_once(run, monkeypatch):
    looked_up = []

    def counted(problem_id):
        looked_up.append(problem_id)
        return find_problem(problem_id)

    for module in (chosen_problem, pipeline, reproduce):
        monkeypatch.setattr(module, "find_problem", counted)
    assert run("wrong.cu", "--repro", "repro.cu").exit_code == 1
    assert looked_up == ["relu"]


def test_shrinking_alone_writes_nothing(run, tmp_path):
    result = run("wrong.cu", "--shrink")
    assert result.exit_code == 1
    assert "Already wrong at n=3" in result.output
    assert not (tmp_path / "repro.cu").exists()


@pytest.mark.parametrize(
    ("file", "exit_code", "words"),
    [("right.cu", 0, "the kernel passed"), ("broken.cu", 1, "nothing was run: the verdict is compile_error")],
)
def test_what_has_no_fault_to_show_is_said_and_the_verdict_stands(file, exit_code, words, run, tmp_path):
    result = run(file, "--repro", "repro.cu", "--json")
    assert result.exit_code == exit_code
    assert f"repro.cu is not written: {words}" in result.stderr
    assert json.loads(result.stdout)["problem"] == "relu"
    assert not (tmp_path / "repro.cu").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--repro", "wrong.cu"), "would overwrite wrong.cu"),
        (("--repro", "."), "is a folder"),
        (("--repro", "-"), "needs a file of its own"),
        (("--shrink-s", "99"), "--shrink-s"),
        (("--shrink-s", "-1"), "--shrink-s"),
        (("--shrink-s", "nan"), "--shrink-s"),
        (("--shrink-s", "long"), "not a valid float"),
    ],
)
def test_what_cannot_be_is_said(arguments, words, run):
    result = run("wrong.cu", *arguments)
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert "Traceback" not in result.output
