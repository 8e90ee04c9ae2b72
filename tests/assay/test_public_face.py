"""The package `assay`: what it exports, what importing it costs, and its examples, which are run."""

import doctest
import importlib
import inspect
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from serving import Serving

import assay
import assay.grading
from common.contract import RewardName, Settings, Status
from evaluator.problems.catalogue import problems

ROOT = Path(__file__).parents[2]
RELU = problems()["relu"].naive.source


@pytest.fixture(autouse=True)
def warm(tmp_path, monkeypatch):
    """A data folder of its own with the suite's compiled programs, as `grade` finds it by the environment."""
    (tmp_path / "cache").symlink_to(ROOT / ".assay" / "tests" / "cache")
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path))


def python(code):
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return ended.stdout


def test_every_name_is_there_and_explained():
    for name in assay.__all__:
        exported = getattr(assay, name)
        if inspect.isclass(exported) or inspect.isfunction(exported):
            assert inspect.getdoc(exported), name
    assert set(assay.__all__) <= set(dir(assay))
    with pytest.raises(AttributeError, match="has no attribute 'grades'"):
        assay.grades  # noqa: B018


def test_a_name_is_the_same_object_as_in_its_module():
    for name, module in assay._HOME.items():
        assert getattr(assay, name) is getattr(importlib.import_module(module), name)


def test_importing_it_loads_nothing_and_a_client_no_evaluator():
    known = "{name.split('.')[0] for name in sys.modules}"
    said = python(
        f"import sys, assay; print(*sorted({known} & {{'common', 'evaluator', 'httpx', 'numpy', 'pydantic'}}))"
    )
    assert said.split() == []
    said = python(
        "import sys; from assay import AsyncClient, Client, Settings, Status, Submission, Verdict; "
        f"print(*sorted({known} & {{'evaluator', 'numpy', 'scipy', 'trainer'}}))"
    )
    assert said.split() == []


def test_the_module_is_the_command():
    ended = subprocess.run(
        [sys.executable, "-m", "assay", "--version"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ended.stdout == f"assay, version {assay.__version__}\n"


def test_the_examples_of_grade_are_right():
    assert doctest.testmod(assay.grading).failed == 0
    assert doctest.testmod(assay.grading).attempted > 5


def test_the_examples_of_the_package_are_right(tmp_path):
    service = Serving(tmp_path / "service")
    service.start()
    try:
        text = inspect.getdoc(assay).replace("http://127.0.0.1:8000", service.url)
        examples = doctest.DocTestParser().get_doctest(text, {}, "assay", None, 0)
        assert len(examples.examples) > 5
        assert doctest.DocTestRunner().run(examples).failed == 0
    finally:
        service.stop()


def test_grade_takes_settings_plans_and_tells_its_progress():
    told = []
    settings = Settings(reward=RewardName.SPEEDUP, estimate_for=None)
    plan = assay.LaunchPlan.model_validate(
        {"steps": [{"kind": "launch", "kernel": "relu_kernel", "grid": [1], "block": [1], "args": ["x", "y", "n"]}]}
    )
    verdict = assay.grade(RELU, "relu", "sim", plan=plan, settings=settings, progress=told.append)
    assert (verdict.status, verdict.reward.name) == (Status.INCORRECT, RewardName.SPEEDUP)
    assert [text.split()[0] for text in told][:2] == ["screen", "compile"]


def test_what_cannot_be_is_an_error_and_not_a_verdict():
    with pytest.raises(assay.UnknownProblemError) as caught:
        assay.grade(RELU, "reluu")
    assert "relu" in caught.value.remedy
    with pytest.raises(ValueError, match="backend must be"):
        assay.grade(RELU, "relu", "tpu")
    with pytest.raises(assay.UsageError, match=r"source is longer than 16777216 characters\.$") as too_long:
        assay.grade("x" * ((16 << 20) + 1), "relu")
    assert "one file" in too_long.value.remedy
    with pytest.raises(assay.UsageError, match=r"settings\.run_timeout_s must be at most 30(\.0)?\.$"):
        assay.grade(RELU, "relu", settings={"run_timeout_s": 100})


def test_a_failure_of_the_evaluator_is_raised_as_a_client_would(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_NVCC", str(tmp_path / "no-nvcc"))
    said = python(f"""
import assay
try:
    assay.grade({RELU!r}, "relu", "sim")
except assay.EvaluatorError as error:
    print(error.verdict.status, error.verdict.reward, error)
""")
    assert said.startswith("internal_error None The evaluator failed:")
    assert "no-nvcc" in said


def test_threads_may_grade_at_the_same_time():
    ended = []

    def work():
        ended.append(assay.grade(RELU, "relu", "sim").status)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [Status.PASSED] * 3


def test_what_a_callers_own_callback_raises_is_raised_and_is_no_failure_of_the_evaluator():
    def fails(phase):
        raise LookupError(phase)

    with pytest.raises(LookupError, match="screen"):
        assay.grade(RELU, "relu", "sim", progress=fails)
    with pytest.raises(ValueError, match="cannot be called"):
        assay.grade(RELU, "relu", "sim", progress=5)


def test_a_file_of_others_or_an_expression_is_graded_for_in_this_process(tmp_path):
    file = tmp_path / "1_scaled" / "challenge.py"
    references = ROOT / "tests" / "evaluator" / "foreign" / "references"
    file.parent.mkdir()
    file.write_bytes((references / "relu.py").read_bytes())
    kernel = (references / "relu.cu").read_text()
    quick = Settings(verification="quick", estimate_for=None)
    verdict = assay.grade(kernel, file, backend="sim", settings=quick)
    assert (verdict.status, verdict.problem[:21]) == (Status.PASSED, "kernelbench_1_scaled_")
    text = assay.Reference(name="relu.py", text=file.read_text())
    assert assay.grade(kernel, text, backend="sim", settings=quick).problem == text.problem_id
    add = assay.Reference(kind="torch", text="torch.relu(x)", shapes={"x": (16, 1000)})
    wrong = assay.grade(
        f"// problem: {add.problem_id}\n__global__ void k(const float* x, float* out) {{}}", add, "sim"
    )
    assert wrong.status is Status.INCORRECT
    with pytest.raises(assay.UsageError, match=r"broken\.py:1: it is not Python"):
        assay.grade(kernel, assay.Reference(name="broken.py", text="x = ("), "sim")
    with pytest.raises(assay.UsageError, match="cannot be read"):
        assay.grade(kernel, tmp_path / "none.py", "sim")
