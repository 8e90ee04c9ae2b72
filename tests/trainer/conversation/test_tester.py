"""The Tester's reports: short, useful first, and nothing in them that the verdict does not say."""

import json
import re

import pytest
import sample_verdicts as samples
from hypothesis import given
from hypothesis import strategies as st
from scripted import KINDS, kernel, played

from trainer.conversation.extraction import wrapped
from trainer.conversation.tester import ReportSettings, estimated_tokens, format_report, report, shortened

ALL = [made() for made in samples.ALL]


@pytest.mark.parametrize("verdict", ALL, ids=lambda verdict: f"{verdict.status}-{verdict.backend}")
@pytest.mark.parametrize("tokens", [16, 40, 200])
def test_a_report_fits_its_budget_and_begins_with_the_status(verdict, tokens):
    text = report(verdict, None, ReportSettings(tokens))
    assert estimated_tokens(text) <= tokens
    assert text.startswith(str(verdict.status)[:20])
    assert all(line.strip() for line in text.split("\n"))


@pytest.mark.parametrize("verdict", ALL, ids=lambda verdict: f"{verdict.status}-{verdict.backend}")
def test_no_number_is_in_a_report_that_is_not_in_the_verdict(verdict):
    text = report(verdict, None, ReportSettings(2000))
    known = verdict.model_dump_json() + json.dumps(json.loads(verdict.model_dump_json()), ensure_ascii=False)
    numbers = {float(found) for found in re.findall(r"\d+(?:\.\d+)?", known)}
    for found in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?%?", text):
        value = float(found.rstrip("%")) / (100 if found.endswith("%") else 1)
        near = any(abs(value - one) <= 0.006 * max(abs(one), 1) for one in numbers)
        spilled = (
            sum(one.spill_load_bytes + one.spill_store_bytes for one in verdict.compile.kernels)
            if (verdict.compile)
            else 0
        )
        assert near or value == spilled, found
    seed = verdict.receipt.seed if verdict.receipt else None
    assert not seed or seed not in text


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (samples.compile_error(), r"error"),
        (samples.incorrect(), r"expected"),
        (samples.runtime_error(), r"line \d+"),
        (samples.passed_on_gpu(), r"times as fast as the baseline"),
        (samples.counted(), r"Try: "),
        (samples.timeout(), r"timeout"),
    ],
)
def test_a_report_says_what_a_model_needs(verdict, said):
    assert re.search(said, report(verdict, None, ReportSettings()))


def test_the_costliest_pitfall_comes_first_with_line_and_remedy():
    verdict = samples.counted()
    first = verdict.profile.pitfalls[0]
    text = report(verdict, None, ReportSettings(2000))
    assert text.index(first.cost) < text.index(first.remedy)
    for later in verdict.profile.pitfalls[1:3]:
        assert text.index(first.cost) < text.index(later.cost)


def test_a_slower_kernel_is_told_so():
    conversation = played([wrapped(kernel("fast_0"))])
    best = conversation.best
    assert best.speedup is not None
    slower = samples.passed_on_gpu()
    slow = slower.timing.model_copy(update={"speedup_low": best.speedup / 2})
    text = report(slower.model_copy(update={"timing": slow}), best, ReportSettings())
    assert f"slower than the best so far ({best.speedup:.3g})" in text


def test_no_kernel_is_said_too():
    assert format_report("The answer is empty.", ReportSettings()) == "no kernel.\nThe answer is empty."


@given(st.lists(st.text(max_size=300), max_size=6), st.integers(16, 300))
def test_lines_are_kept_in_order_and_within_the_budget(lines, tokens):
    text = shortened(lines, tokens)
    assert estimated_tokens(text) <= tokens
    bare = [re.sub(r"\s+", " ", line).strip() for line in lines]
    kept = [line.removesuffix("…").strip() for line in text.split("\n")] if text else []
    place = 0
    for line in kept:
        place = next(i for i in range(place, len(bare)) if bare[i].startswith(line)) + 1


@given(st.text(alphabet="abcXYZ0189_+-*/(){}[];= \n", max_size=200), st.text(max_size=50))
def test_the_estimate_counts_more_for_more(text, more):
    assert 0 <= estimated_tokens(text) <= estimated_tokens(text + " " + more)


def test_all_kinds_are_covered():
    assert {made().status for made in KINDS.values()} >= {verdict.status for verdict in ALL} - {"internal_error"}


@pytest.mark.parametrize("tokens", [0, 15])
def test_a_report_of_no_length_is_refused(tokens):
    with pytest.raises(ValueError, match="16 at least"):
        ReportSettings(tokens)
