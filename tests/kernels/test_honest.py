"""Honest kernels in many styles: every one of them must pass, however odd it looks.

Verified quickly; those of `right/` are in full.
"""

import re
from pathlib import Path

import pytest

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.catalogue import problems

KERNELS = sorted(Path(__file__).parent.glob("*.cu"))


def header(source: str) -> dict[str, str]:
    return dict(re.findall(r"^// (problem|style|flags|warns): (.*?)\r?$", source, re.MULTILINE))


def header_of(path: Path) -> dict[str, str]:
    return header(path.read_bytes().decode())


def submission(path: Path) -> Submission:
    source = path.read_bytes().decode()
    head = header(source)
    settings = Settings(verification="quick", flags=tuple(head.get("flags", "").split()))
    return Submission(problem=head["problem"], source=source, settings=settings)


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_an_honest_kernel_passes(path, toolbox):
    verdict = evaluate(submission(path), toolbox)
    assert verdict.status is Status.PASSED, f"{verdict.phase}: {verdict.message}\n{verdict.hint}"
    assert verdict.correctness.passed
    assert all(trial.passed for trial in verdict.correctness.trials)
    assert len(verdict.correctness.trials) == verdict.correctness.planned_trials
    assert any(trial.hidden for trial in verdict.correctness.trials)
    assert verdict.reward.value > 0
    # What an honest kernel is warned of is allowed, and known.
    assert {hazard.kind for hazard in verdict.correctness.hazards} == set(header_of(path).get("warns", "").split())


def test_the_corpus_is_large_and_says_what_each_kernel_is_there_for():
    heads = [header(path.read_bytes().decode()) for path in KERNELS]
    assert len(heads) >= 45
    assert all(head["problem"] and len(head["style"]) > 10 for head in heads)
    assert len({head["style"] for head in heads}) == len(heads)


def test_every_problem_has_an_honest_kernel():
    covered = {header(path.read_bytes().decode())["problem"] for path in KERNELS}
    assert covered == set(problems())


def test_the_odd_files_are_still_odd():
    """An editor that tidies line ends would quietly take the point out of this file."""
    source = (Path(__file__).parent / "vector_add_crlf_tabs.cu").read_bytes()
    assert source.count(b"\r\n") == source.count(b"\n") > 3
    assert b"\t" in source
    assert max(map(len, source.splitlines())) > 3000
