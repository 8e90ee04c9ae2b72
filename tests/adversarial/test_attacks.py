"""Attacks and faults, one file each. The header says what it tries and how it must end.

// problem: id                 // expect: status, or several that are equally right, separated by |
// attack: what it tries       // because: why it ends so
// fault: kind of the fault    // message: text that the message must hold
// warns: what a passed one is warned of (kinds of hazards), and pays for
// hides: text that must be nowhere in the verdict
// run_timeout_s, compile_timeout_s: limits, to keep the suite fast

A comment `HERE` marks the line that the fault must name, where the backend can tell the line.
"""

import re
from pathlib import Path

import pytest

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate

ATTACKS = sorted(Path(__file__).parent.glob("*.cu"))
FIELDS = "problem|attack|expect|because|fault|message|warns|hides|run_timeout_s|compile_timeout_s"
ENDS = {status.value for status in Status} - {"internal_error", "cancelled"}


def header(source: str) -> dict[str, str]:
    return dict(re.findall(rf"^// ({FIELDS}): (.*)$", source, re.MULTILINE))


def marked_line(source: str) -> int | None:
    return next((number for number, line in enumerate(source.splitlines(), 1) if line.endswith("// HERE")), None)


@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: path.stem)
def test_an_attack_ends_as_it_must(path, toolbox):
    source = path.read_text()
    head = header(source)
    limits = {name: float(head[name]) for name in ("run_timeout_s", "compile_timeout_s") if name in head}
    verdict = evaluate(Submission(problem=head["problem"], source=source, settings=Settings(**limits)), toolbox)

    told = f"{verdict.status} in {verdict.phase}: {verdict.message}\nexpected {head['expect']}: {head['because']}"
    assert verdict.status.value in head["expect"].split("|"), told
    assert verdict.message.strip(), "a verdict says what happened"
    assert head.get("message", "") in verdict.message, told
    if "hides" in head:
        # The submission itself may spell the text; nothing that the grader adds may.
        assert head["hides"] not in verdict.model_dump_json()
    if verdict.status is Status.PASSED:
        hazards = verdict.correctness.hazards
        assert {hazard.kind for hazard in hazards} == set(head.get("warns", "").split()), hazards
        charged = next(term.contribution for term in verdict.reward.terms if term.name == "hazards")
        assert charged == (-0.1 if hazards else 0)
        assert all(any(hazard.message in text for text in verdict.correctness.warnings) for hazard in hazards)
        if marked_line(source) is not None:
            assert marked_line(source) in {hazard.line for hazard in hazards}
    if verdict.status is not Status.PASSED:
        assert verdict.timing is None
        assert verdict.correctness is None or not verdict.correctness.passed
    if verdict.status is Status.RUNTIME_ERROR:
        fault = verdict.correctness.fault
        assert fault is not None
        assert verdict.hint
        if "fault" in head:
            assert fault.kind in head["fault"].split("|"), told
        if marked_line(source) is not None and fault.line is not None:
            assert fault.line == marked_line(source), told
    if verdict.correctness is not None:
        assert len(verdict.correctness.printed) <= 1 << 20


def test_the_simulator_names_the_line_the_thread_and_the_element(toolbox):
    source = (Path(__file__).parent / "write_one_past_the_end.cu").read_text()
    verdict = evaluate(Submission(problem="vector_add", source=source, backend="sim"), toolbox)
    fault = verdict.correctness.fault
    trial = verdict.correctness.trials[-1]
    assert fault.line == marked_line(source)
    assert fault.kernel is not None
    assert fault.kernel.startswith("add")
    assert fault.buffer == "c"
    assert fault.element == trial.sizes["n"]
    assert fault.block[0] * 256 + fault.thread[0] == trial.sizes["n"]
    assert str(fault.line) in verdict.message


def test_a_race_of_equal_values_changes_nothing(toolbox):
    source = (Path(__file__).parent / "race_of_equals.cu").read_text()
    verdict = evaluate(Submission(problem="vector_add", source=source, backend="sim"), toolbox)
    assert verdict.status is Status.PASSED


def test_an_attack_leaves_the_next_evaluation_alone(toolbox):
    """After a fault, a timeout and a flood, an honest kernel still passes."""
    honest = (Path(__file__).parent.parent / "kernels" / "vector_add_plain.cu").read_text()
    for name in ("wild_pointer", "trap", "printf_flood", "forged_verdict_by_constructor"):
        source = (Path(__file__).parent / f"{name}.cu").read_text()
        evaluate(Submission(problem=header(source)["problem"], source=source), toolbox)
        after = evaluate(Submission(problem="vector_add", source=honest), toolbox)
        assert after.status is Status.PASSED, f"after {name}: {after.message}"


def test_the_corpus_is_large_and_each_attack_says_how_it_ends():
    heads = [header(path.read_text()) for path in ATTACKS]
    assert len(heads) >= 36
    for path, head in zip(ATTACKS, heads, strict=True):
        assert head["attack"], path.name
        assert head["because"], path.name
        assert set(head["expect"].split("|")) <= ENDS, path.name
    assert {"incorrect", "compile_error", "runtime_error", "timeout", "rejected"} <= {
        status for head in heads for status in head["expect"].split("|")
    }
