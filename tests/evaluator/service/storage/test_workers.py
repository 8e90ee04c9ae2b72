"""Who works, and who lives. On both databases."""

from dataclasses import replace

import pytest
from storage_samples import accept, claim_of, ended

from evaluator.service.storage.models import WorkerFacts, backend_of, is_gpu_queue, is_queue

ALIVE_S = 20


@pytest.fixture
def storage(new_storage, clock):
    return new_storage(clock)


@pytest.fixture
def facts(clock):
    return WorkerFacts(
        id="w1",
        host="here",
        pid=42,
        queues=("compile", "sim"),
        backend="sim",
        device="simulator",
        arch="sm_80",
        toolchain="nvcc 13.0.88",
        sandbox="bubblewrap",
        grader_version="0.1.0",
        started_at=clock.day,
        seen_at=clock.day,
    )


def alive(storage):
    return [worker.id for worker in storage.workers.fleet(ALIVE_S)]


def test_a_worker_is_known_by_its_facts(storage, facts):
    storage.workers.register(facts)
    assert storage.workers.fleet(ALIVE_S) == (facts,)
    assert storage.workers.seen("w1", draining=True)
    assert storage.workers.fleet(ALIVE_S) == (replace(facts, draining=True),)
    storage.workers.register(replace(facts, pid=43, queues=("sim",)))
    assert storage.workers.fleet(ALIVE_S) == (replace(facts, pid=43, queues=("sim",)),)
    storage.workers.gone("w1")
    assert storage.workers.fleet(ALIVE_S) == ()
    assert not storage.workers.seen("w1"), "it must register again"


def test_its_finished_evaluations_are_counted(storage, facts):
    storage.workers.register(facts)
    for _ in range(3):
        accept(storage)
        storage.leases.finish(storage.leases.claim(["compile"], "w1", 30), ended(), {})
    assert storage.workers.fleet(ALIVE_S)[0].jobs_done == 3


def _ends(storage, lease):
    assert storage.leases.finish(lease, ended(), {})


def _hands_on(storage, lease):
    assert storage.leases.pass_on(lease, "sim", 0.1)


def _gives_back(storage, lease):
    assert storage.leases.give_back(lease)


@pytest.mark.parametrize("let_go", [_ends, _hands_on, _gives_back])
def test_a_worker_is_busy_from_the_claim_until_it_lets_go_and_no_longer(storage, facts, let_go):
    storage.workers.register(facts)
    storage.workers.register(replace(facts, id="w2"))
    made = [accept(storage).evaluation.id for _ in range(3)]
    leases = [storage.leases.claim(["compile"], worker, 30) for worker in ("w1", "w2")]
    assert [worker.busy_with for worker in storage.workers.fleet(ALIVE_S)] == made[:2]
    let_go(storage, leases[0])
    assert storage.workers.seen("w1")
    assert [worker.busy_with for worker in storage.workers.fleet(ALIVE_S)] == [None, made[1]]
    claim_of(storage, made[2])
    assert [worker.busy_with for worker in storage.workers.fleet(ALIVE_S)] == [made[2], made[1]]


@pytest.mark.parametrize(
    ("queue", "exists", "backend"),
    [
        *(("compile", True, "sim"), ("sim", True, "sim"), ("gpu", True, "gpu"), ("gpu.GPU-0a-1", True, "gpu")),
        *(("gpus", False, "sim"), ("gpu.", False, "gpu"), ("gpu.a/b", False, "gpu"), ("", False, "sim")),
    ],
)
def test_a_queue_says_by_its_name_what_judges(facts, queue, exists, backend):
    assert (is_queue(queue), backend_of(queue)) == (exists, backend)
    assert is_gpu_queue(queue) == replace(facts, queues=("compile", queue)).serves_gpu == (backend == "gpu")


def test_a_worker_lives_while_its_signs_keep_coming(storage, facts, clock):
    storage.workers.register(facts)
    for _ in range(10):
        assert alive(storage) == ["w1"]
        clock.pass_s(ALIVE_S - 1)
        storage.workers.seen("w1")
    assert alive(storage) == ["w1"]
    clock.pass_s(ALIVE_S + 1)
    assert alive(storage) == []
    storage.workers.seen("w1")
    assert alive(storage) == ["w1"]


@pytest.mark.parametrize("jump_s", [-86400, 86400])
def test_a_time_of_day_that_jumps_kills_no_worker(storage, facts, clock, jump_s):
    storage.workers.register(facts)
    assert alive(storage) == ["w1"]
    clock.jump_s(jump_s)
    assert alive(storage) == ["w1"]
    clock.pass_s(ALIVE_S + 1)
    assert alive(storage) == [], "and revives none"


def test_a_new_process_takes_no_old_row_for_a_living_worker(storage, new_storage, facts, clock):
    storage.workers.register(facts)
    clock.pass_s(ALIVE_S + 1)
    assert alive(new_storage(clock)) == []
    storage.workers.seen("w1")
    assert alive(new_storage(clock)) == ["w1"]


def test_workers_not_seen_for_as_long_as_evaluations_are_kept_are_forgotten(storage, facts, clock):
    storage.workers.register(facts)
    clock.pass_s(3601)
    storage.workers.register(replace(facts, id="w2"))
    storage.sweeps.retain(3600)
    assert not storage.workers.seen("w1")
    assert storage.workers.seen("w2")
