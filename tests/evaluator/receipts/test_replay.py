"""Real verdicts of every kind: signed, verified part by part, and the same when they are graded again."""

import json
from datetime import UTC, datetime

import pytest
from test_pipeline import KERNELS, RIGHT, graded

from common.contract import Status
from evaluator.errors import UsageError
from evaluator.receipts.checks import CheckOutcome, Expectations, examine_verdict, verified
from evaluator.receipts.replay import replay

SLOW = {"endless"}


def shown_of(verdict, toolbox, source):
    beside = Expectations(source.encode(), None, {toolbox.signer.public_key: "that of this test"})
    return examine_verdict(verdict.model_dump_json().encode(), beside)


@pytest.mark.parametrize("name", KERNELS)
def test_a_real_verdict_is_signed_and_fits_itself_and_comes_out_again(name, toolbox):
    source, status, _ = KERNELS[name]
    limit_s = 1.0 if name in SLOW else 30.0
    verdict = graded(toolbox, source, run_timeout_s=limit_s)
    assert verdict.status is status
    made_at = datetime.fromisoformat(verdict.receipt.graded_at)
    assert abs((datetime.now(UTC) - made_at).total_seconds()) < 120
    shown, checks = shown_of(verdict, toolbox, source)
    assert verified(checks), checks
    again = replay(shown, source.encode(), None, toolbox)
    assert verified(again), again
    compared = {check.name: check.outcome for check in again}
    assert compared["rerun: rest"] is (CheckOutcome.SKIPPED if name in SLOW else CheckOutcome.OK)


def test_a_verdict_on_another_kernel_does_not_come_out_again(toolbox):
    verdict = graded(toolbox, RIGHT)
    shown, _ = shown_of(verdict, toolbox, RIGHT)
    wrong, _, _ = KERNELS["wrong"]
    checks = {check.name: check for check in replay(shown, wrong.encode(), None, toolbox)}
    assert checks["rerun"].outcome is checks["rerun: trials"].outcome is CheckOutcome.FAILED
    assert "incorrect in phase verify, and the verdict says passed" in checks["rerun"].detail
    other = RIGHT.replace("x[i] > 0.0f ? x[i] : 0.0f", "fmaxf(x[i], 0.0f)")
    checks = {check.name: check for check in replay(shown, other.encode(), None, toolbox)}
    assert checks["rerun"].outcome is checks["rerun: trials"].outcome is CheckOutcome.OK
    assert "sha256" in checks["rerun: rest"].detail


def test_trials_that_went_otherwise_are_named(toolbox):
    members = json.loads(graded(toolbox, RIGHT).model_dump_json())
    members["correctness"]["trials"][2]["sizes"]["n"] += 1
    shown, _ = examine_verdict(json.dumps(members).encode(), Expectations())
    checks = {check.name: check for check in replay(shown, RIGHT.encode(), None, toolbox)}
    assert "trials[2].sizes.n is" in checks["rerun: trials"].detail


def test_what_cannot_be_graded_again_is_said(toolbox):
    verdict = graded(toolbox, RIGHT)
    shown, _ = shown_of(verdict, toolbox, RIGHT)
    with pytest.raises(UsageError, match="needs the source"):
        replay(shown, None, None, toolbox)
    members = json.loads(verdict.model_dump_json())
    members["correctness"]["plan_source"] = "json"
    shown, _ = examine_verdict(json.dumps(members).encode(), Expectations())
    with pytest.raises(UsageError, match="needs the launch plan"):
        replay(shown, RIGHT.encode(), None, toolbox)
    members |= {"status": Status.CANCELLED, "reward": None}
    shown, _ = examine_verdict(json.dumps(members).encode(), Expectations())
    with pytest.raises(UsageError, match="cancelled says nothing"):
        replay(shown, RIGHT.encode(), None, toolbox)
