"""Two versions of a kernel: what changed, in numbers and line by line, on the simulator's own counts."""

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from sample_verdicts import passed_on_gpu

from common.contract import HostRun, Settings, Status, Submission
from evaluator.cli import diff
from evaluator.cli.main import main
from evaluator.diff.compare import Quantity, _lines, compare, grade_both
from evaluator.diff.render import change, diff_card, diff_page
from evaluator.pipeline import pipeline
from evaluator.problems.catalogue import find_problem

STRIDED = """// problem: transpose
// assay: launch transpose grid=(ceil_div(rows * cols, 256)) block=(256) args=(x, y, rows, cols)
__global__ void transpose(const float* x, float* y, int rows, int cols)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < rows * cols)
        y[i] = x[i % rows * cols + i / rows];
}
"""
SCATTERED = STRIDED.replace("y[i] = x[i % rows * cols + i / rows];", "y[i % cols * rows + i / cols] = x[i];")
WRONG = STRIDED.replace("i < rows * cols", "i < rows * cols - 1")
HOSTILE = STRIDED.replace("{\n", "{  // <script>alert(1)</script> \x1b[31m \u202e [red]\n", 1)


@pytest.fixture(scope="module")
def difference(toolbox):
    sources = (STRIDED, SCATTERED)
    submissions = [
        Submission(problem="transpose", source=source, settings=Settings(verification="quick")) for source in sources
    ]
    verdicts = grade_both(submissions, [source.encode() for source in sources], toolbox, lambda text: None)
    assert [verdict.status for verdict in verdicts] == [Status.PASSED, Status.PASSED]
    trials = [[trial.sizes for trial in verdict.correctness.trials] for verdict in verdicts]
    assert trials[0] == trials[1], "both meet the same trials"
    return compare(("a.cu", STRIDED, verdicts[0]), ("b.cu", SCATTERED, verdicts[1]))


def quantity(difference, name):
    return next(one for one in difference.quantities if one.name == name)


def test_the_line_that_changed_stands_beside_what_it_costs(difference):
    (changed,) = [pair for pair in difference.lines if pair.kind != "same"]
    assert changed.kind == "changed"
    assert (changed.before.number, changed.after.number) == (7, 7)
    elements = difference.counted_at["rows"] * difference.counted_at["cols"]
    # One of the two accesses is coalesced (8 elements a sector), the other touches a sector for each element.
    assert changed.before.counts["sectors"] == changed.after.counts["sectors"] == elements + elements // 8
    assert changed.before.counts["instructions"] > 0
    sectors = quantity(difference, "sectors")
    assert sectors.before == sectors.after == elements + elements // 8
    assert sectors.outcome == "same"


def test_what_is_needed_and_reached_is_compared(difference):
    assert quantity(difference, "registers").before >= 8
    assert quantity(difference, "occupancy").after == 1
    assert quantity(difference, "useful bytes").before == pytest.approx(2 / 9, rel=1e-3)
    assert "measured time" not in {one.name for one in difference.quantities}


def test_its_json_holds_everything(difference):
    told = json.loads(difference.to_json())
    assert told["problem"] == "transpose"
    assert told["before"]["status"] == told["after"]["status"] == "passed"
    assert len(told["lines"]) == len(STRIDED.splitlines())
    assert {"name", "unit", "before", "after", "better"} == set(told["quantities"][0])


def test_a_terminal_shows_numbers_and_lines(difference):
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(diff_card(difference))
    text = console.export_text()
    assert "sectors per request" in text
    assert "+         y[i % cols * rows + i / cols] = x[i];" in text
    assert "294,912" in text


def test_a_page_lets_nothing_of_the_sources_act(toolbox):
    verdicts = grade_both(
        [Submission(problem="transpose", source=HOSTILE, settings=Settings(verification="quick"))] * 2,
        [HOSTILE.encode()] * 2,
        toolbox,
        lambda text: None,
    )
    told = compare(("a<b>.cu", HOSTILE, verdicts[0]), ("b.cu", STRIDED, verdicts[1]))
    shown = diff_page(told)
    assert "<script" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "a&lt;b&gt;.cu" in shown
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(diff_card(told))
    assert "\x1b" not in console.export_text()


@pytest.mark.parametrize(
    ("before", "after", "better", "outcome", "words"),
    [
        (4, 1, "less", "better", "x0.25 better"),
        (1, 4, "less", "worse", "x4 worse"),
        (0, 4, "less", "worse", "+4 worse"),
        (0.5, 1, "more", "better", "x2 better"),
        (2, 1, "neither", "other", "x0.5"),
        (1, 1.0001, "less", "same", ""),
        (None, 1, "less", "unknown", ""),
        (0, 0, "less", "same", ""),
    ],
)
def test_what_a_change_is_worth(before, after, better, outcome, words):
    one = Quantity("q", "", before, after, better)
    assert one.outcome == outcome
    assert change(one) == words


TEXTS = st.lists(st.sampled_from(["a();", "b();", "  a();", "int i = 1;", "int i = 2;", "}"]), max_size=12)


@given(TEXTS, TEXTS)
def test_every_line_of_both_stands_in_the_difference_once_and_in_order(before, after):
    pairs = list(_lines("\n".join(before), "\n".join(after), {}, {}))
    assert [pair.before.number for pair in pairs if pair.before] == list(
        range(1, len("\n".join(before).splitlines()) + 1)
    )
    assert [pair.after.number for pair in pairs if pair.after] == list(
        range(1, len("\n".join(after).splitlines()) + 1)
    )
    for pair in pairs:
        assert (pair.before is None) == (pair.kind == "added")
        assert (pair.after is None) == (pair.kind == "removed")
        if pair.kind == "same":
            assert pair.before.text.strip() == pair.after.text.strip()


# ---- the command ----


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {"a.cu": STRIDED, "b.cu": SCATTERED, "wrong.cu": WRONG, "none.cu": "int x;"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "relu.cu").write_text(STRIDED.replace("problem: transpose", "problem: relu"))
    return lambda *arguments: CliRunner().invoke(main, ["diff", *arguments])


def test_the_command_compares_a_wrong_one_with_a_right_one(run, tmp_path):
    result = run("wrong.cu", "a.cu", "--report", "out.html", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert [told["before"]["status"], told["after"]["status"]] == ["incorrect", "passed"]
    assert told["counted_at"] is None
    assert "never written" in told["before"]["message"]
    assert "Not counted line by line" in (tmp_path / "out.html").read_text()


def test_a_compilers_message_names_the_version_that_it_is_about(run, tmp_path):
    (tmp_path / "broken.cu").write_text("// problem: transpose\nhello\n")
    told = json.loads(run("broken.cu", "none.cu", "--problem", "transpose", "--json").output)
    assert told["before"]["message"].startswith("broken.cu:2: ")


def test_the_problem_of_both_is_looked_up_once(run, monkeypatch):
    looked_up = []

    def counted(problem_id):
        looked_up.append(problem_id)
        return find_problem(problem_id)

    for module in (diff, pipeline):
        monkeypatch.setattr(module, "find_problem", counted)
    assert run("wrong.cu", "a.cu", "--json").exit_code == 0
    assert looked_up == ["transpose"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a.cu", "a.cu"), "named twice"),
        (("a.cu", "missing.cu"), "missing.cu does not exist"),
        (("none.cu", "none.cu", "--problem"), "requires an argument"),
        (("none.cu", "a.cu", "--problem", "nonsense"), "nonsense"),
        (("a.cu", "relu.cu"), "a.cu is for transpose and relu.cu for relu"),
        (("a.cu", "b.cu", "--report", "b.cu"), "would overwrite b.cu"),
        (("a.cu", "."), "is a folder"),
    ],
)
def test_what_cannot_be_compared_is_said(run, arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


def test_two_files_that_name_no_problem_ask_for_one(run, tmp_path):
    (tmp_path / "other.cu").write_text("int y;")
    result = run("none.cu", "other.cu")
    assert result.exit_code == 2
    assert "Which problem?" in result.output


def test_times_of_two_tiers_are_not_compared():
    kernels = passed_on_gpu()
    timing = kernels.timing.model_copy(update={"clock": "referee", "null_us": 100.0, "resolution_us": 1.0})
    ran = HostRun(entry="ModelNew.forward(x)", why="it calls an operator")
    compilation = kernels.compile.model_copy(update={"tier": "host", "host": ran})
    host = kernels.model_copy(update={"timing": timing, "compile": compilation})
    found = compare(("one", "x", kernels), ("other", "x", host))
    times = {one.name: (one.before, one.after) for one in found.quantities if one.name.startswith("measured time")}
    latency_us = kernels.timing.latency_us
    assert times == {
        "measured time": (latency_us, None),
        "measured time, host code included": (None, latency_us),
    }
    assert found.after.message.endswith("Its host code ran (ModelNew.forward(x)).")
