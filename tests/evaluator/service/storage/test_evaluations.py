"""What callers see of evaluations, and how they drop them. On both databases."""

from datetime import datetime

import pytest
import sample_verdicts
from sqlalchemy import text
from storage_samples import OTHER, SUBMISSION, accept, ended, finish_next

from common.contract import Status
from evaluator.errors import UsageError


@pytest.fixture
def storage(new_storage, clock):
    return new_storage(clock)


# Reading


def test_the_wire_form_has_utc_times_and_links(storage):
    wire = accept(storage).evaluation.evaluation()
    assert datetime.fromisoformat(wire.created_at).timestamp() == 1_800_000_000
    assert wire.links == {
        "self": f"/evaluations/{wire.id}",
        "events": f"/evaluations/{wire.id}/events",
    }


@pytest.mark.parametrize("verdict", [make() for make in sample_verdicts.ALL], ids=lambda verdict: verdict.status)
def test_every_verdict_comes_back_as_it_was(storage, verdict):
    made = accept(storage).evaluation
    finish_next(storage, verdict)
    done = storage.evaluations.get(made.id, "local")
    assert done.verdict == verdict
    assert done.evaluation().verdict == verdict


def test_a_list_reads_no_texts(storage):
    accept(storage, SUBMISSION.model_copy(update={"backend": "sim"}))
    accept(storage)
    finish_next(storage, sample_verdicts.passed_on_gpu())
    waiting, done = storage.evaluations.list("local").items
    with storage.database.writing() as connection:
        connection.execute(text("DELETE FROM submissions"))
        connection.execute(text("DELETE FROM verdicts"))
    assert storage.evaluations.list("local").items == (waiting, done)
    assert (waiting.backend, waiting.verdict) == ("auto", None)
    assert (done.backend, done.verdict.backend, done.verdict.speedup is None) == ("sim", "gpu", False)


def test_a_tenant_sees_only_its_own(storage):
    mine, foreign = accept(storage).evaluation, accept(storage, tenant="other").evaluation
    assert storage.evaluations.get(mine.id, "other") is None
    assert storage.evaluations.drop(mine.id, "other") is None
    assert storage.evaluations.get(mine.id, None) == mine
    assert [item.id for item in storage.evaluations.list("local").items] == [mine.id]
    assert [item.id for item in storage.evaluations.list(None).items] == [foreign.id, mine.id]
    with pytest.raises(UsageError, match="no page after"):
        storage.evaluations.list("local", cursor=foreign.id)


def test_pages_are_newest_first_and_hold_everything_once(storage):
    made = [accept(storage).evaluation.id for _ in range(7)]
    seen, cursor = [], None
    while True:
        page = storage.evaluations.list("local", cursor=cursor, limit=3)
        assert len(page.items) <= 3
        seen += [item.id for item in page.items]
        accept(storage)  # what comes in meanwhile moves no page
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == made[::-1]


def test_lists_are_filtered(storage):
    accept(storage, OTHER)
    accept(storage)
    accept(storage)
    finish_next(storage)
    finish_next(storage, ended(Status.INTERNAL_ERROR))

    def listed(**chosen):
        return [item.problem for item in storage.evaluations.list("local", **chosen).items]

    assert listed(state="queued") == ["vector_add"]
    assert listed(state="done") == ["vector_add", "saxpy"]
    assert listed(status=Status.INTERNAL_ERROR) == ["vector_add"]
    assert listed(problem="saxpy", status=Status.UNSUPPORTED) == ["saxpy"]
    assert listed(problem="saxpy", state="queued") == []


def test_watching_tells_every_change_that_a_caller_can_see(storage):
    made = accept(storage).evaluation.id
    versions = [storage.evaluations.watch([made, "ev_nothing"])]

    def changed():
        versions.append(storage.evaluations.watch([made]))
        return versions[-1][made][0] > versions[-2][made][0]

    lease = storage.leases.claim(["compile"], "w", 30)
    assert changed()
    storage.leases.renew(lease, 30)
    assert not changed()
    storage.leases.progress(lease, "compiling")
    assert changed()
    storage.leases.finish(lease, ended(), {})
    assert changed()
    assert [entry[made][1] for entry in versions] == ["queued", "running", "running", "running", "done"]


def test_more_can_be_watched_than_one_statement_names(storage):
    made = {accept(storage).evaluation.id for _ in range(3)}
    assert set(storage.evaluations.watch([*made, *(f"ev_{i}" for i in range(1200))])) == made


def test_depth_counts_what_waits_in_each_queue(storage, clock):
    accept(storage)
    clock.pass_s(5)
    accept(storage)
    accept(storage, queue="gpu")
    clock.pass_s(1)
    depth = storage.evaluations.depth()
    assert {queue: (waiting.count, waiting.oldest_age_s) for queue, waiting in depth.items()} == {
        "compile": (2, 6),
        "gpu": (1, 1),
    }


def test_a_list_whose_place_was_deleted_says_so(storage, clock):
    accept(storage)
    finish_next(storage)
    newest = storage.evaluations.list("local", limit=1).items[0].id
    clock.pass_s(100)
    storage.sweeps.retain(10)
    accept(storage)
    with pytest.raises(UsageError, match="not there") as refused:
        storage.evaluations.list("local", cursor=newest)
    assert "first page" in refused.value.remedy


# Dropping


def test_one_that_waits_ends_at_once_when_dropped(storage):
    made = accept(storage, queue="gpu").evaluation
    dropped = storage.evaluations.drop(made.id, "local")
    assert (dropped.state, dropped.verdict.status, dropped.verdict.phase) == ("done", "cancelled", "screen")
    assert dropped.verdict.backend == "gpu"
    assert storage.leases.claim(["gpu"], "w", 30) is None
    assert storage.evaluations.drop(made.id, "local") == dropped


def test_one_that_runs_is_asked_to_end(storage):
    made = accept(storage).evaluation
    lease = storage.leases.claim(["compile"], "w", 30)
    dropped = storage.evaluations.drop(made.id, "local")
    assert (dropped.state, dropped.wanted) == ("running", False)
    assert not storage.leases.renew(lease, 30)
    assert storage.leases.finish(lease, ended(Status.CANCELLED), {})
    assert storage.evaluations.get(made.id, "local").verdict.status == "cancelled"


@pytest.mark.parametrize("leave", ["pass_on", "give_back"])
def test_one_that_nobody_wants_never_waits_again(storage, leave):
    made = accept(storage).evaluation
    lease = storage.leases.claim(["compile"], "w", 30)
    storage.evaluations.drop(made.id, "local")
    assert not (storage.leases.pass_on(lease, "sim", 0.5) if leave == "pass_on" else storage.leases.give_back(lease))
    done = storage.evaluations.get(made.id, "local")
    assert (done.state, done.verdict.status, done.verdict.phase) == ("done", "cancelled", "compile")


def test_what_is_done_cannot_be_dropped(storage):
    made = accept(storage).evaluation
    finish_next(storage)
    assert storage.evaluations.drop(made.id, "local").verdict == ended()
