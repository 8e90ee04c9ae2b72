"""What the store's tests put in."""

from common.contract import Phase, Status, Submission, Verdict

SUBMISSION = Submission(problem="vector_add", source="__global__ void k() {}")
OTHER = Submission(problem="saxpy", source="__global__ void k() {}")

ROOM = 100_000


def accept(store, submission=SUBMISSION, tenant="local", **options):
    return store.accept(submission, tenant, **{"queue": "compile", "max_queued": ROOM} | options)


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


def tallied(store, name, **labels):
    """The value of one counter; 0 where nothing was counted."""
    return sum(t.value for t in store.tallies() if t.name == name and labels.items() <= t.labels.items())
