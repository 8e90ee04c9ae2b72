"""What the store promises to workers and sweepers: one holder at a time, fair turns, nothing lost; both databases."""

from dataclasses import replace

import pytest
from store_samples import accept, ended, tallied

from common.contract import Status

LEASE_S = 30


@pytest.fixture
def store(open_store, clock):
    return open_store(clock)


def claim(store, *queues, worker="w1"):
    return store.claim(queues or ["compile"], worker, LEASE_S)


def sweep_for(store, clock, seconds, step_s=1.0):
    """What the sweeps of so many seconds did, put together."""
    requeued, dead, cancelled = [], [], []
    for _ in range(round(seconds / step_s) + 1):
        swept = store.sweep()
        requeued += swept.requeued
        dead += swept.dead
        cancelled += swept.cancelled
        clock.pass_s(step_s)
    return requeued, dead, cancelled


# Claiming


def test_a_claim_gives_everything_that_the_work_needs(store, clock):
    made = accept(store, request_id="req-1", tenant="t").evaluation
    lease = claim(store)
    assert (lease.evaluation_id, lease.submission, lease.request_id) == (made.id, made.submission, "req-1")
    assert (lease.stage, lease.queue, lease.attempt, lease.worker, lease.tenant) == (
        "compile",
        "compile",
        1,
        "w1",
        "t",
    )
    assert lease.compiled_s is None
    running = store.get(made.id, None)
    assert (running.state, running.worker, running.attempt, running.started_at) == ("running", "w1", 1, clock.day)
    assert claim(store) is None


def test_only_the_queues_asked_for_are_claimed(store):
    accept(store, queue="gpu.GPU-1")
    made = accept(store, queue="sim").evaluation
    assert claim(store, "compile", "sim").evaluation_id == made.id
    assert claim(store, "compile", "sim") is None
    assert store.claim([], "w", LEASE_S) is None
    assert claim(store, "gpu.GPU-1").queue == "gpu.GPU-1"


def test_each_tenants_oldest_comes_first(store):
    made = [accept(store, queue=queue).evaluation.id for queue in ("sim", "compile", "sim", "compile")]
    assert [claim(store, "compile", "sim").evaluation_id for _ in made] == made


def test_a_single_worker_serves_tenants_in_turn(store):
    for _ in range(6):
        accept(store, tenant="greedy")
    for _ in range(3):
        accept(store, tenant="modest")
    served = []
    while lease := claim(store):
        served.append(lease.tenant)
        store.finish(lease, ended(), {})
    assert served == ["greedy", "modest"] * 3 + ["greedy"] * 3


def test_many_workers_share_themselves_among_tenants(store):
    for _ in range(8):
        accept(store, tenant="greedy")
    held = [claim(store) for _ in range(4)]
    for _ in range(8):
        accept(store, tenant="modest")
    served = [claim(store).tenant for _ in range(4)]
    assert served == ["modest"] * 4, "who has nothing running comes first"
    assert all(lease.tenant == "greedy" for lease in held)


def test_one_evaluation_is_claimed_by_its_id_once(store):
    made = [accept(store).evaluation.id for _ in range(2)]
    assert store.claim_one(made[1], ["sim"], "w", LEASE_S) is None
    lease = store.claim_one(made[1], ["compile", "sim"], "w", LEASE_S)
    assert lease.evaluation_id == made[1]
    assert store.claim_one(made[1], ["compile"], "w", LEASE_S) is None
    store.finish(lease, ended(), {})
    assert store.claim_one(made[1], ["compile"], "w", LEASE_S) is None
    assert store.claim_one("ev_nothing", ["compile"], "w", LEASE_S) is None
    store.drop(made[0], None)
    assert store.claim_one(made[0], ["compile"], "w", LEASE_S) is None


# Working


def test_progress_is_seen(store):
    made = accept(store).evaluation
    lease = claim(store)
    assert store.progress(lease, "compiling")
    assert store.get(made.id, None).progress == "compiling"


def test_compiled_work_waits_for_its_judge(store):
    made = accept(store).evaluation
    lease = claim(store)
    assert store.pass_on(lease, "sim", 0.25, 0.75)
    waiting = store.get(made.id, None)
    assert (waiting.state, waiting.stage, waiting.queue, waiting.attempt) == ("queued", "judge", "sim", 0)
    assert not store.finish(lease, ended(), {})
    judge = claim(store, "sim", worker="w2")
    assert (judge.stage, judge.compiled_s, judge.worked_s, judge.attempt) == ("judge", 0.25, 0.75, 1)
    assert judge.token > lease.token
    assert store.finish(judge, ended(), {})


def test_work_handed_back_keeps_its_place_and_its_attempts(store):
    first = accept(store).evaluation
    accept(store)
    for _ in range(5):
        lease = claim(store)
        assert (lease.evaluation_id, lease.attempt) == (first.id, 1)
        assert store.give_back(lease)
        assert not store.give_back(lease)
    assert tallied(store, "assay_evaluations_requeued_total", reason="handed_back") == 5


def test_a_fault_of_ours_is_tried_again_and_counted(store):
    accept(store)
    assert store.give_back(claim(store), counted=True)
    assert claim(store).attempt == 2


def test_a_verdict_is_final(store, clock):
    made = accept(store).evaluation
    lease = claim(store)
    clock.pass_s(2)
    assert store.finish(lease, ended(), {"compile": 0.2})
    assert store.finish(lease, ended(), {"compile": 0.2}), "a repeat whose first answer got lost"
    assert not store.finish(lease, ended(message="another"), {})
    assert not store.progress(lease, "still here")
    assert not store.renew(lease, LEASE_S)
    assert not store.give_back(lease)
    assert not store.pass_on(lease, "sim", 0.1)
    done = store.get(made.id, None)
    assert (done.verdict, done.finished_at, done.progress) == (ended(), clock.day, None)
    assert tallied(store, "assay_evaluations_finished_total", status="unsupported", backend="sim") == 1
    assert tallied(store, "assay_phase_seconds_sum", phase="compile") == pytest.approx(0.2)


def test_a_token_that_was_never_given_opens_nothing(store):
    accept(store)
    lease = claim(store)
    for forged in (replace(lease, token=lease.token + 1), replace(lease, evaluation_id="ev_nothing")):
        assert not store.finish(forged, ended(), {})
        assert not store.renew(forged, LEASE_S)


# Leases that are lost


def test_a_lease_that_is_not_renewed_is_lost_after_its_length(store, clock):
    made = accept(store).evaluation
    lease = claim(store)
    assert sweep_for(store, clock, LEASE_S - 2) == ([], [], [])
    requeued, dead, cancelled = sweep_for(store, clock, 3)
    assert (requeued, dead, cancelled) == ([(made.id, "compile")], [], [])
    assert not store.finish(lease, ended(), {}), "late, before anyone else has it"
    second = claim(store, worker="w2")
    assert second.attempt == 2
    assert not store.finish(lease, ended(), {}), "late, when someone else has it"
    assert store.finish(second, ended(message="by the second"), {})
    assert store.get(made.id, None).verdict.message == "by the second"


def test_two_lost_attempts_make_a_dead_letter(store, clock):
    made = accept(store).evaluation
    claim(store)
    assert sweep_for(store, clock, LEASE_S + 1)[0] == [(made.id, "compile")]
    claim(store)
    assert sweep_for(store, clock, LEASE_S + 1) == ([], [made.id], [])
    done = store.get(made.id, None)
    assert (done.state, done.verdict.status, done.verdict.reward) == ("done", "internal_error", None)
    assert "2 times" in done.verdict.message
    assert tallied(store, "assay_dead_letters_total") == 1
    assert [item.id for item in store.list(None, status=Status.INTERNAL_ERROR).items] == [made.id]


def test_each_stage_has_its_own_attempts(store, clock):
    made = accept(store).evaluation
    claim(store)
    sweep_for(store, clock, LEASE_S + 1)
    store.pass_on(claim(store), "gpu", 0.1)
    claim(store, "gpu")
    assert sweep_for(store, clock, LEASE_S + 1)[0] == [(made.id, "gpu")]
    claim(store, "gpu")
    assert sweep_for(store, clock, LEASE_S + 1)[1] == [made.id]
    verdict = store.get(made.id, None).verdict
    assert (verdict.backend, verdict.phase) == ("gpu", "launch")


def test_lost_work_that_nobody_wants_is_cancelled(store, clock):
    made = accept(store).evaluation
    claim(store)
    store.drop(made.id, None)
    assert sweep_for(store, clock, LEASE_S + 1) == ([], [], [made.id])
    assert store.get(made.id, None).verdict.status == "cancelled"


@pytest.mark.parametrize("sign", ["renew", "progress"])
def test_a_worker_that_gives_signs_keeps_its_lease(store, clock, sign):
    accept(store)
    lease = claim(store)
    for _ in range(20):
        assert store.renew(lease, LEASE_S) if sign == "renew" else store.progress(lease, "on it")
        assert sweep_for(store, clock, LEASE_S / 2) == ([], [], [])
    assert store.finish(lease, ended(), {})


@pytest.mark.parametrize("jump_s", [-86400 * 365, -3600, 3600, 86400 * 365])
def test_a_time_of_day_that_jumps_costs_no_lease(store, clock, jump_s):
    accept(store)
    lease = claim(store)
    store.sweep()
    clock.jump_s(jump_s)
    assert sweep_for(store, clock, LEASE_S / 2) == ([], [], [])
    assert store.renew(lease, LEASE_S)
    assert sweep_for(store, clock, LEASE_S / 2) == ([], [], [])
    assert sweep_for(store, clock, LEASE_S)[0], "and one that is lost is still found"


def test_an_hour_without_sweeps_costs_no_lease(store, clock):
    """The machine slept, or there was no database: nobody could renew either."""
    accept(store)
    lease = claim(store)
    store.sweep()
    clock.pass_s(3600)
    assert store.sweep().requeued == ()
    assert store.renew(lease, LEASE_S)
    assert sweep_for(store, clock, LEASE_S / 2)[0] == []


def test_another_sweeper_may_find_and_both_change_nothing_twice(open_store, clock):
    here, there = open_store(clock), open_store(clock)
    made = accept(here).evaluation
    claim(here)
    requeued = []
    for _ in range(LEASE_S + 2):
        requeued += [*here.sweep().requeued, *there.sweep().requeued]
        clock.pass_s(1)
    assert requeued == [(made.id, "compile")]
    assert here.get(made.id, None).attempt == 1


def test_a_renewal_between_look_and_act_saves_the_lease(store, clock):
    """The sweeper acts only on the very beat that it has seen."""
    accept(store)
    lease = claim(store)
    sweep_for(store, clock, LEASE_S - 2)
    clock.pass_s(5)
    found = store._look()
    assert len(found) == 1
    store.renew(lease, LEASE_S)
    store._look = lambda: found
    assert store.sweep().requeued == ()
    assert store.finish(lease, ended(), {})


# Announcements


def test_what_waits_unclaimed_is_announced_again_ever_more_seldom(store, clock):
    made = accept(store, queue="sim").evaluation
    start, times = clock.day, []
    for _ in range(100):
        if store.sweep().stale_announcements:
            times.append(round(clock.day - start))
        clock.pass_s(6)
    assert times == [36, 102, 228, 354, 480]
    assert store.get(made.id, None).version == 1


def test_what_was_announced_just_now_is_not_stale(store, clock):
    made = accept(store).evaluation
    clock.pass_s(29)
    store.announced([made.id, "ev_nothing"])
    clock.pass_s(29)
    assert store.sweep().stale_announcements == ()
    clock.pass_s(2)
    assert store.sweep().stale_announcements == ((made.id, "compile"),)


def test_a_clock_set_back_does_not_silence_announcements(store, clock):
    made = accept(store).evaluation
    clock.jump_s(-86400)
    assert store.sweep().stale_announcements == ((made.id, "compile"),)
    assert store.sweep().stale_announcements == ()
