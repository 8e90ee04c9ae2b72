import io
import unicodedata

import pytest
from rich.cells import cell_len
from rich.console import Console
from sample_verdicts import (
    ALL,
    HOSTILE,
    SOURCE,
    compile_error,
    hostile,
    incorrect,
    passed,
    passed_on_gpu,
    runtime_error,
)

from common.contract import Generalisation
from evaluator.problems.catalogue import problems
from evaluator.report import html
from evaluator.report.terminal import line_of, printable, problem_card, problem_table, verdict_card


def shown(renderable, width=80, **options):
    out = io.StringIO()
    Console(file=out, width=width, **options).print(renderable)
    return out.getvalue()


def flat(text):
    """The card's text without borders and line breaks."""
    return " ".join(" ".join(line.strip("│╭╮╰╯─ ") for line in text.splitlines()).split())


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample.__name__)
def test_every_verdict_fits_the_terminal(sample, width):
    verdict = sample()
    text = shown(verdict_card(verdict, SOURCE, "kernel.cu"), width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert verdict.status in text
    assert flat(printable(verdict.message)).replace(" ", "") in flat(text).replace(" ", "")
    if verdict.hint:
        assert "Hint:" in text


@pytest.mark.parametrize(
    ("sample", "where"),
    [
        (compile_error, "in phase compile"),
        (runtime_error, "in phase verify, on the simulator"),
        (passed_on_gpu, "on a GPU"),
    ],
)
def test_a_backend_is_named_where_it_had_a_part(sample, where):
    verdict = sample()
    card, page = flat(shown(verdict_card(verdict, SOURCE))), html.render(verdict, SOURCE)
    for text in (card, page):
        assert where in text
        assert ("on the simulator" in text.split("in phase", 1)[1][:40]) is ("simulator" in where)


def test_a_compile_error_points_at_the_column():
    lines = shown(verdict_card(compile_error(), SOURCE)).splitlines()
    quoted = next(i for i, line in enumerate(lines) if "sum += x[blockIdx.x" in line)
    # Column 16 of the line, "x" of x[...]: the character above the caret.
    assert lines[quoted][lines[quoted + 1].index("^")] == SOURCE.splitlines()[9][15]


def test_a_fault_marks_its_whole_line():
    lines = shown(verdict_card(runtime_error(), SOURCE)).splitlines()
    quoted = next(i for i, line in enumerate(lines) if "sum += x[blockIdx.x" in line)
    assert lines[quoted + 1].count("^") == len("sum += x[blockIdx.x * cols + j];")
    assert line_of(runtime_error()) == (10, None)


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("unicode", [True, False])
def test_a_caret_stays_under_its_culprit_in_a_line_that_is_too_long(width, unicode):
    plan = f"// assay: launch {'long_name_' * 6} grid=(ceil_div(n, 256)) blok=(256) args=(x, y, n) // {'日本' * 9}"
    message = f"line 2: unknown key 'blok'\n    {plan}\n    {' ' * plan.index('blok')}^"
    told = compile_error().model_copy(update={"message": message})
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8" if unicode else "ascii")
    Console(file=out, width=width).print(verdict_card(told, SOURCE))
    out.seek(0)
    lines = out.read().splitlines()
    under = next(line for line in lines if line.strip("│| ") == "^")
    quoted = lines[lines.index(under) - 1]
    assert quoted[under.index("^") :].startswith("blok")
    assert max(map(cell_len, lines)) <= width


def test_a_compile_error_names_the_file_that_was_given():
    verdict = compile_error()
    assert "kernel.cu:" in verdict.message
    card = flat(shown(verdict_card(verdict, SOURCE, "src/row sum.cu"), 120))
    assert f"src/row sum.cu:{verdict.message.partition('kernel.cu:')[2].splitlines()[0]}" in card
    assert "kernel.cu" not in card
    assert "kernel.cu:" in flat(shown(verdict_card(verdict, SOURCE, "-"), 120))
    assert "row sum.cu:10" in html.render(verdict, SOURCE, "row sum.cu")
    assert "kernel.cu:10" in html.render(verdict, SOURCE)
    python = verdict.model_copy(update={"message": "kernel.py:9: invalid syntax"})
    assert "mine.py:9: invalid syntax" in flat(shown(verdict_card(python, SOURCE, "mine.py"), 120))


def test_what_it_means_that_a_size_was_left_out_is_said_where_it_is_told():
    verdict = passed()
    seen = verdict.correctness.model_copy(update={"left_out": ("n=16777216: it takes too long",)})
    verdict = verdict.model_copy(update={"correctness": seen})
    for text in (flat(shown(verdict_card(verdict, SOURCE), 120)), html.render(verdict, SOURCE)):
        assert "ot judged at n=16777216" in text
        assert "counts neither for the kernel nor against it" in text


def test_of_other_sizes_those_where_it_is_wrong_are_named():
    verdict = passed()
    found = Generalisation(passed=False, sizes=({"n": 66}, {"n": 12}), message="y[0] was never written")
    correctness = verdict.correctness.model_copy(update={"generalisation": found})
    verdict = verdict.model_copy(update={"correctness": correctness})
    assert "at other sizes: wrong (n=12)" in flat(shown(verdict_card(verdict, SOURCE)))
    assert "asked for: n = 12." in html.render(verdict, SOURCE)


def test_how_a_kernel_without_a_plan_was_launched_is_told():
    verdict = passed()
    bound = "x, total, n bound by name; 1 block of 256 threads"
    for source, told in (("inferred", True), ("directives", False)):
        seen = verdict.correctness.model_copy(update={"plan_source": source, "binding": bound})
        card = flat(shown(verdict_card(verdict.model_copy(update={"correctness": seen}), SOURCE), 120))
        assert (f"no launch plan: {bound}" in card) == told


def test_a_line_that_the_source_does_not_have_is_not_quoted():
    assert "^" not in shown(verdict_card(runtime_error(), "one line\n"))
    assert "^" not in shown(verdict_card(runtime_error(), ""))


def test_what_was_measured_is_told():
    text = flat(shown(verdict_card(incorrect(), SOURCE)))
    assert "y[1011, 480] is nan, expected -12.5078125" in text
    assert "1 of 6 passed" in text
    text = flat(shown(verdict_card(passed(), SOURCE)))
    assert "block_sums: 24 registers, occupancy 100% (limited by threads)" in text
    assert "1 of 1 (weighted): correct +0.75, compiled +0.25; not measured here: 2 of 5 terms" in text
    text = flat(shown(verdict_card(passed_on_gpu(), SOURCE)))
    assert "1.62x (95% interval 1.55 to 1.69): 18.4 us, against 29.8 us of PyTorch 2.11.0 eager" in text
    assert "55% of the speed of light; 60 launches, pooled over 2 evaluations" in text
    assert "clocks held down: power cap" in text
    assert "128 bytes of spills" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_hostile_text_is_shown_and_not_interpreted(width):
    text = shown(
        verdict_card(hostile(), HOSTILE + "\n" * 9, HOSTILE), width, force_terminal=True, color_system="truecolor"
    )
    assert "\x1b]0;" not in text
    assert "\x1b[31mred" not in text
    assert "\u202e" not in text
    assert "\x07" not in text
    # What is left after rich's own colour codes holds no control character at all.
    plain = shown(verdict_card(hostile(), HOSTILE + "\n" * 9, HOSTILE), width)
    assert not [c for c in plain if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c != "\n"]
    assert "[bold]markup[/bold]" in flat(plain).replace(" ", "")
    assert r"\x1b[31mred" in flat(plain).replace(" ", "")


def test_colour_only_on_a_terminal_that_wants_it(monkeypatch):
    coloured = shown(verdict_card(passed(), SOURCE), force_terminal=True, color_system="standard")
    assert "\x1b[32m" in coloured
    assert "\x1b" not in shown(verdict_card(passed(), SOURCE))
    monkeypatch.setenv("NO_COLOR", "1")
    quiet = shown(verdict_card(passed(), SOURCE), force_terminal=True)
    assert not any(f"\x1b[{code}m" in quiet for code in (31, 32, 33, "1;32"))


def test_a_terminal_without_unicode_gets_ascii():
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    console = Console(file=out, width=60)
    for sample in ALL:
        console.print(verdict_card(sample(), SOURCE, "schön.cu"))
    faces = [problem.face for problem in problems().values()]
    console.print(problem_table(faces), *map(problem_card, faces))
    out.seek(0)
    text = out.read()
    assert "+ passed" in text
    assert r"sch\xf6n.cu" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("a\x1b[0m", r"a\x1b[0m"),
        ("a\rb", r"a\x0db"),
        ("a\r\nb", "a\nb"),
        ("\u202e\u200b\ufeff", r"\u202e\u200b\ufeff"),
        ("\x9b31m", r"\x9b31m"),
        ("grün [red]", "grün [red]"),
    ],
)
def test_unseen_characters_are_written_out(text, expected):
    assert printable(text) == expected


@pytest.mark.parametrize("width", [40, 80])
def test_problems_are_shown_with_all_a_kernel_author_needs(width):
    faces = [problem.face for problem in problems().values()]
    table = shown(problem_table(faces), width)
    for face in faces:
        assert face.id in table
        text = flat(shown(problem_card(face), width)).replace(" ", "")
        for tensor in (*face.inputs, *face.outputs):
            assert f"{tensor.name}[{','.join(tensor.shape)}]".replace(" ", "") in text
        assert face.tolerance.replace(" ", "") in text
        assert face.serves.replace(" ", "") in text
        assert "".join(face.starter.split()) in text
    assert max(cell_len(line) for line in table.splitlines()) <= width


def test_a_warning_is_shown_to_its_end():
    verdict = passed()
    decisive = f"at its own sizes ({'n=1048576, ' * 20}) this problem is too large: it is judged at batch=2"
    correctness = verdict.correctness.model_copy(
        update={"warnings": (decisive, "second", "third", "fourth", "fifth")}
    )
    text = flat(shown(verdict_card(verdict.model_copy(update={"correctness": correctness}), SOURCE)))
    assert "it is judged at batch=2 warning: second" in text
    assert "warnings beside these: 1 (--json has all)" in text
