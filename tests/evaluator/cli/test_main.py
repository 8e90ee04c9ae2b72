"""The command's own logic, in this process; tests/e2e runs the installed one."""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from common.client import Client, RequestRefusedError
from common.contract import ProblemFace, Status, Verdict
from evaluator.cli import arguments, demo, main, remote, service
from evaluator.cli.console import EXIT_INTERNAL, EXIT_OTHER, EXIT_USAGE
from evaluator.errors import InfrastructureError, UsageError
from evaluator.installation import install_command
from evaluator.pipeline import pipeline
from evaluator.pipeline import reproduce as reproducing
from evaluator.problems import linter
from evaluator.problems.catalogue import problems

NAIVE = problems()["relu"].naive.source


@pytest.fixture
def run(tmp_path, monkeypatch, toolbox):
    monkeypatch.setenv("ASSAY_DATA_DIR", str(toolbox.settings.data_dir))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return lambda *arguments, **more: CliRunner().invoke(main.main, list(map(str, arguments)), **more)


def test_every_problem_has_a_starter_that_names_its_output_as_unwritten(run, tmp_path):
    ended = run("problems", "relu", "--starter")
    assert ended.stdout.startswith("// problem: relu\n")
    assert ended.exit_code == 0
    graded = run("grade", "-", "--problem", "relu", "--json", input=ended.stdout)
    verdict = Verdict.model_validate_json(graded.stdout)
    assert graded.exit_code == EXIT_OTHER
    assert verdict.status == "incorrect"


@pytest.mark.parametrize("problem", problems())
def test_a_starter_says_in_its_first_line_what_it_is_for(problem, run):
    starter = run("problems", problem, "--starter").stdout
    assert starter.startswith(f"// problem: {problem}\n")
    assert arguments.problem_of(None, starter.encode(), Path("k.cu")) == problem


def test_a_starter_is_graded_without_saying_its_problem_again(run, tmp_path):
    (tmp_path / "k.cu").write_text(run("problems", "softmax", "--starter").stdout)
    verdict = Verdict.model_validate_json(run("grade", "k.cu", "--json").stdout)
    assert (verdict.problem, verdict.status) == ("softmax", "incorrect")


def test_an_option_that_contradicts_the_first_line_is_refused(run, monkeypatch):
    monkeypatch.setattr(pipeline, "evaluate", lambda *_: pytest.fail("was graded"))
    ended = run("grade", "-", "--problem", "gelu", input=f"// problem: relu\n{NAIVE}")
    assert ended.exit_code == EXIT_USAGE
    assert "--problem says gelu, and the first line of - says relu." in ended.stderr


def test_a_first_line_beside_an_expression_is_to_be_deleted(run):
    ended = run("grade", "-", "--torch", "torch.relu(x)", "--shape", "x=1000", input=f"// problem: relu\n{NAIVE}")
    assert ended.exit_code == EXIT_USAGE
    assert "Delete that line to grade for --torch, or leave --torch out." in ended.stderr


def test_diff_says_that_it_knows_no_problem_of_others(run, tmp_path):
    for name in ("a.cu", "b.cu"):
        (tmp_path / name).write_text(NAIVE)
    ended = run("diff", "a.cu", "b.cu", "--problem", "kernelbench:../ref.py")
    assert ended.exit_code == EXIT_USAGE
    assert (
        "`assay diff` compares for problems of Assay's own, and kernelbench:../ref.py is one of others"
        in ended.stderr
    )


def test_a_receipt_is_named_as_a_report_is(run, tmp_path):
    (tmp_path / "k.cu").write_text("// problem: relu\nnothing\n")
    assert run("grade", "k.cu", "--receipt", "made.json").stdout.endswith("\nreceipt: made.json\n")
    Verdict.model_validate_json(run("grade", "k.cu", "--receipt", "made.json", "--json").stdout)


def test_an_option_that_says_the_same_or_a_line_further_down_is_no_contradiction(run):
    for first in ("// problem: relu", "int x;\n// problem: gelu", "/*\n// problem: gelu\n*/"):
        ended = run("grade", "-", "--problem", "relu", "--json", input=f"{first}\n{NAIVE}")
        assert json.loads(ended.stdout)["problem"] == "relu"


@pytest.mark.parametrize("problem", problems())
def test_a_problem_is_shown_as_text_and_as_json(problem, run):
    card = run("problems", problem)
    assert card.exit_code == 0
    assert problem in card.stdout
    face = ProblemFace.model_validate_json(run("problems", problem, "--json").stdout)
    assert face == problems()[problem].face


def test_the_list_of_problems_names_each(run):
    table = run("problems").stdout
    assert all(name in table for name in problems())
    assert [each["id"] for each in json.loads(run("problems", "--json").stdout)] == list(problems())


@pytest.mark.parametrize(
    "first",
    [
        "// problem: relu",
        "  // problem: relu  ",
        "\n\n// problem: relu",
        "// problem:relu",
        "```\n// problem: relu",
        "# problem: relu",
    ],
)
def test_a_first_comment_names_the_problem(first, run):
    ended = run("grade", "-", "--json", input=f"{first}\n{NAIVE}")
    assert json.loads(ended.stdout)["problem"] == "relu"


@pytest.mark.parametrize("first", ["", "int x; // problem: relu", "/* // problem: relu */", '"// problem: relu"'])
def test_only_a_first_comment_does(first, run):
    ended = run("grade", "-", "--json", input=f"{first}\n{NAIVE}")
    assert ended.exit_code == EXIT_USAGE
    assert "Which problem?" in ended.stderr


def test_a_plan_from_a_file(run, tmp_path):
    kernel = "__global__ void f(float* y, const float* x, int n) { for (int i = threadIdx.x; i < n; i += 32) "
    kernel += "y[i] = fmaxf(x[i], 0.0f); }"
    step = {"kind": "launch", "kernel": "f", "grid": [1], "block": [32], "args": ["y", "x", "n"]}
    (tmp_path / "plan.json").write_text(json.dumps({"steps": [step]}))
    ended = run("grade", "-", "--problem", "relu", "--plan", "plan.json", "--json", input=kernel)
    verdict = Verdict.model_validate_json(ended.stdout)
    assert verdict.status == "passed", verdict.message
    assert verdict.correctness.plan_source == "json"
    assert verdict.receipt.plan_sha256


def test_options_reach_the_settings(run):
    ended = run(
        *("grade", "-", "--problem", "relu", "--json", "--size", "n=77", "--timeout", "5", "--compile-timeout", "20"),
        *("--arch", "sm_80", "--flag=--use_fast_math", "--reward", "gated", "--target-speedup", "3"),
        *("--timing-precision", "0.002"),
        input=NAIVE,
    )
    settings = Verdict.model_validate_json(ended.stdout).receipt.settings
    assert settings.sizes == {"n": 77}
    assert (settings.run_timeout_s, settings.compile_timeout_s, settings.target_speedup) == (5, 20, 3)
    assert settings.timing_precision == 0.002
    assert (settings.arch, settings.flags, settings.reward) == ("sm_80", ("--use_fast_math",), "gated")


def test_a_report_goes_into_a_folder_that_is_made(run, tmp_path):
    ended = run("grade", "-", "--problem", "relu", "--report", "deep/er/report.html", input=NAIVE)
    assert ended.exit_code == 0
    assert "report: deep/er/report.html" in ended.stdout
    assert (tmp_path / "deep/er/report.html").read_text().startswith("<!doctype html>")


def test_a_mistake_of_ours_is_neither_a_traceback_nor_a_bad_submission(run, monkeypatch):
    def fails(*arguments, **more):
        raise KeyError("n\x1b[31m")

    monkeypatch.setattr(pipeline, "evaluate", fails)
    ended = run("grade", "-", "--problem", "relu", "--json", input=NAIVE)
    assert ended.exit_code == EXIT_INTERNAL
    verdict = Verdict.model_validate_json(ended.stdout)
    assert (verdict.status, verdict.reward) == (Status.INTERNAL_ERROR, None)
    assert "KeyError" in verdict.message
    assert "test_main.py" in verdict.message
    assert "Traceback" not in ended.stdout + ended.stderr
    assert "\x1b" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("name", ["", "-", "/proc/none/report.html", "."])
def test_a_report_that_cannot_be_written_is_noticed_before_the_work(name, run, monkeypatch):
    monkeypatch.setattr(pipeline, "evaluate", lambda *_: pytest.fail("was graded"))
    ended = run("grade", "-", "--problem", "relu", "--report", name, input=NAIVE)
    assert ended.exit_code == EXIT_USAGE
    assert "report" in ended.stderr


def test_a_reproduction_that_cannot_be_written_costs_neither_the_verdict_nor_the_report(run, tmp_path, monkeypatch):
    def too_large(*_):
        raise UsageError("Too many elements.", "Look longer.")

    monkeypatch.setattr(reproducing, "why_none", lambda _: None)
    monkeypatch.setattr(reproducing, "reproduce", too_large)
    ended = run("grade", "-", "--problem", "relu", "--repro", "r.cu", "--report", "r.html", input=NAIVE)
    assert ended.exit_code == 0
    assert "r.cu is not written: Too many elements. Look longer." in ended.stderr
    assert (tmp_path / "r.html").exists()


def test_utf_16_is_called_by_its_name(run):
    ended = run("grade", "-", input=f"// problem: relu\n{NAIVE}".encode("utf-16"))
    assert ended.exit_code == EXIT_USAGE
    assert "UTF-16" in ended.stderr
    assert "Save it as UTF-8" in ended.stderr


def test_a_wrong_plan_is_told_in_plain_words(run, tmp_path):
    launch = {"kind": "launch", "kernel": "k", "grid": ["n"], "block": ["2 56!"], "args": ["x"], "foo": 1}
    steps = [launch, {"kind": "x"}]
    (tmp_path / "plan.json").write_text(json.dumps({"steps": steps}))
    ended = run("grade", "-", "--problem", "relu", "--plan", "plan.json", input=NAIVE)
    assert ended.exit_code == EXIT_USAGE
    assert "steps[0].foo is not known here" in ended.stderr
    assert "steps[1] has a kind 'x', and it must be one of" in ended.stderr
    for raw in ("constrained", "String should", "pattern", "Input"):
        assert raw not in ended.stderr


def test_where_a_service_wants_a_key_verify_names_its_own_option(run, monkeypatch):
    def refuse(client, evaluation_id):
        raise RequestRefusedError("401", "Set ASSAY_KEY to a key that is valid there.", 401)

    monkeypatch.setattr(Client, "get", refuse)
    ended = run("verify", "http://127.0.0.1:9/evaluations/ev_pJ2dq0Nf3mVt1yRkWz8sLA")
    assert ended.exit_code == EXIT_USAGE
    assert "--server-key" in ended.stderr


def test_an_architecture_that_is_none_is_told_what_one_looks_like(run):
    ended = run("grade", "-", "--problem", "relu", "--arch", "80", input=NAIVE)
    assert ended.exit_code == EXIT_USAGE
    assert "arch is '80': it must be an architecture such as sm_80 or sm_90a." in " ".join(ended.stderr.split())


def test_control_characters_and_endless_names_do_not_reach_the_terminal(run):
    ended = run("problems", "\x1b[31m" + "v" * 100_000)
    assert ended.exit_code == EXIT_USAGE
    assert "\x1b" not in ended.stderr
    assert len(ended.stderr) < 3000


def test_the_launch_plan_of_the_documents_in_json_runs_their_kernels(run, tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "launch-plans.md").read_text()
    source, plan = (re.search(rf"```{kind}\n(.*?)```", page, re.S)[1] for kind in ("cuda", "json"))
    assert {step["kind"] for step in json.loads(plan)["steps"]} == {"copy", "fill", "launch"}
    (tmp_path / "plan.json").write_text(plan)
    kernels = "\n".join(line for line in source.splitlines() if "// assay:" not in line)
    ended = run("grade", "-", "--json", "--plan", "plan.json", input=kernels)
    assert ended.exit_code == 0, ended.stdout + ended.stderr


@pytest.fixture
def one_example(tmp_path, monkeypatch):
    folder = tmp_path / "examples"
    folder.mkdir()
    (folder / "naive.cu").write_text(f"// problem: relu\n{NAIVE}")
    monkeypatch.setattr(demo, "_EXAMPLES", (folder,))


def test_a_demo_without_the_libraries_of_a_service_says_so_and_is_complete(run, tmp_path, monkeypatch, one_example):
    monkeypatch.setattr(service, "_LIBRARIES", ("click", "no_such_library"))
    monkeypatch.setattr(remote, "local_service", lambda *_: pytest.fail("a service that cannot start was started"))
    ended = run("demo")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert "Graded 1 kernels" in ended.stdout
    assert f"Report:    {tmp_path / 'assay-report.html'}" in ended.stdout
    assert "a service needs no_such_library." in ended.stdout
    assert install_command("service") in ended.stdout
    assert "assay serve" not in ended.stdout
    assert "curl" not in ended.stdout
    assert (tmp_path / "assay-report.html").read_text().startswith("<!doctype html>")


def test_a_demo_whose_service_does_not_start_has_given_its_report(run, tmp_path, monkeypatch, one_example):
    class Broken:
        def address(self):
            raise InfrastructureError("The service did not start: the port is taken")

    @contextlib.contextmanager
    def broken_service(sandbox):
        yield Broken()

    monkeypatch.setattr(remote, "local_service", broken_service)
    ended = run("demo")
    assert ended.exit_code == EXIT_INTERNAL
    assert f"Report:    {tmp_path / 'assay-report.html'}" in ended.stdout
    assert "The service did not start: the port is taken" in ended.stderr


HEAVY = ("numpy", "pydantic", "rich", "evaluator.backends", "evaluator.pipeline", "evaluator.problems")


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["problems", "--help"], ["nonsense"]])
def test_help_imports_nothing_that_takes_long(command):
    script = (
        "import sys\nfrom evaluator.cli.main import main\ntry:\n    main(sys.argv[1:])\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)"
    )
    # A variable ASSAY_… is looked up in the settings, which bring pydantic.
    bare = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    ended = subprocess.run(
        [sys.executable, "-c", script, *command], capture_output=True, text=True, check=False, env=bare
    )
    imported = set(ended.stderr.split())
    assert "evaluator.cli.main" in imported
    assert imported.isdisjoint(HEAVY)


def test_each_command_is_there_and_its_first_sentence_is_the_groups():
    context = click.Context(main.main)
    assert list(main.SHORT_HELP) == main.main.list_commands(context) == sorted(main.COMMANDS)
    for name, told in main.SHORT_HELP.items():
        assert main.main.get_command(context, name).get_short_help_str(limit=1000) == told


def test_help_names_every_command(run):
    told = run("--help").stdout
    assert all(f"  {name}  " in told for name in main.COMMANDS)
    assert "No such command 'nonsense'" in run("nonsense").stderr


def test_problems_are_checked_by_the_linter(run, monkeypatch):
    assert run("problems", "relu", "--check").output == "ok    relu\n"
    monkeypatch.setattr(linter, "lint", lambda problem: ("the oracle is wrong",) * (problem.id == "relu"))
    ended = run("problems", "--check")
    assert ended.exit_code == EXIT_OTHER
    assert "FAIL  relu\n      the oracle is wrong\n" in ended.output
    assert ended.output.count("ok    ") == len(problems()) - 1
    assert run("problems", "relu", "--check", "--json").exit_code == EXIT_USAGE


def test_the_page_about_grading_has_every_option():
    page = (Path(__file__).parents[3] / "docs" / "grading.md").read_text(encoding="utf-8")
    options = page[page.index("## Options") : page.index("## The report")]
    named = set(re.findall(r"--[a-z-]+", options))
    known = {
        name for one in main.main.get_command(None, "grade").params for name in one.opts if name.startswith("--")
    }
    assert known <= named
    assert {name for row in options.splitlines() for name in re.findall(r"^\| `(--[a-z-]+)", row)} <= known
