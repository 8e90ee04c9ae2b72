"""What the store promises to the API: acceptance, reuse, bounds, reading, dropping, keeping. On both databases."""

from datetime import datetime

import pytest
import sample_verdicts
from store_samples import OTHER, SUBMISSION, accept, ended, tallied

from common.contract import Status, Submission
from evaluator.errors import UsageError
from evaluator.service.storage.evaluations import IdempotencyConflictError, QueueFullError, Quota, QuotaExceededError

MINUTE = Quota(per_minute=3)
AT_ONCE = Quota(concurrent=2)


@pytest.fixture
def store(open_store, clock):
    return open_store(clock)


def finish(store, verdict=None, *, after=lambda: None):
    lease = store.claim(["compile"], "w1", 30)
    after()
    assert store.finish(lease, verdict or ended(), {})
    return lease.evaluation_id


# Acceptance


def test_what_is_accepted_is_there_for_every_process(store, open_store, clock):
    accepted = accept(store, request_id="req-1")
    assert accepted.created
    assert len(accepted.evaluation.id) == 25
    there = open_store().get(accepted.evaluation.id, "local")
    assert there == accepted.evaluation
    assert (there.state, there.stage, there.queue, there.attempt, there.version) == (
        "queued",
        "compile",
        "compile",
        0,
        1,
    )
    assert (there.submission, there.created_at, there.request_id) == (SUBMISSION, clock.day, "req-1")


def test_the_wire_form_has_utc_times_and_links(store):
    wire = accept(store).evaluation.evaluation("https://grader")
    assert datetime.fromisoformat(wire.created_at).timestamp() == 1_800_000_000
    assert wire.links == {
        "self": f"https://grader/evaluations/{wire.id}",
        "events": f"https://grader/evaluations/{wire.id}/events",
    }


@pytest.mark.parametrize("verdict", [make() for make in sample_verdicts.ALL], ids=lambda verdict: verdict.status)
def test_every_verdict_comes_back_as_it_was(store, verdict):
    made = accept(store).evaluation
    finish(store, verdict)
    done = store.get(made.id, "local")
    assert done.verdict == verdict
    assert done.evaluation().verdict == verdict


def test_text_that_no_database_likes_comes_back_as_it_was(store):
    hostile = Submission(problem="a\0b'; DROP TABLE evaluations; --", source="\0 \u202e \U0001f600 " + "x" * 100_000)
    made = accept(store, hostile, tenant="t\0", request_id="r\0", idempotency_key="k\0")
    assert store.get(made.evaluation.id, "t\0").submission == hostile
    assert not accept(store, hostile, tenant="t\0", idempotency_key="k\0").created
    assert store.get("\0", None) is None
    assert store.get("\ud800", None) is None
    lease = store.claim(["compile"], "w\0", 30)
    assert store.progress(lease, "half\0way")
    assert lease.submission == hostile


# Reuse and idempotency


def test_the_same_idempotency_key_is_the_same_evaluation(store):
    first = accept(store, idempotency_key="k")
    again = accept(store, idempotency_key="k", fresh=True)
    assert (again.created, again.evaluation) == (False, first.evaluation)
    assert accept(store, tenant="other", idempotency_key="k").created
    assert accept(store, idempotency_key="l").created


def test_the_same_idempotency_key_with_another_body_is_refused(store):
    first = accept(store, idempotency_key="k").evaluation
    with pytest.raises(IdempotencyConflictError, match=first.id) as refused:
        accept(store, OTHER, idempotency_key="k")
    assert "new key" in refused.value.remedy


def test_a_verdict_that_exists_answers_an_equal_submission_of_the_same_tenant(store):
    first = accept(store, reuse_key="r").evaluation
    assert accept(store, reuse_key="r").created, "nothing has ended yet"
    finish(store)
    again = accept(store, reuse_key="r", idempotency_key="k")
    assert (again.created, again.evaluation.id, again.evaluation.state) == (False, first.id, "done")
    assert accept(store, reuse_key="r", idempotency_key="k").evaluation.id == first.id
    assert accept(store, reuse_key="r", tenant="other").created
    assert accept(store, reuse_key="s").created
    assert accept(store, reuse_key="r", fresh=True).created
    assert tallied(store, "assay_evaluations_accepted_total", answer="reused") == 1
    assert tallied(store, "assay_evaluations_accepted_total", answer="repeated") == 1


@pytest.mark.parametrize("status", [Status.INTERNAL_ERROR, Status.TIMEOUT, Status.CANCELLED])
def test_what_may_end_otherwise_next_time_is_never_reused(store, status):
    accept(store, reuse_key="r")
    finish(store, sample_verdicts.timeout() if status is Status.TIMEOUT else ended(status))
    assert accept(store, reuse_key="r").created


def test_the_newest_verdict_is_the_one_reused(store):
    accept(store, reuse_key="r")
    newer = accept(store, reuse_key="r").evaluation
    finish(store)
    finish(store)
    assert accept(store, reuse_key="r").evaluation.id == newer.id


# Bounds


def test_a_full_queue_refuses_what_is_new_and_answers_what_is_not(store):
    first = accept(store, max_queued=2, idempotency_key="k", reuse_key="r")
    finish(store)
    accept(store, max_queued=2)
    accept(store, max_queued=2)
    with pytest.raises(QueueFullError, match="2 evaluations are waiting") as refused:
        accept(store, max_queued=2)
    assert 1 <= refused.value.retry_after_s <= 30
    assert accept(store, max_queued=2, idempotency_key="k").evaluation.id == first.evaluation.id
    assert accept(store, max_queued=2, reuse_key="r").evaluation.id == first.evaluation.id
    store.claim(["compile"], "w", 30)
    assert accept(store, max_queued=2).created


def test_the_quota_per_minute_slides(store, clock):
    for _ in range(3):
        accept(store, quota=MINUTE)
        clock.pass_s(10)
    with pytest.raises(QuotaExceededError, match="3 evaluations in one minute") as refused:
        accept(store, quota=MINUTE)
    assert (refused.value.which, refused.value.retry_after_s) == ("per_minute", 30)
    assert accept(store, tenant="other", quota=MINUTE).created
    clock.pass_s(refused.value.retry_after_s)
    accept(store, quota=MINUTE)
    with pytest.raises(QuotaExceededError):
        accept(store, quota=MINUTE)


@pytest.mark.parametrize("jump_s", [-86400, -30, 30, 86400])
def test_a_clock_that_is_set_locks_nobody_out_for_long(store, clock, jump_s):
    for _ in range(3):
        accept(store, quota=MINUTE)
    clock.jump_s(jump_s)
    clock.pass_s(95)
    assert accept(store, quota=MINUTE).created


def test_the_quota_at_once_counts_what_waits_and_what_runs(store):
    accept(store, quota=AT_ONCE)
    accept(store, quota=AT_ONCE)
    lease = store.claim(["compile"], "w", 30)
    with pytest.raises(QuotaExceededError, match="2 evaluations at once") as refused:
        accept(store, quota=AT_ONCE)
    assert refused.value.which == "concurrent"
    assert accept(store, tenant="other", quota=AT_ONCE).created
    store.finish(lease, ended(), {})
    assert accept(store, quota=AT_ONCE).created


@pytest.mark.parametrize("quota", [Quota(per_minute=0), Quota(concurrent=0)])
def test_a_quota_of_nothing_allows_nothing(store, quota):
    with pytest.raises(QuotaExceededError, match="0 evaluations"):
        accept(store, quota=quota)


# Reading


def test_a_tenant_sees_only_its_own(store):
    mine, foreign = accept(store).evaluation, accept(store, tenant="other").evaluation
    assert store.get(mine.id, "other") is None
    assert store.drop(mine.id, "other") is None
    assert store.get(mine.id, None) == mine
    assert [item.id for item in store.list("local").items] == [mine.id]
    assert [item.id for item in store.list(None).items] == [foreign.id, mine.id]
    with pytest.raises(UsageError, match="no page after"):
        store.list("local", cursor=foreign.id)


def test_pages_are_newest_first_and_hold_everything_once(store):
    made = [accept(store).evaluation.id for _ in range(7)]
    seen, cursor = [], None
    while True:
        page = store.list("local", cursor=cursor, limit=3)
        assert len(page.items) <= 3
        seen += [item.id for item in page.items]
        accept(store)  # what comes in meanwhile moves no page
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == made[::-1]


def test_lists_are_filtered(store):
    accept(store, OTHER)
    accept(store)
    accept(store)
    finish(store)
    finish(store, ended(Status.INTERNAL_ERROR))

    def listed(**chosen):
        return [item.submission.problem for item in store.list("local", **chosen).items]

    assert listed(state="queued") == ["vector_add"]
    assert listed(state="done") == ["vector_add", "saxpy"]
    assert listed(status=Status.INTERNAL_ERROR) == ["vector_add"]
    assert listed(problem="saxpy", status=Status.UNSUPPORTED) == ["saxpy"]
    assert listed(problem="saxpy", state="queued") == []


def test_watching_tells_every_change_that_a_caller_can_see(store):
    made = accept(store).evaluation.id
    versions = [store.watch([made, "ev_nothing"])]

    def changed():
        versions.append(store.watch([made]))
        return versions[-1][made][0] > versions[-2][made][0]

    lease = store.claim(["compile"], "w", 30)
    assert changed()
    store.renew(lease, 30)
    assert not changed()
    store.progress(lease, "compiling")
    assert changed()
    store.finish(lease, ended(), {})
    assert changed()
    assert [entry[made][1] for entry in versions] == ["queued", "running", "running", "running", "done"]


def test_more_can_be_watched_than_one_statement_names(store):
    made = {accept(store).evaluation.id for _ in range(3)}
    assert set(store.watch([*made, *(f"ev_{i}" for i in range(1200))])) == made


def test_depth_counts_what_waits_in_each_queue(store, clock):
    accept(store)
    clock.pass_s(5)
    accept(store)
    accept(store, queue="gpu")
    clock.pass_s(1)
    depth = store.depth()
    assert {queue: (waiting.count, waiting.oldest_age_s) for queue, waiting in depth.items()} == {
        "compile": (2, 6),
        "gpu": (1, 1),
    }


# Dropping


def test_one_that_waits_ends_at_once_when_dropped(store):
    made = accept(store, queue="gpu").evaluation
    dropped = store.drop(made.id, "local")
    assert (dropped.state, dropped.verdict.status, dropped.verdict.phase) == ("done", "cancelled", "screen")
    assert dropped.verdict.backend == "gpu"
    assert store.claim(["gpu"], "w", 30) is None
    assert store.drop(made.id, "local") == dropped


def test_one_that_runs_is_asked_to_end(store):
    made = accept(store).evaluation
    lease = store.claim(["compile"], "w", 30)
    dropped = store.drop(made.id, "local")
    assert (dropped.state, dropped.wanted) == ("running", False)
    assert not store.renew(lease, 30)
    assert store.finish(lease, ended(Status.CANCELLED), {})
    assert store.get(made.id, "local").verdict.status == "cancelled"


@pytest.mark.parametrize("leave", ["pass_on", "give_back"])
def test_one_that_nobody_wants_never_waits_again(store, leave):
    made = accept(store).evaluation
    lease = store.claim(["compile"], "w", 30)
    store.drop(made.id, "local")
    assert not (store.pass_on(lease, "sim", 0.5) if leave == "pass_on" else store.give_back(lease))
    done = store.get(made.id, "local")
    assert (done.state, done.verdict.status, done.verdict.phase) == ("done", "cancelled", "compile")


def test_what_is_done_cannot_be_dropped(store):
    made = accept(store).evaluation
    finish(store)
    assert store.drop(made.id, "local").verdict == ended()


# Keeping


def test_what_ended_long_ago_is_deleted_with_all_that_belongs_to_it(store, clock):
    old = accept(store, idempotency_key="k", reuse_key="r").evaluation
    waiting = accept(store).evaluation
    finish(store)
    assert store.retain(3600) == 0
    clock.pass_s(3601)
    made = accept(store).evaluation
    assert store.retain(3600) == 1
    assert store.get(old.id, "local") is None
    assert [item.id for item in store.list("local").items] == [made.id, waiting.id]
    assert accept(store, OTHER, idempotency_key="k", reuse_key="r").created


def test_a_clock_that_jumps_for_a_moment_deletes_nothing(store, clock):
    accept(store)
    finish(store)
    assert store.retain(3600) == 0
    clock.jump_s(10 * 365 * 86400)
    assert store.retain(3600) == 0
    clock.jump_s(-10 * 365 * 86400)
    assert store.retain(3600) == 0
    clock.pass_s(60)
    assert store.retain(3600) == 0
    clock.pass_s(3600)
    assert store.retain(3600) == 1


def test_a_list_whose_place_was_deleted_says_so(store, clock):
    accept(store)
    finish(store)
    newest = store.list("local", limit=1).items[0].id
    clock.pass_s(100)
    store.retain(10)
    accept(store)
    with pytest.raises(UsageError, match="not there") as refused:
        store.list("local", cursor=newest)
    assert "first page" in refused.value.remedy
