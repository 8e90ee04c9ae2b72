"""What several repositories do with one evaluation's row, in the caller's transaction: read, requeue, end.

A row is locked before it is changed: the caller has selected it FOR UPDATE in the transaction of `connection`.
"""

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, bindparam, insert, select, update

from common.contract import Phase, Status, Submission, Verdict
from evaluator.errors import InternalError, Ruling
from evaluator.pipeline.without_result import verdict_without_result
from evaluator.service.storage import counters
from evaluator.service.storage.models import StoredEvaluation, is_gpu_queue
from evaluator.service.storage.tables import evaluations, submissions, verdicts

MAX_ATTEMPTS: Final = 2
"""Attempts in one stage; when the last is lost or fails, the evaluation ends in `internal_error`. Two: a submission
that kills its worker must not be tried again without end, and one that met a dying machine must not suffer for it."""

_row = evaluations.c
WHOLE: Final[Select[Any]] = (
    select(*_row, submissions.c.body.label("submission"), verdicts.c.body.label("verdict"))
    .join(submissions, submissions.c.seq == _row.seq)
    .outerjoin(verdicts, verdicts.c.seq == _row.seq)
)
"""Evaluations with their texts: rows that `stored_evaluation` reads."""

# Statements of the way that every evaluation takes are built once: building costs more than running them.
_BODY = select(submissions.c.body).where(submissions.c.seq == bindparam("of_seq"))
_NEW_VERDICT = insert(verdicts)
_END = (
    update(evaluations)
    .where(_row.seq == bindparam("of_seq"))
    .values(
        state="done",
        status=bindparam("as"),
        finished_at=bindparam("now"),
        progress=None,
        version=_row.version + 1,
    )
)


def stored_evaluation(row: Row[Any]) -> StoredEvaluation:
    """The evaluation of a row of `WHOLE`."""
    verdict = None if row.verdict is None else Verdict.model_validate_json(row.verdict)
    return evaluation_of(row, Submission.model_validate_json(row.submission), verdict)


def evaluation_of(row: Row[Any], submission: Submission, verdict: Verdict | None = None) -> StoredEvaluation:
    """The evaluation of a row of the table `evaluations` alone."""
    return StoredEvaluation(
        id=row.id,
        tenant=row.tenant,
        state=row.state,
        submission=submission,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        progress=row.progress,
        verdict=verdict,
        stage=row.stage,
        queue=row.queue,
        attempt=row.attempt,
        worker=row.worker,
        wanted=row.wanted,
        version=row.version,
        request_id=row.request_id,
    )


def submission_of(connection: Connection, seq: int) -> Submission:
    """The submission of one evaluation."""
    return Submission.model_validate_json(connection.execute(_BODY, {"of_seq": seq}).scalar_one())


def requeue_evaluation(connection: Connection, row: Row[Any], now: float, reason: str | None, **changes: Any) -> None:
    """Let it wait again, with `changes` of its row; counted under `reason`, where there is one."""
    again = {"state": "queued", "queued_at": now, "announced_at": now, "announcements": 0}
    connection.execute(
        update(evaluations).where(_row.seq == row.seq).values(version=_row.version + 1, **again, **changes)
    )
    if reason is not None:
        counters.count_events(connection, [(counters.REQUEUED, {"reason": reason}, None)])


def end_evaluation(
    connection: Connection, row: Row[Any], verdict: Verdict, now: float, more: Iterable[counters.Event] = ()
) -> None:
    """The one place where an evaluation becomes done, which is counted, and `more`. Raises InternalError."""
    body = verdict.model_dump_json()
    try:
        Verdict.model_validate_json(body)
    except ValueError as error:
        # One verdict that cannot be read back would spoil every list that it is on.
        raise InternalError(error) from error
    connection.execute(_NEW_VERDICT, {"seq": row.seq, "body": body})
    connection.execute(_END, {"of_seq": row.seq, "as": verdict.status.value, "now": now})
    events: list[counters.Event] = [
        *more,
        (counters.FINISHED, {"status": verdict.status.value, "backend": verdict.backend}, None),
        (counters.TURNAROUND, {}, now - row.created_at),
    ]
    if row.started_at is not None:
        events.append((counters.WAITING, {}, row.started_at - row.created_at))
    if verdict.compile is not None and verdict.compile.succeeded is not None:
        events.append((counters.COMPILATIONS, {"cached": str(verdict.compile.cached).lower()}, None))
    counters.count_events(connection, events)


def unwanted_verdict(connection: Connection, row: Row[Any]) -> Verdict:
    """The verdict of an evaluation that was cancelled."""
    message = "The caller dropped this evaluation before it had a verdict."
    return _without_result(connection, row, Status.CANCELLED, message, "Submit it again to have it judged.")


def lost_verdict(connection: Connection, row: Row[Any]) -> Verdict:
    """The verdict of an evaluation of which every attempt was lost."""
    message = f"The grader lost this evaluation {row.attempt} times: the worker that had it stopped answering."
    hint = "This is a fault of the grader, not of the submission: submit it again, or ask the operator."
    return _without_result(connection, row, Status.INTERNAL_ERROR, message, hint)


def _without_result(connection: Connection, row: Row[Any], status: Status, message: str, hint: str) -> Verdict:
    submission = submission_of(connection, row.seq)
    on_gpu = is_gpu_queue(row.queue) or (row.queue == "compile" and submission.backend == "gpu")
    begun = Phase.COMPILE if row.stage == "compile" else Phase.LAUNCH
    ruling = Ruling(status, Phase.SCREEN if row.started_at is None else begun, message, hint)
    return verdict_without_result(submission.problem, "gpu" if on_gpu else "sim", ruling)
