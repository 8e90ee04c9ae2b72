"""What `examine` says of verdicts that are what they seem, and of those that are not."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_receipts import SEED, SIGNER, SOURCE, STRANGER, members, signed_again, unsigned

from common.contract import Evaluation, Settings, Submission, Verdict
from common.launch_directives import parse_directives
from common.launch_plan import LaunchPlan
from evaluator.pipeline.receipt import plan_sha256
from evaluator.problems.catalogue import find_problem
from evaluator.receipts.checks import CheckOutcome, Expectations, differences, examine_verdict, verified
from evaluator.seed import Seed
from evaluator.stages.verify.trials import plan_trials

TRUSTED = {SIGNER.public_key: "one of these tests"}
BESIDE = Expectations(SOURCE, None, TRUSTED)
GENUINE = members()


def said(given_members, beside=BESIDE):
    text = given_members if isinstance(given_members, bytes) else json.dumps(given_members).encode()
    _, checks = examine_verdict(text, beside)
    return {check.name: check for check in checks}, verified(checks)


def failed(given_members, beside=BESIDE):
    """The checks that fail, with what they say."""
    checks, good = said(given_members, beside)
    found = {name: check.detail for name, check in checks.items() if check.outcome is CheckOutcome.FAILED}
    assert good is not bool(found)
    return found


def changed(path, value):
    """The genuine verdict with one member changed after it was signed; a callable value gets the old one."""
    found = copy.deepcopy(GENUINE)
    *outer, last = path.split(".")
    place = found
    for name in outer:
        place = place[int(name) if isinstance(place, list) else name]
    last = int(last) if isinstance(place, list) else last
    place[last] = value(place[last]) if callable(value) else value
    return found


@pytest.mark.parametrize("pooled", [True, False])
def test_a_genuine_verdict_is_verified_in_every_part(pooled):
    checks, good = said(members(unsigned(pooled=pooled)))
    assert good
    assert {name for name, check in checks.items() if check.outcome is not CheckOutcome.OK} == {"plan", "submission"}


# What a cheat would change; the check beside the signature that sees it even where he signs again; and its words.
TAMPERED = {
    "a better reward": ("reward.value", lambda value: value + 0.1, "reward", "reward.value is"),
    "a better term": ("reward.terms.0.contribution", 0.8, "reward", "reward.terms[0].contribution is 0.8"),
    "a lower target": ("receipt.settings.target_speedup", 1.0, "reward", "should be"),
    "a faster median": ("timing.latency_us", lambda value: value / 2, "timing", "timing.latency_us is"),
    "a narrower interval": ("timing.speedup_low", lambda value: value * 1.01, "timing", "timing.speedup_low is"),
    "a faster sample": ("timing.pooled_samples_us.3", 1.0, "timing", "not those of the samples"),
    "a sample left out": ("timing.samples_us", lambda samples: samples[1:], "timing", "60 launches, and has 59"),
    "a slower baseline": ("timing.baseline_us", 900.0, "timing", "timing.baseline_us is 900.0"),
    "another confidence": ("timing.confidence", 0.5, "timing", "timing.confidence is 0.5, and should be 0.95"),
    "another seed": ("receipt.seed", "08" * 32, "seed", "not the one that was committed to"),
    "no seed": ("receipt.seed", None, "seed", "not revealed"),
    "another commitment": ("receipt.seed_commitment", "0" * 64, "seed", "the commitment 000"),
    "an easier size": ("correctness.trials.5.sizes.n", 32, "trials", "trial 6 is n=32"),
    "an easier distribution": ("correctness.trials.5.distribution", "zeros", "trials", "with zeros inputs"),
    "a trial left out": ("correctness.trials", lambda trials: trials[:-1], "trials", "it passed with"),
    "fewer trials planned": ("correctness.planned_trials", 1, "trials", "it says that 1 were planned"),
    "a quick verification": ("correctness.verification", "quick", "trials", "ask for full verification"),
    "a trial that compared nothing": ("correctness.trials.5.compared", 0, "trials", "compared nothing"),
    "a trial that failed": ("correctness.trials.2.passed", False, "trials", "a trial that did not"),
    "another scalar": ("correctness.trials.6.scalars", {"alpha": 1.0}, "trials", "alpha=1.0"),
    "another source": ("receipt.source_sha256", "0" * 64, "source", "The source is another one"),
    "another compiler": ("receipt.toolchain", "nvcc 12.4", "receipt", "compile.toolchain"),
    "another GPU": ("receipt.device", "NVIDIA A100 (GPU-2)", "receipt", "the times are of GPU-1"),
    "no program": ("receipt.cubin_sha256", None, "receipt", "no hash"),
    "an older grader": ("receipt.grader_version", "0.0.1", "versions", "grader 0.0.1 (here"),
    "another version of the problem": ("receipt.problem_version", "0", "versions", "problem 0 (here"),
    "another problem": ("problem", "vector_add", "trials", "The trials are not those"),
    "no such problem": ("problem", "hard_one", "versions", "hard_one"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_verdict_is_refused_for_its_reason(name):
    path, value, check, words = TAMPERED[name]
    found = failed(changed(path, value))
    assert "was changed" in found["signature"]
    assert words in found[check]
    resigned = failed(signed_again(changed(path, value), STRANGER))
    assert "signature" not in resigned
    assert f"unknown key, {STRANGER.key_id}" in resigned["key"]
    assert words in resigned[check]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("receipt.signature.value", "0" * 128, "is not what key"),
        ("receipt.signature.public_key", STRANGER.public_key, "short name"),
        ("receipt.signature.key_id", STRANGER.key_id, "short name"),
        ("receipt.signature", None, "It is not signed"),
        ("message", "Perfect.", "was changed"),
        ("receipt.graded_at", "2020-01-01T00:00:00+00:00", "was changed"),
    ],
)
def test_a_tampered_signature_is_refused(path, value, words):
    assert words in failed(changed(path, value))["signature"]


def test_a_reward_of_an_older_version_is_computed_as_it_was_then():
    """It is no forgery: `versions` says what it is, and the reward still has to follow from the facts."""
    older = changed("reward.version", 1)
    older["reward"]["terms"] = [term for term in older["reward"]["terms"] if term["name"] != "hazards"]
    found = failed(signed_again(older, SIGNER))
    assert list(found) == ["versions"]
    assert "reward 1 (here 2)" in found["versions"]
    older["reward"]["value"] += 0.1
    assert "reward.value is" in failed(signed_again(older, SIGNER))["reward"]


LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(0, 2) | st.text("ab1", max_size=3)


def leaves(value, path=()):
    if isinstance(value, dict | list):
        for name in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[name], (*path, name))
    else:
        yield path


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(leaves(GENUINE))), LEAVES)
def test_whatever_is_changed_it_is_refused(path, value):
    found = copy.deepcopy(GENUINE)
    place = found
    for name in path[:-1]:
        place = place[name]
    same = place[path[-1]] == value and isinstance(value, bool) is isinstance(place[path[-1]], bool)
    place[path[-1]] = value
    refused = failed(found)
    assert same or refused.keys() & {"form", "signature"}


@pytest.mark.parametrize("name", ["status", "reward", "receipt", "timing", "hint"])
def test_a_member_that_is_left_out_is_missed(name):
    short = {key: value for key, value in GENUINE.items() if key != name}
    assert failed(short).keys() & {"form", "signature"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "not JSON"),
        (b"[]", "no JSON object"),
        (b'"passed"', "no JSON object"),
        (b"{}", "missing"),
        (json.dumps(GENUINE).encode()[:-1] + b', "status": "passed"}', "'status' is there twice"),
        (json.dumps(GENUINE["receipt"]).encode(), "a receipt without its verdict"),
        (json.dumps({**GENUINE, "extra": 1}).encode(), "extra is not known here"),
        (b'{"verdict": null, "id": "ev_1"}', "not judged yet"),
        (json.dumps({**GENUINE, "receipt": None}).encode(), "has no receipt"),
        (json.dumps({**changed("receipt.contract_version", "9.0"), "new": 1}).encode(), "of contract '9.0'"),
        (json.dumps(GENUINE).encode() + b" " * (64 << 20), "more than 64 MiB"),
    ],
    ids=range(11),
)
def test_what_is_no_verdict_is_refused(text, words):
    assert words in failed(text)["form"]


def test_the_owner_of_the_key_decides_not_the_key_in_the_receipt():
    forged = members(signer=STRANGER)
    assert failed(forged).keys() == {"key"}
    assert failed(forged, Expectations(SOURCE, None, {})).keys() == {"key"}
    assert failed(forged, Expectations(SOURCE, None, {STRANGER.public_key: "a friend's"})) == {}


def test_what_is_not_given_is_not_checked():
    checks, good = said(GENUINE, Expectations(keys=TRUSTED))
    assert good
    assert checks["source"].outcome is CheckOutcome.SKIPPED
    assert GENUINE["receipt"]["source_sha256"] in checks["source"].detail


def test_another_source_is_refused():
    assert failed(GENUINE, Expectations(SOURCE + b"\n", None, TRUSTED)).keys() == {"source"}


def with_plan(plan):
    verdict = unsigned()
    hashed = verdict.receipt.model_copy(update={"plan_sha256": plan_sha256(plan)})
    return members(verdict.model_copy(update={"receipt": hashed}))


def test_the_plan_is_found_where_it_is():
    plan = parse_directives(SOURCE.decode())
    other = LaunchPlan.model_validate({"steps": [{"kind": "fill", "target": "out", "value": 0}]})
    checks, good = said(with_plan(plan))
    assert good
    assert checks["plan"].detail.startswith("The plan in the source has the hash")
    assert failed(with_plan(plan), Expectations(SOURCE, plan, TRUSTED)) == {}
    assert failed(with_plan(plan), Expectations(SOURCE, other, TRUSTED)).keys() == {"plan"}
    assert failed(with_plan(other)).keys() == {"plan"}


def evaluation(**changes):
    verdict = Verdict.model_validate_json(json.dumps(GENUINE))
    submission = Submission(
        **{"problem": "saxpy", "source": SOURCE.decode(), "settings": verdict.receipt.settings, **changes}
    )
    made = Evaluation(id="ev_1", state="done", submission=submission, created_at="now", verdict=verdict)
    return json.loads(made.model_dump_json())


def test_a_whole_evaluation_brings_its_submission():
    checks, good = said(evaluation(), Expectations(keys=TRUSTED))
    assert good
    assert checks["source"].outcome is checks["submission"].outcome is CheckOutcome.OK
    assert failed(evaluation(source="other"), Expectations(keys=TRUSTED)).keys() == {"source"}
    assert "problem is 'relu'" in failed(evaluation(problem="relu"))["submission"]
    assert "backend is 'sim'" in failed(evaluation(backend="sim"))["submission"]
    assert "settings." in failed(evaluation(settings={"target_speedup": 3}))["submission"]


def test_the_trials_beyond_the_published_sizes_cannot_be_left_out():
    """A forger who shows all but the edges, and plans no more, is found."""
    found = copy.deepcopy(GENUINE)
    usual = plan_trials(find_problem("saxpy"), Settings(verification="quick"), SEED.generator(), timed_too=True)
    assert len(usual) < len(found["correctness"]["trials"])
    del found["correctness"]["trials"][len(usual) :]
    found["correctness"]["planned_trials"] = len(usual)
    assert "were planned" in failed(signed_again(found, SIGNER))["trials"]


def test_a_verdict_from_before_the_two_modes_is_of_another_version_and_no_forgery():
    found = copy.deepcopy(GENUINE)
    found["receipt"]["contract_version"] = "1.1"
    del found["correctness"]["verification"], found["receipt"]["settings"]["verification"]
    checks, _ = said(signed_again(found, SIGNER))
    assert checks["signature"].outcome is CheckOutcome.OK
    assert checks["trials"].outcome is CheckOutcome.SKIPPED
    assert "other versions" in checks["trials"].detail
    assert "contract 1.1" in checks["versions"].detail


def test_a_verdict_of_another_seed_has_other_trials():
    """A forger who takes the good trials of one seed and the commitment of another is found."""
    found = changed("receipt.seed", "09" * 32)
    found["receipt"]["seed_commitment"] = Seed(b"\x09" * 32).commitment
    assert failed(signed_again(found, SIGNER)).keys() == {"trials"}


def test_how_it_was_written_down_makes_no_difference():
    turned = json.dumps(GENUINE, sort_keys=True, indent=4, ensure_ascii=False).encode()
    assert failed(turned) == {}
    assert failed({**GENUINE, "timing": {**GENUINE["timing"], "checked_launches": 7.0}}) == {}


def test_a_receipt_whose_maximum_was_summed_before_it_was_rounded_still_fits():
    assert list(differences({"maximum": 0.8 + 0.3 + 0.2 + 0.1}, {"maximum": 1.4})) == []
    assert list(differences({"maximum": 1.4001}, {"maximum": 1.4})) != []
