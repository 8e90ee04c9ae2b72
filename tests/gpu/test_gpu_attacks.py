"""Each attack on a GPU ends as it must, and the job right after it is right."""

import functools
import time

import corpus
import pytest

from common.contract import Status

ATTACKS = corpus.attacks()
ENDS = {status.value for status in Status} - {"internal_error", "cancelled"}
LOOKERS = [case for case in ATTACKS if "after" in case.head]


@pytest.fixture(scope="module")
def twin_us(gpu_toolbox):
    """The latency of the honest twin at an attack's sizes."""

    @functools.cache
    def measured(sizes):
        verdict = corpus.grade(corpus.twin(), gpu_toolbox, rehearse=False, sizes=dict(sizes) or None)
        return verdict.timing.latency_us

    return lambda case: measured(tuple((case.settings().sizes or {}).items()))


def assert_next_is_right(toolbox):
    after = corpus.next_one(toolbox)
    assert after.status is Status.PASSED, f"the next job ended {after.status}: {after.message}"


@pytest.mark.gpu
@pytest.mark.parametrize("case", ATTACKS, ids=lambda case: case.name)
def test_an_attack_ends_as_it_must_and_leaves_the_next_job_alone(case, gpu_toolbox, twin_us, record_property):
    beside_us = twin_us(case) if "twin" in case.head else None
    for before in case.head.get("after", "").split():
        corpus.grade(corpus.attack(before), gpu_toolbox)
    started_s = time.monotonic()
    verdict = corpus.grade(case, gpu_toolbox)
    record_property("seconds", round(time.monotonic() - started_s, 3))
    record_property("status", verdict.status.value)
    assert_next_is_right(gpu_toolbox)
    assert corpus.complaints(case, verdict, beside_us) == []


@pytest.mark.gpu
@pytest.mark.parametrize("case", LOOKERS, ids=lambda case: case.name)
def test_a_context_that_serves_many_shows_none_of_them_what_another_left(case, reusing_toolbox):
    for before in case.head["after"].split():
        corpus.grade(corpus.attack(before), reusing_toolbox)
    verdict = corpus.grade(case, reusing_toolbox)
    assert corpus.complaints(case, verdict) == []
    assert_next_is_right(reusing_toolbox)


def test_the_corpus_is_large_and_each_attack_says_how_it_ends():
    assert len(ATTACKS) >= 50
    for case in ATTACKS:
        assert case.head["problem"], case.name
        assert case.head["attack"], case.name
        assert case.head["because"], case.name
        assert set(case.expected) <= ENDS, case.name
        assert set(case.head.get("after", "").split()) <= {other.name for other in ATTACKS}, case.name
        assert case.head.get("twin", "relu_twin") == corpus.twin().name, case.name
        assert case.settings().run_timeout_s >= 1
