"""What sweeps promise: lost work goes on or ends, what waits is announced, what is old goes. On both databases."""

import pytest
from storage_samples import OTHER, SUBMISSION, accept, claim_of, ended, finish_next, tallied

from common.contract import Status
from evaluator.service.storage.evaluation_rows import LOSSES_WITHIN_S, MAX_ATTEMPTS, MAX_LOSSES
from evaluator.service.storage.models import WorkerFacts

LEASE_S = 30


def facts(**changes):
    known = dict.fromkeys(("device", "arch", "toolchain", "sandbox", "grader_version"), "any")
    return WorkerFacts(
        **{"id": "w1", "host": "here", "pid": 1, "queues": ("compile",), "backend": "sim", **known, **changes},
        started_at=0.0,
        seen_at=0.0,
    )


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
    assert (second.attempt, storage.evaluations.get(made.id, None).losses) == (1, 1), "held against nobody"
    assert not storage.leases.finish(lease, ended(), {}), "late, when someone else has it"
    assert storage.leases.finish(second, ended(message="by the second"), {})
    assert storage.evaluations.get(made.id, None).verdict.message == "by the second"


def lose(storage, times, *queues):
    """Claim what is next, and have it taken away, so often; the last lease."""
    for _ in range(times):
        lease = claim(storage, *queues)
        assert storage.leases.lose(lease)
    return lease


def test_what_is_lost_again_and_again_is_tried_alone_before_it_is_blamed(storage, clock):
    made = accept(storage).evaluation
    assert not lose(storage, MAX_LOSSES).alone
    assert lose(storage, MAX_ATTEMPTS - 1).alone
    assert claim(storage).alone
    assert tallied(storage, "assay_tried_alone_total") == MAX_ATTEMPTS
    assert sweep_for(storage, clock, LEASE_S + 1) == ([], [made.id], [])
    done = storage.evaluations.get(made.id, None)
    assert (done.state, done.verdict.status, done.verdict.reward) == ("done", "internal_error", None)
    assert f"{MAX_LOSSES + MAX_ATTEMPTS} times" in done.verdict.message
    assert tallied(storage, "assay_dead_letters_total") == 1
    assert [item.id for item in storage.evaluations.list(None, status=Status.INTERNAL_ERROR).items] == [made.id]


def test_what_was_lost_for_long_is_tried_alone_too(storage, clock):
    accept(storage)
    lose(storage, 1)
    clock.pass_s(LOSSES_WITHIN_S + 1)
    assert not lose(storage, 1).alone
    assert claim(storage).alone


def test_a_fault_of_ours_counts_beside_losses(storage):
    accept(storage)
    lose(storage, MAX_LOSSES - 1)
    assert storage.leases.give_back(claim(storage), counted=True)
    lose(storage, 1)
    last = claim(storage)
    assert (last.alone, last.attempt) == (True, 2)
    assert not storage.leases.lose(last), "it was lost while it was alone, after an attempt that counted"


def test_while_one_is_tried_alone_its_host_takes_nothing_else(storage, clock):
    for name, host in (("w1", "here"), ("w2", "here"), ("w3", "there")):
        storage.workers.register(facts(id=name, host=host))
    suspect = accept(storage).evaluation
    lose(storage, MAX_LOSSES)
    company = accept(storage, OTHER, tenant="b")
    beside = claim_of(storage, company.evaluation.id, worker="w2")
    alone = claim(storage)
    assert (alone.evaluation_id, alone.alone) == (suspect.id, True)
    accept(storage, OTHER, tenant="b")
    assert storage.leases.has_company(alone)
    assert claim(storage, worker="w2") is None
    elsewhere = claim(storage, worker="w3")
    assert elsewhere is not None, "another host has nothing to do with it"
    storage.leases.finish(beside, ended(), {})
    assert not storage.leases.has_company(alone)
    accept(storage, OTHER, tenant="b")
    assert claim(storage, worker="w2") is None
    assert storage.leases.finish(alone, ended(), {}), "it is innocent"
    assert claim(storage, worker="w2") is not None
    assert tallied(storage, "assay_dead_letters_total") == 0


def test_of_two_that_are_to_be_alone_the_older_goes_first(storage, new_storage, clock):
    for name in ("w1", "w2"):
        storage.workers.register(facts(id=name))
    accept(storage)
    lose(storage, MAX_LOSSES)
    older = claim(storage)
    accept(storage, OTHER, tenant="b")
    # Two claims at the same moment may both find the host free: as if the workers were not known yet.
    storage.workers.gone("w2")
    lose_of_b = [storage.leases.lose(claim(storage, worker="w2")) for _ in range(MAX_LOSSES)]
    assert all(lose_of_b)
    younger = claim(storage, worker="w2")
    storage.workers.register(facts(id="w2"))
    assert older.alone
    assert younger.alone
    assert not storage.leases.has_company(older)
    assert storage.leases.has_company(younger)


def test_each_stage_has_its_own_attempts(storage, clock):
    made = accept(storage).evaluation
    lose(storage, MAX_LOSSES)
    storage.leases.pass_on(claim(storage), "gpu", 0.1)
    assert not lose(storage, MAX_LOSSES, "gpu").alone
    lose(storage, MAX_ATTEMPTS - 1, "gpu")
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
    assert here.evaluations.get(made.id, None).losses == 1


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


# What waits for nobody


def passed_on(storage, backend):
    made = accept(storage, SUBMISSION.model_copy(update={"backend": backend})).evaluation
    assert storage.leases.pass_on(claim_of(storage, made.id), "gpu", 0.5, 1.0)
    return made.id


def swept_beside(storage, clock, seconds, *alive):
    """What the sweeps of so many seconds routed anew, while these workers say that they live."""
    rerouted = []
    for _ in range(seconds):
        assert all(storage.workers.seen(worker) for worker in alive)
        rerouted += storage.sweeps.sweep().rerouted
        clock.pass_s(1)
    return rerouted


def test_what_may_run_anywhere_begins_again_where_the_last_worker_with_a_gpu_is_gone(storage, clock):
    storage.workers.register(facts(queues=("compile", "sim")))
    storage.workers.register(facts(id="g1", queues=("compile", "gpu"), backend="gpu"))
    anywhere, on_gpu = passed_on(storage, "auto"), passed_on(storage, "gpu")
    assert swept_beside(storage, clock, 40, "w1", "g1") == [], "a queue may be as long as it will"
    storage.workers.gone("g1")
    assert swept_beside(storage, clock, 28, "w1") == []
    storage.workers.register(facts(id="g2", queues=("compile", "gpu"), backend="gpu"))
    assert swept_beside(storage, clock, 3, "w1", "g2") == [], "it was started again"
    storage.workers.gone("g2")
    assert swept_beside(storage, clock, 29, "w1") == []
    assert swept_beside(storage, clock, 5, "w1") == [(anywhere, "compile")]
    begun = storage.evaluations.get(anywhere, None)
    assert (begun.state, begun.stage, begun.queue, begun.attempt) == ("queued", "compile", "compile", 0)
    assert claim(storage).evaluation_id == anywhere
    assert storage.evaluations.get(on_gpu, None).queue == "gpu"


def test_where_nobody_else_can_judge_it_waits_for_a_gpu(storage, clock):
    storage.workers.register(facts())
    waits = passed_on(storage, "auto")
    assert swept_beside(storage, clock, 60, "w1") == []
    assert storage.evaluations.get(waits, None).queue == "gpu"


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
