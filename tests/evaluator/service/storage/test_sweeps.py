"""What sweeps promise: lost work goes on or ends, what waits is announced, what is old goes. On both databases."""

import pytest
from storage_samples import OTHER, accept, ended, finish_next, tallied

from common.contract import Status

LEASE_S = 30


@pytest.fixture
def storage(new_storage, clock):
    return new_storage(clock)


def claim(storage, *queues, worker="w1"):
    return storage.leases.claim(queues or ["compile"], worker, LEASE_S)


def sweep_for(storage, clock, seconds, step_s=1.0):
    """What the sweeps of so many seconds did, put together."""
    requeued, dead, cancelled = [], [], []
    for _ in range(round(seconds / step_s) + 1):
        swept = storage.sweeps.sweep()
        requeued += swept.requeued
        dead += swept.dead
        cancelled += swept.cancelled
        clock.pass_s(step_s)
    return requeued, dead, cancelled


# Leases that are lost


def test_a_lease_that_is_not_renewed_is_lost_after_its_length(storage, clock):
    made = accept(storage).evaluation
    lease = claim(storage)
    assert sweep_for(storage, clock, LEASE_S - 2) == ([], [], [])
    requeued, dead, cancelled = sweep_for(storage, clock, 3)
    assert (requeued, dead, cancelled) == ([(made.id, "compile")], [], [])
    assert not storage.leases.finish(lease, ended(), {}), "late, before anyone else has it"
    second = claim(storage, worker="w2")
    assert second.attempt == 2
    assert not storage.leases.finish(lease, ended(), {}), "late, when someone else has it"
    assert storage.leases.finish(second, ended(message="by the second"), {})
    assert storage.evaluations.get(made.id, None).verdict.message == "by the second"


def test_two_lost_attempts_make_a_dead_letter(storage, clock):
    made = accept(storage).evaluation
    claim(storage)
    assert sweep_for(storage, clock, LEASE_S + 1)[0] == [(made.id, "compile")]
    claim(storage)
    assert sweep_for(storage, clock, LEASE_S + 1) == ([], [made.id], [])
    done = storage.evaluations.get(made.id, None)
    assert (done.state, done.verdict.status, done.verdict.reward) == ("done", "internal_error", None)
    assert "2 times" in done.verdict.message
    assert tallied(storage, "assay_dead_letters_total") == 1
    assert [item.id for item in storage.evaluations.list(None, status=Status.INTERNAL_ERROR).items] == [made.id]


def test_each_stage_has_its_own_attempts(storage, clock):
    made = accept(storage).evaluation
    claim(storage)
    sweep_for(storage, clock, LEASE_S + 1)
    storage.leases.pass_on(claim(storage), "gpu", 0.1)
    claim(storage, "gpu")
    assert sweep_for(storage, clock, LEASE_S + 1)[0] == [(made.id, "gpu")]
    claim(storage, "gpu")
    assert sweep_for(storage, clock, LEASE_S + 1)[1] == [made.id]
    verdict = storage.evaluations.get(made.id, None).verdict
    assert (verdict.backend, verdict.phase) == ("gpu", "launch")


def test_lost_work_that_nobody_wants_is_cancelled(storage, clock):
    made = accept(storage).evaluation
    claim(storage)
    storage.evaluations.drop(made.id, None)
    assert sweep_for(storage, clock, LEASE_S + 1) == ([], [], [made.id])
    assert storage.evaluations.get(made.id, None).verdict.status == "cancelled"


@pytest.mark.parametrize("sign", ["renew", "progress"])
def test_a_worker_that_gives_signs_keeps_its_lease(storage, clock, sign):
    accept(storage)
    lease = claim(storage)
    for _ in range(20):
        assert storage.leases.renew(lease, LEASE_S) if sign == "renew" else storage.leases.progress(lease, "on it")
        assert sweep_for(storage, clock, LEASE_S / 2) == ([], [], [])
    assert storage.leases.finish(lease, ended(), {})


@pytest.mark.parametrize("jump_s", [-86400 * 365, -3600, 3600, 86400 * 365])
def test_a_time_of_day_that_jumps_costs_no_lease(storage, clock, jump_s):
    accept(storage)
    lease = claim(storage)
    storage.sweeps.sweep()
    clock.jump_s(jump_s)
    assert sweep_for(storage, clock, LEASE_S / 2) == ([], [], [])
    assert storage.leases.renew(lease, LEASE_S)
    assert sweep_for(storage, clock, LEASE_S / 2) == ([], [], [])
    assert sweep_for(storage, clock, LEASE_S)[0], "and one that is lost is still found"


def test_an_hour_without_sweeps_costs_no_lease(storage, clock):
    """The machine slept, or there was no database: nobody could renew either."""
    accept(storage)
    lease = claim(storage)
    storage.sweeps.sweep()
    clock.pass_s(3600)
    assert storage.sweeps.sweep().requeued == ()
    assert storage.leases.renew(lease, LEASE_S)
    assert sweep_for(storage, clock, LEASE_S / 2)[0] == []


def test_another_sweeper_may_find_and_both_change_nothing_twice(new_storage, clock):
    here, there = new_storage(clock), new_storage(clock)
    made = accept(here).evaluation
    claim(here)
    requeued = []
    for _ in range(LEASE_S + 2):
        requeued += [*here.sweeps.sweep().requeued, *there.sweeps.sweep().requeued]
        clock.pass_s(1)
    assert requeued == [(made.id, "compile")]
    assert here.evaluations.get(made.id, None).attempt == 1


def test_a_renewal_between_look_and_act_saves_the_lease(storage, clock):
    """The sweeper acts only on the very beat that it has seen."""
    accept(storage)
    lease = claim(storage)
    sweep_for(storage, clock, LEASE_S - 2)
    clock.pass_s(5)
    found = storage.sweeps._look()
    assert len(found) == 1
    storage.leases.renew(lease, LEASE_S)
    storage.sweeps._look = lambda: found
    assert storage.sweeps.sweep().requeued == ()
    assert storage.leases.finish(lease, ended(), {})


# Announcements


def test_what_waits_unclaimed_is_announced_again_ever_more_seldom(storage, clock):
    made = accept(storage, queue="sim").evaluation
    start, times = clock.day, []
    for _ in range(100):
        if storage.sweeps.sweep().stale_announcements:
            times.append(round(clock.day - start))
        clock.pass_s(6)
    assert times == [36, 102, 228, 354, 480]
    assert storage.evaluations.get(made.id, None).version == 1


def test_a_clock_set_back_does_not_silence_announcements(storage, clock):
    made = accept(storage).evaluation
    clock.jump_s(-86400)
    assert storage.sweeps.sweep().stale_announcements == ((made.id, "compile"),)
    assert storage.sweeps.sweep().stale_announcements == ()


# Keeping


def test_what_ended_long_ago_is_deleted_with_all_that_belongs_to_it(storage, clock):
    old = accept(storage, idempotency_key="k", reuse_key="r").evaluation
    waiting = accept(storage).evaluation
    finish_next(storage)
    assert storage.sweeps.retain(3600) == 0
    clock.pass_s(3601)
    made = accept(storage).evaluation
    assert storage.sweeps.retain(3600) == 1
    assert storage.evaluations.get(old.id, "local") is None
    assert [item.id for item in storage.evaluations.list("local").items] == [made.id, waiting.id]
    assert accept(storage, OTHER, idempotency_key="k", reuse_key="r").created


def test_a_clock_that_jumps_for_a_moment_deletes_nothing(storage, clock):
    accept(storage)
    finish_next(storage)
    assert storage.sweeps.retain(3600) == 0
    clock.jump_s(10 * 365 * 86400)
    assert storage.sweeps.retain(3600) == 0
    clock.jump_s(-10 * 365 * 86400)
    assert storage.sweeps.retain(3600) == 0
    clock.pass_s(60)
    assert storage.sweeps.retain(3600) == 0
    clock.pass_s(3600)
    assert storage.sweeps.retain(3600) == 1
