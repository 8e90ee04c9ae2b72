"""What several repositories do with one evaluation's row, in the caller's transaction: read, requeue, end; and with
the problem that its caller stated.

A row is locked before it is changed: the caller has selected it FOR UPDATE in the transaction of `connection`.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final, Literal

from sqlalchemy import Connection, Row, Select, bindparam, delete, exists, func, insert, select, update

from common.contract import Phase, ProblemFace, Status, Submission, Verdict
from evaluator.errors import InternalError, Ruling, UnknownProblemError
from evaluator.pipeline.without_result import verdict_without_result
from evaluator.service.storage import counters
from evaluator.service.storage.models import (
    ForeignText,
    ListedEvaluation,
    ListedVerdict,
    StoredEvaluation,
    TooManyProblemsError,
    is_gpu_queue,
)
from evaluator.service.storage.sharing import shares
from evaluator.service.storage.tables import evaluations, foreign_problems, is_open, submissions, verdicts

MAX_ATTEMPTS: Final = 2
"""Attempts in one stage; when the last fails, the evaluation ends in `internal_error`. Two: our own fault may be one
of a moment, and one that stays must be told soon."""
MAX_LOSSES: Final = 10
"""Attempts in one stage that may be lost before the job itself is suspected. Where every tenth is killed, ten in a
row are the same job's once in ten thousand million jobs; a job that kills its workers gets there in a minute."""
LOSSES_WITHIN_S: Final = 900.0
"""So long after its first loss a job is suspected at its next one: its caller has waited for long."""

_row = evaluations.c
_foreign = foreign_problems.c
_in_use = exists().where(_row.tenant == _foreign.tenant, _row.problem == _foreign.id, is_open)
"""Evaluations that are not over need the text of their problem."""
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
        outcome=bindparam("of"),
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
        losses=row.losses,
        worker=row.worker,
        wanted=row.wanted,
        version=row.version,
        request_id=row.request_id,
    )


def listed_evaluation(row: Row[Any]) -> ListedEvaluation:
    """One line of a list, of a row of the table `evaluations` alone."""
    outcome = None
    if row.outcome is not None:
        known = json.loads(row.outcome)
        outcome = ListedVerdict(**(known | {"status": Status(known["status"])}))
    return ListedEvaluation(
        id=row.id,
        tenant=row.tenant,
        state=row.state,
        problem=row.problem,
        backend=row.backend,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        progress=row.progress,
        stage=row.stage,
        queue=row.queue,
        attempt=row.attempt,
        wanted=row.wanted,
        version=row.version,
        verdict=outcome,
    )


def submission_of(connection: Connection, seq: int) -> Submission:
    """The submission of one evaluation."""
    return Submission.model_validate_json(connection.execute(_BODY, {"of_seq": seq}).scalar_one())


def requeue_evaluation(
    connection: Connection,
    row: Row[Any],
    now: float,
    reason: str | None,
    used_s: float | None = None,
    **changes: Any,
) -> None:
    """Let it wait again, with `changes` of its row; counted under `reason`, where there is one.

    `used_s`: the processor seconds that it took, where that is known; else its time counts.
    """
    shares.charge(connection, row, now, used_s)
    again = {"state": "queued", "queued_at": now, "announced_at": now, "announcements": 0, "progress": None}
    connection.execute(
        update(evaluations).where(_row.seq == row.seq).values(version=_row.version + 1, **again, **changes)
    )
    if reason is not None:
        counters.count_events(connection, [(counters.REQUEUED, {"reason": reason}, None)])


def end_evaluation(
    connection: Connection,
    row: Row[Any],
    verdict: Verdict,
    now: float,
    more: Iterable[counters.Event] = (),
    used_s: float | None = None,
) -> None:
    """The one place where an evaluation becomes done, which is counted, and `more`. Raises InternalError.

    `used_s`: the processor seconds that it took, where that is known; else its time counts.
    """
    body = verdict.model_dump_json()
    try:
        Verdict.model_validate_json(body)
    except ValueError as error:
        # One verdict that cannot be read back would spoil every list that it is on.
        raise InternalError(error) from error
    if row.state == "running":
        shares.charge(connection, row, now, used_s)
    connection.execute(_NEW_VERDICT, {"seq": row.seq, "body": body})
    outcome = json.dumps(asdict(ListedVerdict.of(verdict)))
    connection.execute(_END, {"of_seq": row.seq, "as": verdict.status.value, "of": outcome, "now": now})
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


def lose_attempt(connection: Connection, row: Row[Any], now: float) -> Literal["requeued", "dead", "cancelled"]:
    """The attempt that runs has ended without a word: its worker vanished, or someone outside ended its processes.

    That is held against nobody, up to a bound. What reaches it is tried alone, where nothing but the job itself is
    left to blame, and only what is lost then counts as an attempt. The time of day, which may jump, at most has a job
    tried alone too soon.
    """
    if not row.wanted:
        end_evaluation(connection, row, unwanted_verdict(connection, row), now)
        return "cancelled"
    losses = row.losses + 1
    if row.alone and row.attempt >= MAX_ATTEMPTS:
        end_evaluation(connection, row, _lost_verdict(connection, row, losses), now)
        counters.count_events(connection, [(counters.DEAD_LETTERS, {}, None)])
        return "dead"
    first_at = now if row.lost_at is None else row.lost_at
    suspected = losses >= MAX_LOSSES or abs(now - first_at) >= LOSSES_WITHIN_S
    changes = {"losses": losses, "lost_at": first_at, "alone": row.alone or suspected}
    requeue_evaluation(connection, row, now, "lost", attempt=row.attempt - (not row.alone), **changes)
    return "requeued"


def _lost_verdict(connection: Connection, row: Row[Any], losses: int) -> Verdict:
    message = (
        f"The grader lost this evaluation {losses} times, at last while nothing else ran beside it: the worker that "
        "had it stopped answering."
    )
    hint = "This is a fault of the grader, not of the submission: submit it again, or ask the operator."
    return _without_result(connection, row, Status.INTERNAL_ERROR, message, hint)


def _without_result(connection: Connection, row: Row[Any], status: Status, message: str, hint: str) -> Verdict:
    submission = submission_of(connection, row.seq)
    on_gpu = is_gpu_queue(row.queue) or (row.queue == "compile" and submission.backend == "gpu")
    begun = Phase.COMPILE if row.stage == "compile" else Phase.LAUNCH
    ruling = Ruling(status, Phase.SCREEN if row.started_at is None else begun, message, hint)
    return verdict_without_result(submission.problem, "gpu" if on_gpu else "sim", ruling)


# ---- the problems that callers state themselves ----


def keep_foreign(connection: Connection, tenant: str, problem: ForeignText, most: int, now: float) -> None:
    """Keep what a tenant sent; of more than `most` the one that was not used for longest goes.

    Raises TooManyProblemsError where all of them are in use, and UnknownProblemError where the same id has another
    text.
    """
    its = (_foreign.tenant == tenant) & (_foreign.id == problem.id)
    before = connection.execute(select(_foreign.text).where(its)).scalar()
    if before is not None:
        if before != problem.text:
            raise UnknownProblemError(
                f"there is another problem '{problem.id}' already", "give the file another name"
            )
        connection.execute(update(foreign_problems).where(its).values(used_at=now))
        return
    count = connection.execute(select(func.count()).where(_foreign.tenant == tenant)).scalar_one()
    if count >= most:
        oldest = (
            select(_foreign.id)
            .where(_foreign.tenant == tenant, ~_in_use)
            .order_by(_foreign.used_at)
            .limit(count - most + 1)
        )
        gone = connection.execute(oldest).scalars().all()
        if len(gone) < count - most + 1:
            raise TooManyProblemsError(most)
        connection.execute(delete(foreign_problems).where(_foreign.tenant == tenant, _foreign.id.in_(gone)))
    new = {"tenant": tenant, "id": problem.id, "name": problem.name, "text": problem.text}
    connection.execute(insert(foreign_problems).values(**new, created_at=now, used_at=now))


def use_foreign(connection: Connection, tenant: str, problem_id: str, now: float) -> None:
    """Say that a problem is used, which a tenant has sent before. Raises UnknownProblemError where it has not."""
    its = (_foreign.tenant == tenant) & (_foreign.id == problem_id)
    if connection.execute(update(foreign_problems).where(its).values(used_at=now)).rowcount != 1:
        raise UnknownProblemError(
            f"there is no problem '{problem_id}' here", "send its text, as the submission's `reference`"
        )


def foreign_text(connection: Connection, tenant: str, problem_id: str) -> ForeignText | None:
    """What stands for a tenant's problem; None for one that is not known."""
    query = select(_foreign.id, _foreign.name, _foreign.text).where(
        _foreign.tenant == tenant, _foreign.id == problem_id
    )
    row = connection.execute(query).first()
    return None if row is None else ForeignText(row.id, row.name, row.text)


def forget_foreign(connection: Connection, unused_since: float) -> None:
    """Delete what nobody has used since then, and what was learned about it."""
    shares.forget_costs(connection, unused_since)
    connection.execute(delete(foreign_problems).where(_foreign.used_at < unused_since, ~_in_use))


def learned_foreign(
    connection: Connection, tenant: str, problem_id: str, face: ProblemFace | None, refusal: str | None
) -> None:
    """Write down what a worker found out: either what kernels' authors see, or why it can be no problem."""
    its = (_foreign.tenant == tenant) & (_foreign.id == problem_id)
    known = {"face": None if face is None else face.model_dump_json(), "refusal": refusal}
    connection.execute(update(foreign_problems).where(its).values(**known))
