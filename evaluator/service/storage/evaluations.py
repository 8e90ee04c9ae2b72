"""Evaluations: read, listed, watched for changes, dropped by their callers; and the problems that these stated."""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from sqlalchemy import Select, bindparam, case, func, null, select, update

from common.contract import ProblemFace, Status
from evaluator.errors import UsageError
from evaluator.service.storage.database import Database
from evaluator.service.storage.evaluation_rows import (
    WHOLE,
    end_evaluation,
    listed_evaluation,
    stored_evaluation,
    unwanted_verdict,
)
from evaluator.service.storage.models import (
    ForeignProblem,
    LargeEvaluationError,
    Page,
    State,
    StoredEvaluation,
    Waiting,
)
from evaluator.service.storage.tables import evaluations, foreign_problems, is_queued, submissions, verdicts

_MOST_LISTED: Final = 1000
"""Problems of callers' own in one list."""
_ONCE = 500
"""Rows that one statement names."""

_row = evaluations.c

# Statements of the way that every submission takes are built once: building costs more than running them.
_BY_ID = WHOLE.where(_row.id == bindparam("of_id"))
_BY_ID_OF_TENANT = _BY_ID.where(_row.tenant == bindparam("of_tenant"))
_chars = func.length(submissions.c.body) + func.coalesce(func.length(verdicts.c.body), 0)
_is_small = _chars <= bindparam("max_chars")
_SMALL_BY_ID: Select[Any] = (
    select(
        *_row,
        case((_is_small, submissions.c.body), else_=null()).label("submission"),
        case((_is_small, verdicts.c.body), else_=null()).label("verdict"),
        _chars.label("chars"),
    )
    .join(submissions, submissions.c.seq == _row.seq)
    .outerjoin(verdicts, verdicts.c.seq == _row.seq)
    .where(_row.id == bindparam("of_id"))
)
_SMALL_BY_ID_OF_TENANT = _SMALL_BY_ID.where(_row.tenant == bindparam("of_tenant"))
_VERSIONS = select(_row.id, _row.version, _row.state).where(_row.id.in_(bindparam("of_ids", expanding=True)))


class EvaluationRepository:
    """The one truth about every evaluation, for those who ask for it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listing = threading.Lock()

    def drop(self, evaluation_id: str, tenant: str | None) -> StoredEvaluation | None:
        """The caller lost interest: one that waits ends at once as `cancelled`; for one that runs, `renew` answers
        False from now on, and its worker ends it. What is done stays as it is.

        Answers the evaluation as it is then; None where `tenant` has none of this id (None: any tenant). Raises
        StorageError.
        """
        with self._database.writing() as connection:
            row = connection.execute(select(*_row).where(_of(evaluation_id, tenant)).with_for_update()).first()
            if row is None:
                return None
            if row.state == "queued":
                end_evaluation(connection, row, unwanted_verdict(connection, row), self._database.clock())
            elif row.state == "running" and row.wanted:
                unwanted = update(evaluations).where(_row.seq == row.seq)
                connection.execute(unwanted.values(wanted=False, version=_row.version + 1))
            return stored_evaluation(connection.execute(WHOLE.where(_row.seq == row.seq)).one())

    def get(self, evaluation_id: str, tenant: str | None, max_chars: int | None = None) -> StoredEvaluation | None:
        """One evaluation; None where `tenant` has none of this id (None: any tenant).

        Raises LargeEvaluationError (its texts have more than `max_chars`, which were not read), StorageError.
        """
        of_tenant, any_tenant = (
            (_BY_ID_OF_TENANT, _BY_ID) if max_chars is None else (_SMALL_BY_ID_OF_TENANT, _SMALL_BY_ID)
        )
        names = {"of_id": evaluation_id, "of_tenant": tenant, "max_chars": max_chars}
        with self._database.reading() as connection:
            row = connection.execute(any_tenant if tenant is None else of_tenant, names).first()
        if row is not None and row.submission is None:
            raise LargeEvaluationError(row.chars)
        return None if row is None else stored_evaluation(row)

    def list(
        self,
        tenant: str | None,
        *,
        state: State | None = None,
        status: Status | None = None,
        problem: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """The evaluations of `tenant` (None: of all), newest first, `limit` a page.

        Their texts are not read, so a page is small whatever was sent; one is read at a time. `cursor` is a page's
        `next_cursor`. Raises UsageError for one that this tenant cannot have, StorageError.
        """
        query = select(*_row).order_by(_row.seq.desc()).limit(limit + 1)
        chosen = {_row.tenant: tenant, _row.state: state, _row.status: status, _row.problem: problem}
        for column, value in chosen.items():
            if value is not None:
                query = query.where(column == str(value))
        with self._listing, self._database.reading() as connection:
            if cursor is not None:
                before = connection.execute(select(_row.seq).where(_of(cursor, tenant))).scalar()
                if before is None:
                    raise UsageError(
                        f"There is no page after {cursor!r}: that evaluation is not there (any more).",
                        "Start again with the first page.",
                    )
                query = query.where(_row.seq < before)
            items = tuple(map(listed_evaluation, connection.execute(query)))
        return Page(items[:limit], items[limit - 1].id if len(items) > limit else None)

    def watch(self, ids: Collection[str]) -> dict[str, tuple[int, State]]:
        """(version, state) of each evaluation that exists; cheap, to wait for many. Raises StorageError."""
        seen: dict[str, tuple[int, State]] = {}
        with self._database.reading() as connection:
            for some in _portions(ids):
                for found, version, state in connection.execute(_VERSIONS, {"of_ids": some}):
                    seen[found] = (version, state)
        return seen

    def depth(self) -> Mapping[str, Waiting]:
        """What waits in each queue that has something waiting. Raises StorageError."""
        query = select(_row.queue, func.count().label("count"), func.min(_row.queued_at).label("since"))
        with self._database.reading() as connection:
            rows = connection.execute(query.where(is_queued).group_by(_row.queue)).all()
        now = self._database.clock()
        return {row.queue: Waiting(row._mapping["count"], max(0.0, now - row.since)) for row in rows}


def _portions(ids: Collection[str]) -> Iterator[tuple[str, ...]]:
    rest = iter(ids)
    while some := tuple(islice(rest, _ONCE)):
        yield some


def _of(evaluation_id: str, tenant: str | None) -> Any:
    mine = _row.id == evaluation_id
    return mine if tenant is None else mine & (_row.tenant == tenant)


class ForeignProblemRepository:
    """What is known of the problems that callers state."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, problem_id: str, tenant: str | None) -> ForeignProblem | None:
        """A problem of this tenant (None: of any). Raises StorageError."""
        found = self._read(_seen_by(tenant).where(foreign_problems.c.id == problem_id))
        return found[0] if found else None

    def list(self, tenant: str | None) -> tuple[ForeignProblem, ...]:
        """Those of this tenant (None: of all), what was used last first. Raises StorageError."""
        return tuple(self._read(_seen_by(tenant).limit(_MOST_LISTED)))

    def _read(self, query: Select[Any]) -> Sequence[ForeignProblem]:
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [
            ForeignProblem(
                row.id, row.name, None if row.face is None else ProblemFace.model_validate_json(row.face), row.refusal
            )
            for row in rows
        ]


def _seen_by(tenant: str | None) -> Select[Any]:
    row = foreign_problems.c
    query = select(row.id, row.name, row.face, row.refusal).order_by(row.used_at.desc())
    return query if tenant is None else query.where(row.tenant == tenant)
