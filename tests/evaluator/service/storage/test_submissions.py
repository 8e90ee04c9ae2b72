"""How submissions are taken in: acceptance, reuse, idempotency, bounds. On both databases."""

import pytest
import sample_verdicts
from sqlalchemy import select
from storage_samples import OTHER, SUBMISSION, accept, ended, finish_next, tallied

from common.contract import Settings, Status, Submission
from evaluator.service.storage.models import IdempotencyConflictError, QueueFullError, QuotaExceededError
from evaluator.service.storage.secrets import Quota
from evaluator.service.storage.submissions import KEYS_THAT_REUSED
from evaluator.service.storage.tables import idempotency

MINUTE = Quota(per_minute=3)
AT_ONCE = Quota(concurrent=2)


@pytest.fixture
def storage(new_storage, clock):
    return new_storage(clock)


# Acceptance


def test_what_is_accepted_is_there_for_every_process(storage, new_storage, clock):
    accepted = accept(storage, request_id="req-1")
    assert accepted.created
    assert len(accepted.evaluation.id) == 25
    there = new_storage().evaluations.get(accepted.evaluation.id, "local")
    assert there == accepted.evaluation
    assert (there.state, there.stage, there.queue, there.attempt, there.version) == (
        "queued",
        "compile",
        "compile",
        0,
        1,
    )
    assert (there.submission, there.created_at, there.request_id) == (SUBMISSION, clock.day, "req-1")


def test_text_that_no_database_likes_comes_back_as_it_was(storage):
    hostile = Submission(problem="a\0b'; DROP TABLE evaluations; --", source="\0 \u202e \U0001f600 " + "x" * 100_000)
    made = accept(storage, hostile, tenant="t\0", request_id="r\0", idempotency_key="k\0")
    assert storage.evaluations.get(made.evaluation.id, "t\0").submission == hostile
    assert not accept(storage, hostile, tenant="t\0", idempotency_key="k\0").created
    assert storage.evaluations.get("\0", None) is None
    assert storage.evaluations.get("\ud800", None) is None
    lease = storage.leases.claim(["compile"], "w\0", 30)
    assert storage.leases.progress(lease, "half\0way")
    assert lease.submission == hostile


# Reuse and idempotency


def test_the_same_idempotency_key_is_the_same_evaluation(storage):
    first = accept(storage, idempotency_key="k")
    again = accept(storage, idempotency_key="k", fresh=True)
    assert (again.created, again.evaluation) == (False, first.evaluation)
    assert accept(storage, tenant="other", idempotency_key="k").created
    assert accept(storage, idempotency_key="l").created


def test_the_same_idempotency_key_with_another_body_is_refused(storage):
    first = accept(storage, idempotency_key="k").evaluation
    with pytest.raises(IdempotencyConflictError, match=first.id) as refused:
        accept(storage, OTHER, idempotency_key="k")
    assert "new key" in refused.value.remedy


def test_a_verdict_that_exists_answers_an_equal_submission_of_the_same_tenant(storage):
    first = accept(storage, reuse_key="r").evaluation
    assert accept(storage, reuse_key="r").created, "nothing has ended yet"
    finish_next(storage)
    again = accept(storage, reuse_key="r", idempotency_key="k")
    assert (again.created, again.evaluation.id, again.evaluation.state) == (False, first.id, "done")
    assert accept(storage, reuse_key="r", idempotency_key="k").evaluation.id == first.id
    assert accept(storage, reuse_key="r", tenant="other").created
    assert accept(storage, reuse_key="s").created
    assert accept(storage, reuse_key="r", fresh=True).created
    assert tallied(storage, "assay_evaluations_accepted_total", answer="reused") == 1
    assert tallied(storage, "assay_evaluations_accepted_total", answer="repeated") == 1


@pytest.mark.parametrize("status", [Status.INTERNAL_ERROR, Status.TIMEOUT, Status.CANCELLED])
def test_what_may_end_otherwise_next_time_is_never_reused(storage, status):
    accept(storage, reuse_key="r")
    finish_next(storage, sample_verdicts.timeout() if status is Status.TIMEOUT else ended(status))
    assert accept(storage, reuse_key="r").created


@pytest.mark.parametrize(("host_tier", "again"), [("off", False), ("allowed", True)])
def test_what_was_unsupported_is_tried_again_where_the_owner_may_now_let_it_run(storage, host_tier, again):
    asked = SUBMISSION.model_copy(update={"settings": Settings(host_tier=host_tier)})
    accept(storage, asked, reuse_key="r")
    finish_next(storage, ended(Status.UNSUPPORTED))
    assert accept(storage, asked, reuse_key="r").created is again


def test_the_newest_verdict_is_the_one_reused(storage):
    accept(storage, reuse_key="r")
    newer = accept(storage, reuse_key="r").evaluation
    finish_next(storage)
    finish_next(storage)
    assert accept(storage, reuse_key="r").evaluation.id == newer.id


# Bounds


def test_a_full_queue_refuses_what_is_new_and_answers_what_is_not(storage):
    first = accept(storage, max_queued=2, idempotency_key="k", reuse_key="r")
    finish_next(storage)
    accept(storage, max_queued=2)
    accept(storage, max_queued=2)
    with pytest.raises(QueueFullError, match="2 evaluations are waiting") as refused:
        accept(storage, max_queued=2)
    assert 1 <= refused.value.retry_after_s <= 30
    assert accept(storage, max_queued=2, idempotency_key="k").evaluation.id == first.evaluation.id
    assert accept(storage, max_queued=2, reuse_key="r").evaluation.id == first.evaluation.id
    storage.leases.claim(["compile"], "w", 30)
    assert accept(storage, max_queued=2).created


def test_the_quota_per_minute_slides(storage, clock):
    for _ in range(3):
        accept(storage, quota=MINUTE)
        clock.pass_s(10)
    with pytest.raises(QuotaExceededError, match="3 evaluations in one minute") as refused:
        accept(storage, quota=MINUTE)
    assert (refused.value.which, refused.value.retry_after_s) == ("per_minute", 30)
    assert accept(storage, tenant="other", quota=MINUTE).created
    clock.pass_s(refused.value.retry_after_s)
    accept(storage, quota=MINUTE)
    with pytest.raises(QuotaExceededError):
        accept(storage, quota=MINUTE)


@pytest.mark.parametrize("jump_s", [-86400, -30, 30, 86400])
def test_a_clock_that_is_set_locks_nobody_out_for_long(storage, clock, jump_s):
    for _ in range(3):
        accept(storage, quota=MINUTE)
    clock.jump_s(jump_s)
    clock.pass_s(95)
    assert accept(storage, quota=MINUTE).created


def test_the_quota_at_once_counts_what_waits_and_what_runs(storage):
    accept(storage, quota=AT_ONCE)
    accept(storage, quota=AT_ONCE)
    lease = storage.leases.claim(["compile"], "w", 30)
    with pytest.raises(QuotaExceededError, match="2 evaluations at once") as refused:
        accept(storage, quota=AT_ONCE)
    assert refused.value.which == "concurrent"
    assert accept(storage, tenant="other", quota=AT_ONCE).created
    storage.leases.finish(lease, ended(), {})
    assert accept(storage, quota=AT_ONCE).created


@pytest.mark.parametrize("quota", [Quota(per_minute=0), Quota(concurrent=0)])
def test_a_quota_of_nothing_allows_nothing(storage, quota):
    with pytest.raises(QuotaExceededError, match="0 evaluations"):
        accept(storage, quota=quota)


def test_keys_that_reuse_a_verdict_leave_few_rows(storage, clock):
    first = accept(storage, reuse_key="same", idempotency_key="its own").evaluation
    finish_next(storage)
    for number in range(KEYS_THAT_REUSED + 3):
        clock.pass_s(1)
        assert accept(storage, reuse_key="same", idempotency_key=f"key {number}").how == "reused"
    with storage.database.reading() as connection:
        kept = set(connection.execute(select(idempotency.c.key)).scalars())
    assert kept == {"its own", *(f"key {number}" for number in range(3, KEYS_THAT_REUSED + 3))}
    again = accept(storage, reuse_key="same", idempotency_key="its own")
    assert (again.how, again.evaluation.id) == ("repeated", first.id)
