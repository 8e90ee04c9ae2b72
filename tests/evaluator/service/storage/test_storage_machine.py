"""Everything that may happen to evaluations, in any order, against a model of what the storage promises."""

from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from storage_samples import accept, ended, tallied

from evaluator.service.storage.evaluation_rows import LOSSES_WITHIN_S, MAX_ATTEMPTS, MAX_LOSSES
from evaluator.service.storage.models import Lease

LEASE_S = 30
QUEUES = ["compile", "sim"]


@dataclass
class Expected:
    """What must be true of one evaluation."""

    tenant: str
    state: str = "queued"
    holder: Lease | None = None
    attempt: int = 0
    losses: int = 0
    lost_at: float | None = None
    alone: bool = False
    wanted: bool = True
    queue: str = "compile"
    ended_by: str = ""
    """The message of its verdict."""


class Evaluations(RuleBasedStateMachine):
    """`storage` and `clock` are set by the test below. Examples share the database, and have tenants of their own."""

    storage = clock = None
    example = 0

    leases = Bundle("leases")

    @initialize()
    def begin(self):
        Evaluations.example += 1
        self.model: dict[str, Expected] = {}
        self.keys: dict[str, str] = {}
        self.begun: set[str] = set()

    def held(self, lease):
        return self.model[lease.evaluation_id].holder == lease

    @rule(tenant=st.sampled_from("ab"), key=st.none() | st.sampled_from("xyz"))
    def accept(self, tenant, key):
        tenant = f"{tenant}{self.example}"
        accepted = accept(self.storage, tenant=tenant, idempotency_key=key)
        known = self.keys.get(f"{tenant} {key}")
        assert accepted.created == (key is None or known is None)
        if accepted.created:
            self.model[accepted.evaluation.id] = Expected(tenant)
            self.keys[f"{tenant} {key}"] = accepted.evaluation.id
        else:
            assert accepted.evaluation.id == known

    @rule(target=leases, worker=st.sampled_from(["w1", "w2"]), queues=st.sampled_from([QUEUES, ["compile"], ["sim"]]))
    def claim(self, worker, queues):
        lease = self.storage.leases.claim(queues, worker, LEASE_S)
        waiting = {name: e for name, e in self.model.items() if e.state == "queued" and e.queue in queues}
        if lease is None:
            assert not waiting
            return None
        expected = waiting[lease.evaluation_id]
        oldest_of_tenant = next(name for name, e in waiting.items() if e.tenant == expected.tenant)
        assert lease.evaluation_id == oldest_of_tenant
        running = {e.tenant for e in self.model.values() if e.state == "running"}
        if expected.tenant in running:
            assert {e.tenant for e in waiting.values()} <= self.begun, "who never had anything begun goes first"
        self.begun.add(expected.tenant)
        expected.state, expected.holder, expected.attempt = "running", lease, expected.attempt + 1
        assert (lease.attempt, lease.queue, lease.alone) == (expected.attempt, expected.queue, expected.alone)
        return lease

    @rule(lease=leases)
    def renew(self, lease):
        if lease:
            expected = self.model[lease.evaluation_id]
            assert self.storage.leases.renew(lease, LEASE_S) == (self.held(lease) and expected.wanted)

    @rule(lease=leases)
    def progress(self, lease):
        if lease:
            assert self.storage.leases.progress(lease, "on it") == self.held(lease)

    @rule(lease=leases, by=st.sampled_from(["one", "two"]))
    def finish(self, lease, by):
        if lease:
            expected = self.model[lease.evaluation_id]
            message = f"{by} {lease.token}"
            done = self.storage.leases.finish(lease, ended(message=message), {"compile": 0.1})
            assert done == (self.held(lease) or expected.ended_by == message)
            if self.held(lease):
                expected.state, expected.holder, expected.ended_by = "done", None, message

    @rule(lease=leases, counted=st.booleans())
    def give_back(self, lease, counted):
        if lease:
            held, expected = self.held(lease), self.model[lease.evaluation_id]
            assert self.storage.leases.give_back(lease, counted=counted) == (held and expected.wanted)
            if held:
                self._let_go(expected)
                expected.attempt -= not counted

    @rule(lease=leases)
    def pass_on(self, lease):
        if lease:
            held, expected = self.held(lease), self.model[lease.evaluation_id]
            assert self.storage.leases.pass_on(lease, "sim", 0.1) == (held and expected.wanted)
            if held:
                self._let_go(expected)
                if expected.wanted:
                    expected.attempt, expected.queue, expected.losses, expected.alone = 0, "sim", 0, False
                    expected.lost_at = None

    @rule(lease=leases)
    def lose(self, lease):
        if lease:
            held, expected = self.held(lease), self.model[lease.evaluation_id]
            dies = expected.alone and expected.attempt >= MAX_ATTEMPTS
            assert self.storage.leases.lose(lease) == (held and expected.wanted and not dies)
            if not held:
                return
            if expected.wanted and not dies:
                self._lost(expected, self.clock.day)
            else:
                expected.state, expected.ended_by = "done", "lost" if expected.wanted else "dropped"
            expected.holder = None

    def _lost(self, expected, at):
        expected.state, expected.losses = "queued", expected.losses + 1
        expected.attempt -= not expected.alone
        expected.lost_at = at if expected.lost_at is None else expected.lost_at
        expected.alone |= expected.losses >= MAX_LOSSES or abs(at - expected.lost_at) >= LOSSES_WITHIN_S

    def _let_go(self, expected):
        expected.holder = None
        expected.state = "queued" if expected.wanted else "done"
        expected.ended_by = "" if expected.wanted else "dropped"

    @rule(data=st.data())
    def drop(self, data):
        if self.model:
            chosen = data.draw(st.sampled_from(sorted(self.model)))
            expected = self.model[chosen]
            dropped = self.storage.evaluations.drop(chosen, expected.tenant)
            if expected.state == "queued":
                expected.state, expected.ended_by = "done", "dropped"
            elif expected.state == "running":
                expected.wanted = False
            assert (dropped.state, dropped.wanted) == (expected.state, expected.wanted)

    @rule(lease=consumes(leases), jump_s=st.sampled_from([0, 86400, -86400]))
    def one_goes_silent(self, lease, jump_s):
        """One worker goes silent for a lease's length, the others go on; the time of day is set meanwhile."""
        self.clock.jump_s(jump_s)
        others = [e.holder for e in self.model.values() if e.holder and e.holder != lease]
        requeued, dead, cancelled, at = set(), set(), set(), 0.0
        for _ in range(6):
            for other in others:
                self.storage.leases.progress(other, "on it")
            swept = self.storage.sweeps.sweep()
            at = self.clock.day if swept.requeued else at
            requeued |= {name for name, _ in swept.requeued}
            dead |= set(swept.dead)
            cancelled |= set(swept.cancelled)
            self.clock.pass_s(LEASE_S / 4)
        lost = {lease.evaluation_id} if lease and self.held(lease) else set()
        assert requeued | dead | cancelled == lost
        if lost:
            expected = self.model[lease.evaluation_id]
            expected.holder = None
            if not expected.wanted:
                assert cancelled == lost
                expected.state, expected.ended_by = "done", "dropped"
            elif expected.alone and expected.attempt >= MAX_ATTEMPTS:
                assert dead == lost
                expected.state, expected.ended_by = "done", "lost"
            else:
                assert requeued == lost
                self._lost(expected, at)

    @invariant()
    def the_store_is_as_the_model_says(self):
        states = {name: state for name, (_, state) in self.storage.evaluations.watch(list(self.model)).items()}
        assert states == {name: expected.state for name, expected in self.model.items()}
        queued = sum(expected.state == "queued" for expected in self.model.values())
        assert sum(waiting.count for waiting in self.storage.evaluations.depth().values()) == queued

    def teardown(self):
        for name, expected in self.model.items():
            item = self.storage.evaluations.get(name, expected.tenant)
            assert (item.state == "done") == (item.verdict is not None) == bool(expected.ended_by)
            if expected.ended_by == "dropped":
                assert item.verdict.status == "cancelled"
            elif expected.ended_by == "lost":
                assert item.verdict.status == "internal_error"
            elif expected.ended_by:
                assert item.verdict.message == expected.ended_by
        for name, expected in self.model.items():
            # The next example begins with nothing that waits or runs.
            self.storage.evaluations.drop(name, None)
            assert not expected.holder or self.storage.leases.finish(expected.holder, ended(), {})
        done = self.storage.evaluations.list(None, state="done", limit=100_000).items
        assert tallied(self.storage, "assay_evaluations_finished_total") == len(done)
        assert self.storage.evaluations.depth() == {}


def test_whatever_happens_each_evaluation_ends_once(new_storage, clock):
    machine = type("Machine", (Evaluations,), {"storage": new_storage(clock), "clock": clock})
    quick = settings(
        max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(machine, settings=quick)
