"""The report: its JSON, its page, its model cards, and what they say of what was not measured."""

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from devtools import CHROMIUM, Browser
from evaluated import SETTINGS, answered, estimated, failed, reported, system_named, task, timed, unasked
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from trainer.conversation.conversation import Flow
from trainer.errors import OracleError
from trainer.evaluation.measures import NOT_TIMED
from trainer.evaluation.model_card import model_card
from trainer.evaluation.page import figure_text, pictures_of, write_page, written_change
from trainer.evaluation.pictures import Dot, Square, dots, round_ticks, squares
from trainer.evaluation.report import EvaluationReport, Figure, FirstPasses, PairedFigure
from trainer.evaluation.summary import SystemAnswers, crossed, naive_kernels, played_of, report_of, silent
from trainer.evaluation.task_sets import TaskSet

HOSTILE = "</title><script>alert(1)</script><img src=x>\u202e{{ 7*7 }}|`*"
EXAMPLE = Path(__file__).parents[3] / "examples" / "evaluation"
TASKS = [task(number) for number in range(6)]
FAMILIES = [task(number, "relu") for number in range(3)]


def answers_of(kinds, tasks, sample=0):
    return [answered(one, kind, sample=sample) for one, kind in zip(tasks, kinds, strict=True)]


@pytest.fixture(scope="module")
def report():
    asked = [*TASKS, *FAMILIES]
    return reported(
        {
            "base": [*answers_of(["wrong"] * 9, asked), *answers_of(["pass"] * 4 + ["wrong"] * 5, asked, 1)],
            "tuned": [
                *answers_of(["pass"] * 6 + ["wrong", "pass"], asked[:8]),
                failed(asked[8]),
                *answers_of(["pass"] * 8 + ["odd"], asked, 1),
            ],
        },
        TASKS,
        families=FAMILIES,
        samples=2,
        ks=(1, 2),
        first_passes=[
            FirstPasses(run="tuned", warm_start=None, conversations=9, first=4, problems={"relu": 2, "saxpy": None})
        ],
    )


@pytest.fixture(scope="module")
def timed_report():
    kinds = [timed(0.9 + 0.2 * number) for number in range(6)]
    return reported({"base": answers_of(kinds, TASKS), "silent": answers_of([""] * 6, TASKS)}, TASKS)


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.parts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.parts.append(data)

    @property
    def said(self):
        return " ".join("".join(self.parts).split())


def page_of(report, folder):
    write_page(report, folder / "report.html")
    return Page((folder / "report.html").read_text())


def test_the_json_reads_back_as_what_was_written_and_takes_nothing_else(report):
    text = report.model_dump_json()
    assert EvaluationReport.model_validate_json(text) == report
    assert json.loads(text)["form"] == "assay-evaluation-1"
    with pytest.raises(ValidationError, match="frozen"):
        report.seed = 3
    for change in ({"unknown": 1}, {"form": "assay-evaluation-2"}):
        with pytest.raises(ValidationError):
            EvaluationReport.model_validate(json.loads(text) | change)


def test_it_is_said_where_the_evaluator_became_another_one_meanwhile(report):
    verdicts = {version: estimated(2.0) for version in ("0.1.0", "0.2.0")}
    kinds = [
        one.model_copy(update={"receipt": one.receipt.model_copy(update={"grader_version": version})})
        for version, one in verdicts.items()
    ]
    found = reported({"one": answers_of([*kinds] * 3, TASKS)}, TASKS)
    assert any("different versions of the evaluator, 0.1.0, 0.2.0" in one for one in found.warnings)
    assert not any("different versions" in one for one in report.warnings)


def test_tasks_that_do_not_fit_into_a_context_are_left_out_for_that_system_counted_and_told(report, tmp_path):
    asked = {
        "wide": answers_of(["pass"] * 3 + ["wrong"] * 3, TASKS),
        "narrow": [*answers_of(["wrong", "pass", "odd"], TASKS[:3]), failed(TASKS[3]), *map(unasked, TASKS[4:])],
    }
    found = reported(asked, TASKS)
    wide, narrow = found.systems
    assert (wide.judged, wide.unasked) == (6, 0)
    assert (narrow.judged, narrow.faults, narrow.unsupported, narrow.unasked) == (2, 1, 1, 2)
    assert (narrow.figures["pass@1"].value, narrow.figures["pass@1"].of) == (0.5, 2)
    assert (found.comparisons[0].tasks, found.comparisons[0].left_out) == (2, 4)
    said = [one for one in found.warnings if one.startswith("narrow: 2 of 6 conversations")]
    assert ["first prompt leaves no room" in one and "tasks.wording=brief" in one for one in said] == [True]
    assert not any("were not played" in one for one in found.warnings)
    assert "2 because their prompts do not fit into its context." in model_card(found, narrow)
    assert "Prompt does not fit" in page_of(found, tmp_path).said
    assert "Prompt does not fit" not in page_of(report, tmp_path).said
    mute = reported({"narrow": list(map(unasked, TASKS))}, TASKS)
    assert silent(mute.systems[0]) == (
        "narrow could not be asked: none of the 6 first prompts leaves room for an answer in its model's context."
    )
    assert mute.systems[0].figures["pass@1"].why_not == "no conversation could be judged"


def test_a_generator_that_cannot_be_asked_leaves_its_pairings_out_and_no_failure():
    pair = [system_named(name, models=2) for name in ("one", "two")]
    crosses = crossed(pair)
    played = [SystemAnswers(one, tuple(answers_of(["pass"] * 6, TASKS))) for one in pair]
    across = [SystemAnswers(one, (*answers_of(["pass"] * 4, TASKS[:4]), *map(unasked, TASKS[4:]))) for one in crosses]
    told = {"evaluator": "0.1.0", "settings": {}, "samples": 1, "temperature": 1.0, "ks": (1,)}
    found = report_of(played, [TaskSet("wordings", tuple(TASKS))], crosses=across, **told)
    numbers = {(one.conversations, one.left_out, one.pass_rate) for one in found.cross_play.pairings}
    assert numbers == {(6, 0, 1.0), (4, 2, 1.0)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": None},
        {"value": 1.0, "why_not": "because"},
        {"value": 1.0, "low": 0.5},
        {"value": None, "why_not": "x", "low": 0.1, "high": 0.2},
        {"value": float("nan")},
        {"value": 1.0, "low": 0.0, "high": float("inf")},
    ],
)
def test_a_figure_has_a_value_or_a_reason(wrong):
    with pytest.raises(ValidationError):
        Figure(**wrong)


def test_faults_and_unsupported_kernels_are_counted_apart_and_told(report):
    base, tuned = report.systems
    assert (base.conversations, base.judged, base.faults, base.unsupported) == (18, 18, 0, 0)
    assert (tuned.conversations, tuned.judged, tuned.faults, tuned.unsupported) == (18, 16, 1, 1)
    assert tuned.figures["pass@1"].of == 16
    assert tuned.figures["pass@1"].value == 15 / 16
    told = " ".join(report.warnings)
    assert "tuned: 1 of 18 conversations are left out, since an evaluation failed on the evaluator's side" in told
    assert "the evaluator cannot run a kernel" in told
    assert "The set families has 3 tasks" in told
    # Of the ninth task nothing of the tuned one could be judged.
    assert [one.left_out for one in report.comparisons] == [1, 0, 1]
    assert [one.set for one in report.comparisons] == [None, "wordings", "families"]


def test_a_page_says_what_was_not_measured_and_never_0(report, tmp_path):
    found = page_of(report, tmp_path)
    unmeasured = [f"{name} over PyTorch eager" for name in ("fast_1", "fast_1.2", "fast_2", "Speedup")]
    words = (
        f"({NOT_TIMED.partition(': ')[2]}): {', '.join([*unmeasured, 'Speedup over torch.compile', 'SOL score'])}."
    )
    assert found.said.count(f"Not measured here {words}") == 3, "below the table of all, and below that of each set"
    assert f"<tr><th>{unmeasured[0]}" not in (tmp_path / "report.html").read_text(), "no row of a table"
    for part in (
        "Evaluator's faults",
        "4 of 12 right",
        "McNemar's p",
        "Conversations to the first pass",
        "saxpy never",
    ):
        assert part in (tmp_path / "report.html").read_text(), part


def test_a_figure_of_which_one_system_alone_was_measured_is_in_the_table(timed_report, tmp_path):
    found = page_of(timed_report, tmp_path)
    assert "<tr><th>Speedup over PyTorch eager" in (tmp_path / "report.html").read_text()
    assert "Not measured here (no verdict has this baseline): Speedup over torch.compile." in found.said


def test_what_a_gpu_timed_is_compared_with_naive_kernels_that_it_timed_for_the_same_tasks(tmp_path):
    asked = [task(number) for number in range(3)]
    naive = naive_kernels(Flow(3))
    answers = [answered(asked[0], timed(0.5)), answered(asked[1], timed(0.8)), answered(asked[2], "wrong")]
    found = reported(
        {
            "base": [answered(one, timed(1.0)) for one in asked],
            "tuned": [answered(one, "wrong", timed(2.0)) for one in asked],
        },
        asked,
        naive=SystemAnswers(naive, tuple(answers)),
    )
    base, tuned = (one.figures["speedup/naive_timed"] for one in found.systems)
    # Twice and 1.25 times as fast; of the third task the naive kernel is not right, and nothing is said.
    assert (base.value, base.of) == (pytest.approx((2.0 + 1.25) / 2), 2)
    assert tuned.value == pytest.approx(2 * base.value)
    assert "Speedup over the naive kernel (timed)" in page_of(found, tmp_path).said
    assert naive.flow.max_turns == 1
    assert "speedup/naive_timed" not in reported({"base": answers}, asked).systems[0].figures


def test_names_that_are_too_long_are_shortened_and_still_told_apart(report):
    long = [one.model_copy(update={"second": "all_templates", "first": one.first}) for one in report.comparisons]
    problems = [
        one.model_copy(
            update={
                "problems": tuple(
                    each.model_copy(update={"problem": "scalar_multiply_by_two"}) for each in one.problems
                )
            }
        )
        for one in report.systems
    ]
    changed = report.model_copy(update={"comparisons": tuple(long), "systems": tuple(problems)})
    drawn = {title: str(picture) for title, picture, _ in pictures_of(changed)}
    assert "all_tem… - base<" in drawn["Differences in pass@1"]
    assert "scalar_multi… (w)<" in drawn["By problem"]
    assert "scalar_multi… (f)<" in drawn["By problem"]


def test_comparisons_over_one_set_are_folded_and_no_difference_has_no_sign(report, timed_report, tmp_path):
    tags = [tag for tag, _ in page_of(report, tmp_path).tags]
    assert (tags.count("details"), tags.count("section")) == (2, 1), "all sets together are open"
    tags = [tag for tag, _ in page_of(timed_report, tmp_path).tags]
    assert (tags.count("details"), tags.count("section")) == (0, 1), "there is one set alone"
    nothing, lost = Figure(value=-1e-9, low=-0.2, high=1e-9), Figure(value=-0.1)
    same = PairedFigure(name="pass@1", first=0.5, second=0.5, difference=nothing)
    assert [written_change(same, end) for end in ("low", "value", "high")] == ["-20.0", "0.0", "0.0"]
    assert written_change(same.model_copy(update={"name": "reward", "difference": lost})) == "-0.100"


def test_a_page_shows_what_a_gpu_measured(timed_report, tmp_path):
    found = page_of(timed_report, tmp_path)
    assert "NVIDIA H100" in found.said
    assert "silent wrote nothing: each of its answers is empty." in found.said
    titles = [title for title, _, _ in pictures_of(timed_report)]
    assert titles == ["pass@1", "Compiles", "fast_p", "Differences in pass@1", "By problem"]
    base = timed_report.systems[0].figures
    assert base["fast_1/eager"].value == pytest.approx(5 / 6)
    assert figure_text("fast_1/eager", base["fast_1/eager"]).startswith("83.3 % (")
    assert figure_text("speedup/eager", base["speedup/eager"]) == "1.40x (0.90x to 1.90x)"


def test_nothing_on_a_page_does_anything_and_nothing_is_loaded(report, tmp_path):
    named = [one.model_copy(update={"name": HOSTILE, "origin": HOSTILE}) for one in report.systems]
    results = [
        one.model_copy(update={"problems": tuple(p.model_copy(update={"problem": HOSTILE}) for p in one.problems)})
        for one in named
    ]
    hostile = report.model_copy(update={"systems": tuple(results), "warnings": (HOSTILE,), "evaluator": HOSTILE})
    found = page_of(hostile, tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert not [tag for tag, _ in found.tags if tag in ("script", "img", "iframe", "link", "object", "a")]
    assert not [name for _, attributes in found.tags for name in attributes if name == "style" or name[:2] == "on"]
    assert "\u202e" not in text
    assert "{{ 7*7 }}" in text
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in text
    assert "http" not in re.sub(r"http-equiv", "", text)


def test_each_picture_is_well_formed_and_has_words_for_who_cannot_see_it(report, timed_report):
    for title, picture, _ in (*pictures_of(report), *pictures_of(timed_report)):
        root = ElementTree.fromstring(str(picture))
        assert root.get("aria-label").startswith(title)
        for number in re.findall(r"[-\d.]+", " ".join(one.get("d", "") for one in root.iter())):
            assert -1 <= float(number) <= 800


@settings(max_examples=40)
@given(st.lists(st.tuples(st.text(max_size=20), st.floats(-5, 5), st.floats(0, 3)), min_size=1, max_size=8))
def test_any_names_and_values_can_be_drawn(rows):
    made = [
        Dot(name, value, value - half, value + half, f"{value:.2f}", at)
        for at, (name, value, half) in enumerate(rows)
    ]
    root = ElementTree.fromstring(str(dots("Any", made, low=0, high=1, zero=0.0)))
    places = [float(one.get("cx")) for one in root.iter() if one.tag.endswith("circle")]
    assert [104 <= place <= 250.1 for place in places] == [True] * len(rows)
    # A larger value never stands further to the left.
    in_order = sorted(range(len(rows)), key=lambda at: rows[at][1])
    assert all(places[a] <= places[b] + 0.11 for a, b in pairwise(in_order))
    cells = [(name, [Square(None, "–", name)]) for name, _, _ in rows]
    ElementTree.fromstring(str(squares("Any", ["one"], cells)))


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_round_and_lie_on_the_axis(low, span):
    ticks = round_ticks(low, low + span)
    slack = 1e-6 * max(span, abs(low) * 1e-3)
    assert len(ticks) <= 7
    assert all(low - slack <= tick <= low + span + slack for tick in ticks)


def test_a_card_is_yaml_and_markdown_that_can_lie_beside_weights(report):
    tuned = report.systems[1]
    text = model_card(report, tuned)
    head, body = re.match(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL).groups()
    card = yaml.safe_load(head)
    (entry,) = card["model-index"]
    assert entry["name"] == "tuned"
    metrics = {one["type"]: one["value"] for one in entry["results"][0]["metrics"]}
    assert metrics["pass@1"] == 1.0
    assert not any(name.startswith("fast_") for name in metrics), "what was not measured is no result"
    assert "not measured here: no GPU timed a kernel" in body
    assert f"`{'ab' * 32}`" in body
    assert "16 could be judged; 1 are left out for faults" in body
    assert "No kernel was timed" in body
    assert "McNemar" in body
    rows = [line for line in body.splitlines() if line.startswith("| ")]
    assert all(line.count("|") - line.count("\\|") == line.count(" | ") + 2 for line in rows)


def test_what_others_wrote_is_text_on_a_card(report):
    hostile = report.systems[1].model_copy(update={"origin": HOSTILE + "\n# heading"})
    body = model_card(report, hostile).split("---\n", 2)[2]
    assert "<script" not in body.replace("\\<script", "")
    assert "\n# heading" not in body
    assert "\u202e" not in body


def test_who_says_nothing_or_never_ends_is_named():
    cut = reported({"one": [answered(one, "pass", settings=SETTINGS) for one in TASKS]}, TASKS).systems[0]
    assert silent(cut) is None
    changed = cut.model_copy(update={"figures": cut.figures | {"cut_rate": Figure(value=1.0, of=6)}})
    assert silent(changed).startswith("one never came to an end")
    empty = reported({"one": answers_of([""] * 6, TASKS)}, TASKS).systems[0]
    assert silent(empty) == "one wrote nothing: each of its answers is empty."
    nobody = reported({"one": [failed(one) for one in TASKS]}, TASKS).systems[0]
    assert silent(nobody) is None


def test_each_generator_plays_with_each_optimizer(tmp_path):
    systems = [system_named("early", models=2), system_named("late", models=2)]
    pairs = crossed(systems)
    assert [one.name for one in pairs] == ["early..with..late", "late..with..early"]
    kinds = {"early": "wrong", "late": "pass", "early..with..late": "wrong", "late..with..early": "wrong"}

    def of(system):
        two = SETTINGS.flow.__class__(2, 2.0)
        settings_of = SETTINGS.__class__(turn_tokens=10_000, flow=two)
        told = [answered(one, "wrong", kinds[system.name], settings=settings_of) for one in TASKS]
        return SystemAnswers(system, tuple(told))

    found = report_of(
        [of(one) for one in systems],
        [TaskSet("wordings", tuple(TASKS))],
        evaluator="0.1.0",
        settings={},
        samples=1,
        temperature=1.0,
        ks=(1,),
        crosses=[of(one) for one in pairs],
    )
    table = {(one.generator, one.optimizer): one.pass_rate for one in found.cross_play.pairings}
    assert table == {("early", "early"): 0, ("early", "late"): 0, ("late", "early"): 0, ("late", "late"): 1}
    assert found.cross_play.specialisation > 0
    assert "Agents of one system earn" in page_of(found, tmp_path).said
    assert [one.name for one in found.systems] == ["early", "late"], "pairs are in no other table"


def test_nothing_but_faults_is_an_error_and_no_report():
    class Kept:
        def of(self, system):
            return {(one.id, 0): failed(one) for one in TASKS}

    with pytest.raises(OracleError, match="None of the 6 conversations of one has a verdict"):
        played_of(system_named("one"), Kept(), [one.id for one in TASKS], 1)


def test_flows_of_other_lengths_are_told():
    systems = [system_named("one"), system_named("two")]
    object.__setattr__(systems[1], "flow", Flow(1, single_agent=True))
    played = [SystemAnswers(one, tuple(answers_of(["pass"] * 6, TASKS))) for one in systems]
    found = report_of(
        played,
        [TaskSet("wordings", tuple(TASKS))],
        evaluator="0.1.0",
        settings={},
        samples=1,
        temperature=0.0,
        ks=(1,),
    )
    assert any("different numbers of kernels" in one for one in found.warnings)


def test_in_a_browser_at_the_width_of_a_telephone_a_report_fits(report, timed_report, tmp_path):
    if CHROMIUM is None:
        pytest.skip("There is no Chromium here.")
    browser = Browser(tmp_path / "profile")
    try:
        for number, one in enumerate((report, timed_report)):
            write_page(one, tmp_path / f"{number}.html")
            for width in (360, 1200):
                browser.show(width=width, dark=bool(number))
                browser.go((tmp_path / f"{number}.html").as_uri())
                assert browser.value("document.documentElement.scrollWidth <= innerWidth"), (number, width)
        assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(17, 20, 24)"
        # Five systems are wide; what is measured stays legible beside them.
        browser.go((EXAMPLE / "report.html").as_uri())
        widths = "Math.min(...[...document.querySelectorAll('tbody th')].map(one => one.offsetWidth))"
        assert browser.value(widths) >= 140
        assert browser.complaints == []
    finally:
        browser.close()
        shutil.rmtree(tmp_path / "profile", ignore_errors=True)


def test_the_example_is_what_this_version_writes(tmp_path):
    example = EvaluationReport.model_validate_json((EXAMPLE / "report.json").read_text(encoding="utf-8"))
    write_page(example, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == (EXAMPLE / "report.html").read_bytes()
    rl = next(one for one in example.systems if one.name == "rl")
    assert model_card(example, rl) == (EXAMPLE / "rl.md").read_text(encoding="utf-8")
    # Every system was asked the same, and none of the figures is of what the evaluator failed at.
    assert all(one.judged + one.faults + one.unsupported == one.conversations == 192 for one in example.systems)
    assert rl.figures["pass@1"].of == rl.judged
    assert {one.why_not for one in rl.figures.values() if one.why_not and "GPU" in one.why_not} == {NOT_TIMED}
