"""What each tenant was given of the processors, as the database keeps it: see `fair_share.py` for the rules.

A row of `tenants` holds the tenant's tag and the virtual time at which it last began something; a row of `costs` what
an evaluation of one tenant and problem took lately. All in the caller's transaction.
"""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, select, update

from evaluator.service.storage.database import insert_into
from evaluator.service.storage.models import ALIVE_WITHIN_S
from evaluator.service.storage.sharing.fair_share import (
    OTHERS_S,
    SHORTEST_S,
    Line,
    Running,
    charged_s,
    expected_s,
    in_turn,
    is_to_yield,
    leaves_the_last,
    tag_now,
)
from evaluator.service.storage.tables import costs, evaluations, is_queued, is_running, tenants, workers

_row = evaluations.c
_ANY_PROBLEM = ""
"""In the place of a problem: all of a tenant's."""

_VIRTUAL = select(func.coalesce(func.max(tenants.c.begun_s), 0.0))
_RUNNING = select(_row.seq, _row.tenant, _row.problem, _row.stage, _row.worker, _row.claimed_at).where(is_running)
_CREW = select(workers.c.id, workers.c.queues, workers.c.seen_at).where(~workers.c.draining)
_OTHERS = (
    select(tenants.c.name)
    .where(tenants.c.name != bindparam("but"), tenants.c.served_at > bindparam("since"))
    .where(tenants.c.served_at < bindparam("until"))
    .limit(1)
)
_WAITING = select(_row.tenant).where(is_queued, _row.queue.in_(bindparam("of_queues", expanding=True))).distinct()
_BEGUN = (
    update(tenants)
    .where(tenants.c.name == bindparam("of_tenant"))
    .values(
        turn=select(func.max(tenants.c.turn)).scalar_subquery() + 1,
        begun_s=bindparam("at_tag"),
        served_at=bindparam("now"),
    )
)


def turns(
    connection: Connection, waiting: Any, values: Mapping[str, Any], worker: str, now: float
) -> list[tuple[str, float]]:
    """The tenants of which `worker` may take something now, whose turn it is first, each with its start tag.

    `waiting`: the condition, bound by `values`, under which a row of the evaluations waits for this worker.
    """
    oldest = select(func.min(_row.seq)).where(waiting, _row.tenant == tenants.c.name).scalar_subquery()
    heads = select(tenants.c.name, tenants.c.turn, tenants.c.tag_s, oldest.label("seq")).subquery()
    query = select(heads, _row.problem, _row.stage, _row.yields).join(evaluations, _row.seq == heads.c.seq)
    rows = connection.execute(query, values).all()
    if not rows:
        return []
    begun = connection.execute(_RUNNING).all()
    known = _Known(connection, {row.name for row in rows} | {row.tenant for row in begun})
    running = _running(begun, known, now)
    lines = [
        Line(row.name, row.tag_s, row.turn, known.expected_s(row.name, row.problem, row.stage), row.yields > 0)
        for row in rows
    ]
    crew = _crew(connection, values["of_queues"], now)
    order = in_turn(lines, running, connection.execute(_VIRTUAL).scalar_one())
    return [
        (line.tenant, start)
        for line, start in order
        if worker not in crew
        or not leaves_the_last(line, crew, running, len(lines) > 1 or _others_about(connection, line.tenant, now))
    ]


def note_begun(connection: Connection, tenant: str, start: float, now: float) -> None:
    """A worker has begun something of this tenant, at this start tag."""
    connection.execute(_BEGUN, {"of_tenant": tenant, "at_tag": start, "now": now})


def charge(connection: Connection, row: Row[Any], now: float, used_s: float | None) -> None:
    """Charge what a worker spent on the evaluation of this row, which runs no more.

    `used_s`: processor seconds; None where nobody knows, as of a worker that died: then for how long it had it.
    """
    took_s = charged_s(_ran_s(row, now) if used_s is None else used_s)
    virtual_s = connection.execute(_VIRTUAL).scalar_one()
    its = tenants.c.name == row.tenant
    tag_s = connection.execute(select(tenants.c.tag_s).where(its).with_for_update()).scalar()
    if tag_s is None:  # accepted by no one: a row that a test or a restore has put there
        return
    connection.execute(update(tenants).where(its).values(tag_s=tag_now(tag_s, virtual_s) + took_s, served_at=now))
    for problem in (row.problem, _ANY_PROBLEM):
        name = {"tenant": row.tenant, "problem": problem, "stage": row.stage}
        before_s = connection.execute(select(costs.c.mean_s).filter_by(**name)).scalar()
        new = {"mean_s": expected_s(before_s, took_s), "seen_at": now}
        insert = insert_into(costs, connection.dialect.name).values(name | new)
        connection.execute(insert.on_conflict_do_update(index_elements=list(name), set_=new))


def forget_costs(connection: Connection, unseen_since: float) -> None:
    """Delete what nothing was learned about since then."""
    connection.execute(delete(costs).where(costs.c.seen_at < unseen_since))


def has_to_yield(connection: Connection, evaluation_id: str, token: int, queues: tuple[str, ...], now: float) -> bool:
    """Whether the evaluation that runs under this token is to be handed back, for one that waits in `queues`."""
    seq = connection.execute(
        select(_row.seq).where(_row.id == evaluation_id, _row.token == token, is_running)
    ).scalar()
    waiting = connection.execute(_WAITING, {"of_queues": queues}).scalars().all()
    if seq is None or not waiting:
        return False
    running = _running(connection.execute(_RUNNING).all(), None, now)
    return is_to_yield(seq, waiting, _crew(connection, queues, now), running)


class _Known:
    """What the evaluations of some tenants took lately."""

    def __init__(self, connection: Connection, names: set[str]) -> None:
        query = select(costs.c.tenant, costs.c.problem, costs.c.stage, costs.c.mean_s).where(
            costs.c.tenant.in_(sorted(names))
        )
        self._mean_s: dict[tuple[str, str, str], float] = {
            (row.tenant, row.problem, row.stage): row.mean_s for row in connection.execute(query)
        }

    def expected_s(self, tenant: str, problem: str, stage: str) -> float:
        """Of this problem; else of all that the tenant had judged; else that it is short."""
        whole = self._mean_s.get((tenant, _ANY_PROBLEM, stage), SHORTEST_S)
        return self._mean_s.get((tenant, problem, stage), whole)


def _running(rows: Any, known: _Known | None, now: float) -> list[Running]:
    return [
        Running(
            row.seq,
            row.tenant,
            row.worker or "",
            _ran_s(row, now),
            known.expected_s(row.tenant, row.problem, row.stage) if known else SHORTEST_S,
        )
        for row in rows
    ]


def _ran_s(row: Row[Any], now: float) -> float:
    """For how long a worker has it; nothing where the time of day was set back meanwhile."""
    return 0.0 if row.claimed_at is None else max(0.0, now - row.claimed_at)


def _crew(connection: Connection, queues: tuple[str, ...], now: float) -> frozenset[str]:
    """The workers that live and serve any of these queues. A time of day that jumps empties it, for seconds."""
    return frozenset(
        row.id
        for row in connection.execute(_CREW)
        if abs(now - row.seen_at) <= ALIVE_WITHIN_S and set(queues) & set(json.loads(row.queues))
    )


def _others_about(connection: Connection, tenant: str, now: float) -> bool:
    about = {"but": tenant, "since": now - OTHERS_S, "until": now + OTHERS_S}
    return connection.execute(_OTHERS, about).first() is not None
