"""The straight line: the verdict of each kind of kernel, its receipt, and our own failures."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from common.contract import Phase, RewardName, Settings, Status, Submission, Verdict
from common.source_lines import lines_of
from evaluator.backends.sim.backend import Simulator
from evaluator.backends.sim.session import SimulatorSession
from evaluator.errors import UsageError
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.report import html
from evaluator.report.terminal import line_of
from evaluator.sandbox.host.process import ProcessSandbox
from evaluator.settings import MachineSettings

HEAD = "__global__ void relu(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
RIGHT = HEAD + "if (i < n) y[i] = x[i] > 0.0f ? x[i] : 0.0f; }\n"
KERNELS = {
    "right": (RIGHT, Status.PASSED, Phase.VERIFY),
    "wrong": (HEAD + "if (i < n) y[i] = x[i]; }\n", Status.INCORRECT, Phase.VERIFY),
    "no C++": (HEAD + "if (i < n) y[i] = z; }\n", Status.COMPILE_ERROR, Phase.COMPILE),
    "beyond the end": (HEAD + "y[i + 1] = x[i]; }\n", Status.RUNTIME_ERROR, Phase.VERIFY),
    "trap": (HEAD + "__trap(); }\n", Status.RUNTIME_ERROR, Phase.VERIFY),
    "endless": (HEAD + "while (true) y[0] = *(volatile float*)y + 1.0f; }\n", Status.TIMEOUT, Phase.VERIFY),
    "changes its input": (HEAD + "if (i < n) { y[i] = 0; ((float*)x)[i] = 0; } }\n", Status.REJECTED, Phase.VERIFY),
    "empty": ("", Status.INVALID_SUBMISSION, Phase.SCREEN),
    "too many blocks": (
        f"// assay: launch relu grid=(1, 70000) block=(256) args=(x, y, n)\n{RIGHT}",
        Status.INVALID_SUBMISSION,
        Phase.LAUNCH,
    ),
}


def graded(toolbox, source, **settings):
    return evaluate(
        Submission(problem="relu", source=source, settings=Settings(**{"verification": "quick", **settings})), toolbox
    )


def test_conditions_on_host_code_are_answered_where_none_runs(toolbox):
    both = graded(toolbox, RIGHT, host_tier="always", min_coverage=0.5, estimate_for=None)
    assert both.status is Status.PASSED
    assert [told.split(" does not apply")[0] for told in both.correctness.warnings] == [
        "settings.host_tier (always)",
        "settings.min_coverage (0.5)",
    ]
    triton = "import triton\n@triton.jit\ndef k(x):\n    pass\ndef run(x, y):\n    k[(1,)](x)\n"
    always = graded(toolbox, triton, host_tier="always")
    assert (always.status, always.phase) == (Status.UNSUPPORTED, Phase.LIFT)
    assert "always), but host code needs a GPU" in always.message
    assert "host tier would run it" not in always.hint


@pytest.mark.parametrize(("source", "status", "phase"), KERNELS.values(), ids=KERNELS)
def test_each_kind_of_kernel_has_its_verdict(source, status, phase, toolbox):
    verdict = graded(toolbox, source, run_timeout_s=2, estimate_for=None)
    assert (verdict.status, verdict.phase) == (status, phase), verdict.message
    assert (verdict.backend, verdict.problem, verdict.timing) == ("sim", "relu", None)
    assert verdict.reward is not None
    if status is Status.PASSED:
        assert verdict.reward.value == pytest.approx(verdict.reward.maximum)
        assert verdict.hint is None
    else:
        assert verdict.reward.value <= 0.5 * verdict.reward.maximum
    ran = phase is Phase.VERIFY
    assert (verdict.correctness is not None) == (verdict.profile is not None) == ran
    assert verdict.compile.succeeded == {Phase.SCREEN: None, Phase.COMPILE: False}.get(phase, True)
    if status is Status.RUNTIME_ERROR:
        assert verdict.correctness.fault.line == 1
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


WRAPPED = {
    "prose and a fence": ("Here is it:\n\n```cuda\n", "```\nIt is fast.\n"),
    "a closed thought, a helper's block, carriage returns": (
        "<think>\nhm\n\f\n</think>\n```cuda\n__device__ int one() { return 1; }\n```\nand\n~~~cuda\n",
        "~~~\n",
    ),
    "prose alone": ("This is the kernel, as you asked:\n\n", "\nIt adds nothing to that.\n"),
}
FAULTS = {
    "compile error": ("y[i] = nothing;", Status.COMPILE_ERROR),
    "missing header": ('#include "nowhere.h"', Status.COMPILE_ERROR),
    "access beyond the end": ("y[i + (1 << 28)] = x[i];", Status.RUNTIME_ERROR),
    "trap": ("__trap();", Status.RUNTIME_ERROR),
    "directive": ("// assay: launch relu grid=(1 +) block=(256) args=(x, y, n)", Status.INVALID_SUBMISSION),
}


@pytest.mark.parametrize("wrapping", WRAPPED)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_line_of_a_fault_is_the_one_in_the_answer_as_it_was_sent(wrapping, fault, toolbox):
    (before, after), (line, status) = WRAPPED[wrapping], FAULTS[fault]
    answer = f"{before}{HEAD}\n\n{line}\n}}\n{after}"
    if "carriage" in wrapping:
        answer = answer.replace("\n", "\r\n")
    verdict = graded(toolbox, answer, estimate_for=None)
    assert verdict.status is status, verdict.message
    named = lines_of(answer).index(line) + 1
    if status is Status.INVALID_SUBMISSION:
        assert f"line {named}" in verdict.message
    else:
        assert line_of(verdict)[0] == named, verdict.message
        shown = html.render(verdict, answer)
        decisive = re.findall(r'class="decisive"><code><span class="no">(\d+)</span>', shown)
        assert decisive == [str(named)]


@pytest.mark.parametrize("name", list(RewardName))
def test_the_reward_is_the_one_that_was_chosen(name, toolbox):
    verdict = graded(toolbox, RIGHT, reward=name)
    assert verdict.reward.name is name
    assert verdict.receipt.settings.reward is name
    if name in (RewardName.COVERAGE, RewardName.SOL):
        assert verdict.reward.value is None
        assert "cannot be measured" in verdict.reward.reason
    else:
        assert 0 < verdict.reward.value <= verdict.reward.maximum


LONG = {
    "a short loop": HEAD + "while (true) y[0] = *(volatile float*)y + 1.0f; }\n",
    "a long loop": HEAD
    + "while (true) {\n#pragma unroll\nfor (int k = 0; k < 2000; k++) ((volatile float*)y)[0] = x[k] / 1.5f; } }\n",
    "calls": "__device__ __noinline__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n"
    + HEAD
    + "y[i] = f(n % 3 + 60); }\n",
    "prints": "#include <cstdio>\n"
    + HEAD
    + 'for (int k = 0; k < 1000000; k++) printf("%f %s\\n", x[0], "flood"); }\n',
    "blocks": "// assay: launch relu grid=(2147483647) block=(32) args=(x, y, n)\n" + RIGHT,
}


@pytest.mark.parametrize("source", LONG.values(), ids=LONG)
def test_the_time_limit_holds(source, toolbox, monkeypatch):
    spent: list[float] = []
    run = SimulatorSession.run

    def measured(self, plan_run):
        outcome = run(self, plan_run)
        spent.append(outcome.own_s)
        return outcome

    monkeypatch.setattr(SimulatorSession, "run", measured)
    verdict = graded(toolbox, source, run_timeout_s=0.3)
    assert verdict.status is Status.TIMEOUT
    # Of its own time; a machine that is busy adds to it. Without a look at the clock it is many seconds.
    assert sum(spent) < 0.3 + 0.7


def test_a_size_that_was_asked_for_is_graded(toolbox):
    verdict = graded(toolbox, RIGHT, sizes={"n": 12347})
    assert [trial.passed for trial in verdict.correctness.trials if trial.sizes == {"n": 12347}] == [True]
    wrong_there = RIGHT.replace("x[i] > 0.0f", "n != 12347 && x[i] > 0.0f")
    verdict = graded(toolbox, wrong_there, sizes={"n": 12347})
    assert verdict.status is Status.INCORRECT
    assert verdict.correctness.trials[-1].sizes == {"n": 12347}


def test_the_receipt_says_what_was_graded(toolbox):
    source = f"// {hashlib.sha256().hexdigest()}\n{RIGHT}"
    first, second = graded(toolbox, source), graded(toolbox, source)
    one, two = first.receipt, second.receipt
    for each in (one, two):
        assert hashlib.sha256(bytes.fromhex(each.seed)).hexdigest() == each.seed_commitment
        assert each.source_sha256 == hashlib.sha256(source.encode()).hexdigest()
        assert each.sandbox == toolbox.sandbox.name
        assert (each.arch, each.toolchain) == ("sm_80", toolbox.toolchain.label)
    assert one.seed != two.seed, "hidden sizes and inputs differ each time"
    assert second.compile.cached
    same = ("ptx_sha256", "canonical_ptx_sha256", "cubin_sha256", "plan_sha256", "settings", "problem_version")
    assert [getattr(one, name) for name in same] == [getattr(two, name) for name in same]
    assert all(len(getattr(one, name)) == 64 for name in same[:3])


def test_what_was_read_from_a_file_is_hashed_as_its_bytes(toolbox):
    raw = b"\xef\xbb\xbf" + RIGHT.replace("\n", "\r\n").encode()
    verdict = evaluate(Submission(problem="relu", source=raw.decode()), toolbox, raw)
    assert verdict.receipt.source_sha256 == hashlib.sha256(raw).hexdigest()


def test_progress_goes_through_the_phases_in_order(toolbox):
    heard = []
    evaluate(
        Submission(problem="relu", source=RIGHT, settings=Settings(verification="quick")),
        toolbox,
        progress=heard.append,
    )
    phases = list(dict.fromkeys(event.phase for event in heard))
    assert phases == ["screen", "compile", "launch", "verify"]


@pytest.mark.parametrize("changes", [{"problem": "rleu"}, {"backend": "gpu"}])
def test_what_the_caller_got_wrong_is_no_verdict(changes, toolbox):
    with pytest.raises(UsageError) as caught:
        evaluate(Submission(**{"problem": "relu", "source": RIGHT, **changes}), toolbox)
    assert caught.value.remedy


# ---- our own failures ----


def broken(tmp_path: Path) -> Toolbox:
    return Toolbox(MachineSettings(tmp_path / "data"))


def with_the_suites_cache(tmp_path: Path) -> Toolbox:
    """With a sandbox of its own; nothing of the simulator is compiled anew."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cache").symlink_to(Path(__file__).parents[3] / ".assay" / "tests" / "cache")
    return broken(tmp_path)


def never_compiled(tmp_path: Path) -> str:
    return f"// {tmp_path}\n" + RIGHT.replace("0.0f;", f"0.0f * {abs(hash(str(tmp_path))) % 9973 + 1}.0f;")


def assert_ours(verdict: Verdict, phase: Phase) -> None:
    assert (verdict.status, verdict.phase) == (Status.INTERNAL_ERROR, phase), verdict.message
    assert verdict.reward is None
    assert verdict.hint
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


def test_a_data_folder_that_cannot_be_made_is_ours(tmp_path):
    (tmp_path / "data").write_text("a file is here")
    assert_ours(graded(broken(tmp_path), RIGHT), Phase.SCREEN)


def test_a_work_folder_that_vanishes_is_made_again_and_where_it_cannot_be_it_is_ours(tmp_path):
    toolbox, source = with_the_suites_cache(tmp_path), never_compiled(tmp_path)
    work = tmp_path / "data" / "work"
    assert toolbox.sandbox.name
    work.rename(tmp_path / "elsewhere")
    work.touch()
    assert_ours(graded(toolbox, source), Phase.COMPILE)
    work.unlink()
    assert graded(toolbox, source).status is Status.PASSED


def test_a_host_compiler_that_does_not_work_is_ours(tmp_path, toolbox):
    """The simulator's own compiler is /bin/false; nvcc's is not."""
    other = broken(tmp_path)
    other.simulator = Simulator(other.sandbox, other.cache, Path("/bin/false"))
    verdict = graded(other, RIGHT)
    assert_ours(verdict, Phase.VERIFY)
    assert "/bin/false" in verdict.message


def test_an_nvcc_that_does_not_work_is_ours(tmp_path, toolbox):
    other = broken(tmp_path)
    other.toolchain = replace(toolbox.toolchain, nvcc=Path("/bin/false"), digest="of a broken one")
    assert_ours(graded(other, RIGHT), Phase.COMPILE)


def test_one_toolbox_serves_after_a_failure(tmp_path):
    toolbox, fresh = with_the_suites_cache(tmp_path), never_compiled(tmp_path)
    toolbox.sandbox = ProcessSandbox(tmp_path / "data" / "work")
    (tmp_path / "data" / "work").rename(tmp_path / "elsewhere")
    (tmp_path / "data" / "work").touch()
    assert graded(toolbox, fresh).status is Status.INTERNAL_ERROR
    (tmp_path / "data" / "work").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "data" / "work")
    assert graded(toolbox, fresh).status is Status.PASSED


def test_a_mistake_of_our_own_is_an_internal_error_without_a_reward(toolbox, monkeypatch):
    def broken(*_: object) -> None:
        raise KeyError("nobody foresaw this")

    monkeypatch.setattr(Simulator, "prepare", broken)
    verdict = graded(toolbox, RIGHT)
    assert (verdict.status, verdict.reward) == (Status.INTERNAL_ERROR, None)
    assert "mistake in Assay itself: KeyError: 'nobody foresaw this' (test_pipeline.py:" in verdict.message


def test_a_wrong_request_stays_the_callers_mistake(toolbox):
    with pytest.raises(UsageError):
        graded(toolbox, RIGHT, sizes={"nothing": 1})
    with pytest.raises(UsageError, match="out of range"):  # before the compiler says what it is
        graded(toolbox, "no CUDA", sizes={"n": 1 << 30})
