"""What the tests of the repositories put in."""

import tempfile
from functools import cache
from pathlib import Path

from common.contract import Phase, Status, Submission, Verdict
from evaluator.service.storage.models import FIRST_QUEUE, Accepted, Asked
from evaluator.service.storage.storage import open_storage

SUBMISSION = Submission(problem="vector_add", source="__global__ void k() {}")
OTHER = Submission(problem="saxpy", source="__global__ void k() {}")

ROOM = 100_000


@cache
def _empty_sqlite():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "assay.db")
        made = open_storage(f"sqlite:///{file}")
        made.database.upgrade()
        made.database.close()
        return file.read_bytes()


def empty_sqlite(file):
    """The address of a database with all tables and no rows: a copy, since migrations take 0.1 s each time."""
    file.write_bytes(_empty_sqlite())
    file.chmod(0o600)
    return f"sqlite:///{file}"


def accept(storage, submission=SUBMISSION, tenant="local", *, max_queued=ROOM, queue=FIRST_QUEUE, **more):
    """Take one submission in; raises what refuses it."""
    answers = storage.submissions.accept_all([Asked(submission, tenant, queue, **more)], max_queued=max_queued)
    if not isinstance(answers[0], Accepted):
        raise answers[0]
    return answers[0]


def claim_of(storage, evaluation_id, queue=FIRST_QUEUE, worker="w1", lease_s=30):
    """The lease of this very evaluation: those before it are claimed too, and given back."""
    before = []
    while (lease := storage.leases.claim([queue], worker, lease_s)).evaluation_id != evaluation_id:
        before.append(lease)
    for one in before:
        assert storage.leases.give_back(one)
    return lease


def ended(status=Status.UNSUPPORTED, message="This is how it ended."):
    """A verdict without a result."""
    return Verdict(
        status=status,
        phase=Phase.LAUNCH,
        message=message,
        hint=None,
        backend="sim",
        problem="vector_add",
        compile=None,
        correctness=None,
        timing=None,
        profile=None,
        reward=None,
        receipt=None,
    )


def finish_next(storage, verdict=None):
    """Claim what is next in the first queue, and finish it; its id."""
    lease = storage.leases.claim([FIRST_QUEUE], "w1", 30)
    assert storage.leases.finish(lease, verdict or ended(), {})
    return lease.evaluation_id


def tallied(storage, name, **labels):
    """The value of one counter; 0 where nothing was counted."""
    return sum(t.value for t in storage.counters.tallies() if t.name == name and labels.items() <= t.labels.items())
