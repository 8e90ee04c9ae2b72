"""`assay grade --reference` and `--torch`: what is refused at once, and one of each to its verdict."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from common.contract import Status, Verdict
from evaluator.cli import main
from evaluator.cli.console import EXIT_OTHER, EXIT_PASSED, EXIT_USAGE
from evaluator.pipeline.toolbox import Toolbox

REFERENCES = Path(__file__).parents[1] / "foreign" / "references"
ADD = """
__global__ void add(const float* a, const float* b, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolbox: Toolbox) -> Callable[..., Result]:
    monkeypatch.setenv("ASSAY_DATA_DIR", str(toolbox.settings.data_dir))
    monkeypatch.chdir(tmp_path)
    return lambda *arguments, **more: CliRunner().invoke(main.main, list(map(str, arguments)), **more)


@pytest.mark.parametrize(
    "more",
    [
        ("--reference", REFERENCES / "relu.py", "--problem", "relu"),
        ("--reference", REFERENCES / "relu.py", "--torch", "a", "--shape", "a=3"),
        ("--reference", REFERENCES / "relu.py", "--problem", "relu", "--server", "http://127.0.0.1:1"),
        ("--torch", "open('x')", "--shape", "a=3", "--server", "http://127.0.0.1:1"),
        ("--reference", REFERENCES / "relu.py", "--size", "dim=3"),
        ("--reference", REFERENCES / "relu.py", "--backend", "gpu"),
        ("--reference", "none.py"),
        ("--shape", "a=3"),
        ("--torch", "open('x')", "--shape", "a=3"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_runs(
    more: tuple[object, ...], run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluator.foreign.reference.ReferenceProcess.start", lambda _: pytest.fail("was started"))
    ended = run("grade", "-", *more, input=ADD)
    assert ended.exit_code == EXIT_USAGE, ended.output


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--torch", "torch.add(a, b", "--shape", "a=3"), "'(' was never closed."),
        (("--torch", "torch.add(a, b)", "--shape", "a=3"), "such as --shape b=1024"),
        (("--torch", "a", "--shape", "a=0"), "whole numbers from 1 to 2,147,483,648"),
        (
            ("--torch", "a", "--shape", "a=99999999999"),
            "an extent may be 2,147,483,648 at most, and not 99,999,999,999",
        ),
        (("--torch", "torch.sofmax(a, 0)", "--shape", "a=3"), "did you mean torch.softmax?"),
        (("--torch", "torch.silu(a)", "--shape", "a=3"), "did you mean F.silu?"),
        (
            ("--torch", "torch.mm(a, b)", "--shape", "a=3", "--shape", "b=4"),
            "the expression fails: RuntimeError: self must",
        ),
        (("--torch", "a * b", "--shape", "a=3", "--shape", "b=3", "--shape", "c=3"), "Leave out its --shape."),
        (("--problem", "kernelbench_relu_0123456789"), "with --server URL the id is enough"),
        (("--problem", "foo:a.py"), "where FORM is kernelbench, leetgpu, tensara or trace"),
        (("--problem", f"kernelbench:{REFERENCES}"), "is a folder, and a problem of kernelbench is one file"),
    ],
)
def test_what_cannot_be_a_problem_is_said_with_what_to_do(
    more: tuple[str, ...], said: str, run: Callable[..., Result]
) -> None:
    ended = run("grade", "-", *more, input=ADD)
    assert ended.exit_code == EXIT_USAGE, ended.output
    assert said in " ".join(ended.output.split())


@pytest.mark.parametrize(
    ("source", "more"),
    [
        (ADD, ("--torch", "torch.add(a, b)", "--shape", "a=1000", "--shape", "b=1000")),
        ((REFERENCES / "relu.cu").read_text(), ("--reference", REFERENCES / "relu.py")),
    ],
)
def test_a_kernel_for_a_problem_of_others_passes(
    source: str, more: tuple[object, ...], run: Callable[..., Result]
) -> None:
    ended = run("grade", "-", *more, "--json", input=source)
    assert ended.exit_code == EXIT_PASSED, ended.output
    verdict = Verdict.model_validate_json(ended.stdout)
    assert verdict.problem.startswith("kernelbench_")
    assert verdict.status is Status.PASSED


def test_a_folder_is_surveyed_file_by_file(run: Callable[..., Result], tmp_path: Path) -> None:
    folder = tmp_path / "level1"
    folder.mkdir()
    (folder / "1_relu.py").write_bytes((REFERENCES / "relu.py").read_bytes())
    constant = (REFERENCES / "relu.py").read_text().replace("torch.relu(x)", "x * 0")
    (folder / "2_constant.py").write_text(constant)
    (folder / "3_broken.py").write_text("import torch\nx = (")
    ended = run("problems", "--kernelbench", folder)
    assert ended.exit_code == EXIT_OTHER, ended.output
    first, second, third, totals = ended.stdout.splitlines()
    assert first.startswith("ok    1_relu.py: loads, calibrates; tells TF32 (")
    assert "varies batch_size, dim" in first
    assert second.startswith("FAIL  2_constant.py: loads, calibrates, degenerate: 2_constant.py is no problem")
    assert third == "FAIL  3_broken.py: does not load: 3_broken.py:2: it is not Python: '(' was never closed."
    assert totals.startswith(
        "3 files: 2 load, 2 calibrate, 1 are degenerate; of the 1 that can be graded 1 tell TF32"
    )
    assert run("problems", "--kernelbench", folder, "--check").exit_code == EXIT_USAGE
    alone = run("problems", "--kernelbench", folder / "3_broken.py").stdout.splitlines()
    assert alone[1].strip().startswith("A problem is stated in Python for PyTorch")


def test_one_file_is_shown_as_a_problem_of_ours_is(run: Callable[..., Result], tmp_path: Path) -> None:
    for folder in ("1_gain", "2_gain"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "challenge.py").write_bytes((REFERENCES / "leetgpu" / "challenge.py").read_bytes())
    file = tmp_path / "1_gain" / "challenge.py"
    shown = run("problems", "--leetgpu", file)
    assert shown.exit_code == EXIT_PASSED, shown.output
    line, *card = shown.stdout.splitlines()
    assert line.startswith("ok    challenge.py: loads, calibrates")
    text = " ".join("".join(card).split())
    for told in (
        "leetgpu_1_gain_",
        "signal[rows, columns] float32",
        "at its own sizes (rows=32768, columns=4096)",
        "Cannot say",
    ):
        assert told in text, told
    starter = run("problems", "--leetgpu", file, "--starter").stdout
    assert starter.startswith("// problem: leetgpu_1_gain_")
    assert "\n// assay: launch leetgpu_1_gain_" in starter
    (tmp_path / "k.cu").write_text(starter)
    verdict = Verdict.model_validate_json(run("grade", "k.cu", "--reference", file, "--json").stdout)
    assert verdict.status is not Status.INVALID_SUBMISSION
    assert "gains[0] was never written" in verdict.message
    (listed,) = json.loads(run("problems", "--leetgpu", file, "--json").stdout)
    assert (listed["name"], listed["varies"], "face" in listed) == ("challenge.py", ["rows", "columns"], False)
    assert run("problems", "--leetgpu", tmp_path, "--starter").exit_code == EXIT_USAGE
    whole = run("problems", "--leetgpu", tmp_path).stdout.splitlines()
    assert [line.split()[1] for line in whole[:2]] == ["1_gain/challenge.py:", "2_gain/challenge.py:"]


def test_a_file_that_is_refused_has_no_starter(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import torch\nx = (")
    ended = run("problems", "--kernelbench", "broken.py", "--starter")
    assert (ended.exit_code, "broken.py:2: it is not Python" in ended.output) == (EXIT_USAGE, True)
    alone = run("problems", "--kernelbench", "broken.py")
    assert (alone.exit_code, len(alone.stdout.splitlines())) == (EXIT_OTHER, 2)
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken.py").rename(tmp_path / "folder" / "broken.py")
    assert "\n1 file: 0 load" in run("problems", "--kernelbench", "folder").stdout


def test_a_verdict_on_a_problem_of_others_is_verified_with_the_file_that_states_it(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    more = ("--reference", REFERENCES / "relu.py", "--quick", "--receipt", "verdict.json", "--json")
    assert run("grade", REFERENCES / "relu.cu", *more).exit_code == EXIT_PASSED
    alone = run("verify", "verdict.json")
    assert alone.exit_code == EXIT_PASSED, alone.output
    assert "trials" in alone.output
    assert "give the file that states it with --reference" in alone.output
    renamed = tmp_path / "renamed.py"
    renamed.write_bytes((REFERENCES / "relu.py").read_bytes())
    whole = run("verify", "verdict.json", "--reference", renamed)
    assert whole.exit_code == EXIT_PASSED, whole.output
    assert "have the sizes, scalars and distributions that the seed gives" in whole.output
    again = ("--rerun", "--source", REFERENCES / "relu.cu")
    assert "needs the file that states kernelbench_relu_" in run("verify", "verdict.json", *again).output
    rerun = run("verify", "verdict.json", *again, "--reference", f"kernelbench:{renamed}")
    assert rerun.exit_code == EXIT_PASSED, rerun.output
    assert "Graded again, with the same seed, it is passed" in rerun.output
    renamed.write_bytes(renamed.read_bytes() + b"#")
    other = run("verify", "verdict.json", "--reference", renamed)
    assert (other.exit_code, "and the verdict is about kernelbench_relu_" in other.output) == (EXIT_USAGE, True)
    diffed = run("diff", REFERENCES / "relu.cu", "-", "--problem", "kernelbench_relu_0123456789", input=ADD)
    assert (diffed.exit_code, "kernelbench_relu_0123456789 is one of others" in diffed.output) == (EXIT_USAGE, True)
