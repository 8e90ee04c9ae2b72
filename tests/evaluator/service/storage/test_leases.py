"""What leases promise to workers: one holder at a time, fair turns, one verdict. On both databases."""

from dataclasses import replace

import pytest
from storage_samples import accept, ended, tallied

from evaluator.service.storage.models import WorkerFacts

LEASE_S = 30


@pytest.fixture
def storage(new_storage, clock):
    return new_storage(clock)


def claim(storage, *queues, worker="w1"):
    return storage.leases.claim(queues or ["compile"], worker, LEASE_S)


# Claiming


def test_a_claim_gives_everything_that_the_work_needs(storage, clock):
    made = accept(storage, request_id="req-1", tenant="t").evaluation
    lease = claim(storage)
    assert (lease.evaluation_id, lease.submission, lease.request_id) == (made.id, made.submission, "req-1")
    assert (lease.stage, lease.queue, lease.attempt, lease.worker, lease.tenant) == (
        "compile",
        "compile",
        1,
        "w1",
        "t",
    )
    assert lease.compiled_s is None
    running = storage.evaluations.get(made.id, None)
    assert (running.state, running.worker, running.attempt, running.started_at) == ("running", "w1", 1, clock.day)
    assert claim(storage) is None


def test_only_the_queues_asked_for_are_claimed(storage):
    accept(storage, queue="gpu.GPU-1")
    made = accept(storage, queue="sim").evaluation
    assert claim(storage, "compile", "sim").evaluation_id == made.id
    assert claim(storage, "compile", "sim") is None
    assert storage.leases.claim([], "w", LEASE_S) is None
    assert claim(storage, "gpu.GPU-1").queue == "gpu.GPU-1"


def test_each_tenants_oldest_comes_first(storage):
    made = [accept(storage, queue=queue).evaluation.id for queue in ("sim", "compile", "sim", "compile")]
    assert [claim(storage, "compile", "sim").evaluation_id for _ in made] == made


def test_a_single_worker_serves_tenants_in_turn(storage):
    for _ in range(6):
        accept(storage, tenant="greedy")
    for _ in range(3):
        accept(storage, tenant="modest")
    served = []
    while lease := claim(storage):
        served.append(lease.tenant)
        storage.leases.finish(lease, ended(), {})
    assert served == ["greedy", "modest"] * 3 + ["greedy"] * 3


def test_many_workers_share_themselves_among_tenants(storage):
    for _ in range(8):
        accept(storage, tenant="greedy")
    held = [claim(storage) for _ in range(4)]
    for _ in range(8):
        accept(storage, tenant="modest")
    served = [claim(storage).tenant for _ in range(4)]
    assert served == ["modest"] * 4, "who has nothing running comes first"
    assert all(lease.tenant == "greedy" for lease in held)


# Working


def test_progress_is_seen(storage):
    made = accept(storage).evaluation
    lease = claim(storage)
    assert storage.leases.progress(lease, "compiling")
    assert storage.evaluations.get(made.id, None).progress == "compiling"


def test_compiled_work_waits_for_its_judge(storage):
    made = accept(storage).evaluation
    lease = claim(storage)
    assert storage.leases.pass_on(lease, "sim", 0.25, 0.75)
    waiting = storage.evaluations.get(made.id, None)
    assert (waiting.state, waiting.stage, waiting.queue, waiting.attempt) == ("queued", "judge", "sim", 0)
    assert not storage.leases.finish(lease, ended(), {})
    judge = claim(storage, "sim", worker="w2")
    assert (judge.stage, judge.compiled_s, judge.worked_s, judge.attempt) == ("judge", 0.25, 0.75, 1)
    assert judge.token > lease.token
    assert storage.leases.finish(judge, ended(), {})


def test_work_handed_back_keeps_its_place_and_its_attempts(storage):
    first = accept(storage).evaluation
    accept(storage)
    for _ in range(5):
        lease = claim(storage)
        assert (lease.evaluation_id, lease.attempt) == (first.id, 1)
        assert storage.leases.give_back(lease)
        assert not storage.leases.give_back(lease)
    assert tallied(storage, "assay_evaluations_requeued_total", reason="handed_back") == 5


def test_a_fault_of_ours_is_tried_again_and_counted(storage):
    accept(storage)
    assert storage.leases.give_back(claim(storage), counted=True)
    assert claim(storage).attempt == 2


def test_a_verdict_is_final(storage, clock):
    made = accept(storage).evaluation
    lease = claim(storage)
    clock.pass_s(2)
    assert storage.leases.finish(lease, ended(), {"compile": 0.2})
    assert storage.leases.finish(lease, ended(), {"compile": 0.2}), "a repeat whose first answer got lost"
    assert not storage.leases.finish(lease, ended(message="another"), {})
    assert not storage.leases.progress(lease, "still here")
    assert not storage.leases.renew(lease, LEASE_S)
    assert not storage.leases.give_back(lease)
    assert not storage.leases.pass_on(lease, "sim", 0.1)
    done = storage.evaluations.get(made.id, None)
    assert (done.verdict, done.finished_at, done.progress) == (ended(), clock.day, None)
    assert tallied(storage, "assay_evaluations_finished_total", status="unsupported", backend="sim") == 1
    assert tallied(storage, "assay_phase_seconds_sum", phase="compile") == pytest.approx(0.2)


def test_a_token_that_was_never_given_opens_nothing(storage):
    accept(storage)
    lease = claim(storage)
    for forged in (replace(lease, token=lease.token + 1), replace(lease, evaluation_id="ev_nothing")):
        assert not storage.leases.finish(forged, ended(), {})
        assert not storage.leases.renew(forged, LEASE_S)


# Shares


def test_who_used_more_processor_time_waits_however_few_he_has_running(storage):
    for tenant in ("heavy", "light"):
        for _ in range(8):
            accept(storage, tenant=tenant)
    served = []
    for _ in range(8):
        lease = claim(storage)
        served.append(lease.tenant)
        storage.leases.finish(lease, ended(), {}, used_s=4.0 if lease.tenant == "heavy" else 1.0)
    assert served.count("light") > 2 * served.count("heavy") > 0


def test_what_a_dead_worker_had_is_charged_by_its_time(storage, clock):
    for tenant in ("heavy", "light"):
        for _ in range(4):
            accept(storage, tenant=tenant)
    heavy = claim(storage)
    clock.pass_s(6)
    assert storage.leases.give_back(heavy, counted=True)
    served = []
    for _ in range(4):
        lease = claim(storage)
        served.append(lease.tenant)
        storage.leases.finish(lease, ended(), {}, used_s=1.0)
    assert served == ["light"] * 4


def register(storage, clock, *names):
    for name in names:
        facts = ("host", 1, ("compile", "sim"), "sim", "d", "sm_80", "nvcc", "process", "1", clock.day, clock.day)
        storage.workers.register(WorkerFacts(name, *facts))


def test_a_tenant_that_holds_every_worker_hands_the_youngest_back(storage, clock):
    register(storage, clock, "w1", "w2")
    for _ in range(3):
        accept(storage, tenant="neighbour")
    old = claim(storage, worker="w1")
    clock.pass_s(3)
    young = claim(storage, worker="w2")
    clock.pass_s(3)
    queues = ("compile", "sim")
    assert not storage.leases.has_to_yield(young, queues), "nobody else waits"
    made = accept(storage, tenant="stranger").evaluation
    assert not storage.leases.has_to_yield(old, queues)
    assert storage.leases.has_to_yield(young, queues)
    assert storage.leases.give_back(young, yielded=True)
    assert tallied(storage, "assay_evaluations_requeued_total", reason="yielded") == 1
    assert not storage.leases.has_to_yield(young, queues), "it runs no more"
    lease = claim(storage, worker="w2")
    assert (lease.evaluation_id, lease.attempt) == (made.id, 1)
    storage.leases.finish(lease, ended(), {}, used_s=0.5)
    assert claim(storage, worker="w2") is None, "the next stranger finds a worker"
    storage.leases.finish(old, ended(), {}, used_s=30.0)
    again = claim(storage, worker="w1")
    assert (again.evaluation_id, again.attempt) == (young.evaluation_id, 1), "it is tried again, and none was counted"


def test_alone_a_tenant_uses_all_workers_for_long_work(storage, clock):
    register(storage, clock, "w1", "w2")
    for _ in range(3):
        accept(storage, tenant="only")
    storage.leases.finish(claim(storage, worker="w1"), ended(), {}, used_s=30.0)
    assert claim(storage, worker="w1") is not None
    assert claim(storage, worker="w2") is not None
