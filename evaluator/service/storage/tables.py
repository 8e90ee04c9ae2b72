"""The tables, as they are after the last migration.

`evaluations` is narrow, since it is written many times for each evaluation; the long texts lie beside it, written
once. Every time of day is seconds since 1970, UTC; every `seq` grows in the order in which evaluations were accepted.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    false,
    literal_column,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Plain(TypeDecorator[str]):
    """Text that every database takes: NUL and lone surrogates, which a caller can send, become replacement signs."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


# SQLite counts up only for a column that is exactly INTEGER.
_SEQ = BigInteger().with_variant(Integer, "sqlite")


def _text(name: str, **options: Any) -> Column[str]:
    return Column(name, Plain, nullable=False, **options)


def _number(name: str, kind: Any = BigInteger) -> Column[Any]:
    return Column(name, kind, nullable=False)


def _of_evaluation(**options: Any) -> Column[int]:
    return Column("seq", _SEQ, ForeignKey("evaluations.seq", ondelete="CASCADE"), nullable=False, **options)


# Written into the statement rather than bound: neither database uses a partial index for a bound value.
QUEUED: ColumnElement[str] = literal_column("'queued'")
RUNNING: ColumnElement[str] = literal_column("'running'")
DONE: ColumnElement[str] = literal_column("'done'")

evaluations = Table(
    "evaluations",
    metadata,
    Column("seq", _SEQ, primary_key=True, autoincrement=True),
    _text("id", unique=True),
    _text("tenant"),
    _text("state"),
    _text("stage"),
    _text("queue"),
    _text("problem"),
    # What lists show of the texts, which they do not read: the backend asked for, and a `ListedVerdict` as JSON.
    _text("backend", server_default="auto"),
    Column("outcome", Plain),
    Column("status", Plain),
    Column("reuse_key", Plain),
    _text("request_id"),
    _number("created_at", Double),
    _number("queued_at", Double),
    _number("announced_at", Double),
    _number("announcements", Integer),
    Column("started_at", Double),
    Column("finished_at", Double),
    Column("progress", Plain),
    Column("compiled_s", Double),
    Column("worked_s", Double),
    _number("attempt", Integer),
    Column("losses", Integer, nullable=False, server_default="0"),
    Column("lost_at", Double),
    Column("alone", Boolean, nullable=False, server_default=false()),
    Column("yields", Integer, nullable=False, server_default="0"),
    Column("claimed_at", Double),
    _number("token"),
    _number("beat"),
    _number("lease_s", Double),
    Column("worker", Plain),
    _number("wanted", Boolean),
    _number("version"),
    # A number is never used twice, even after the newest row was deleted: sweepers know rows by it.
    sqlite_autoincrement=True,
)

_row = evaluations.c
is_queued = _row.state == QUEUED
is_running = _row.state == RUNNING
is_done = _row.state == DONE
is_open = _row.state != DONE


def _index(name: str, *columns: Column[Any], where: Any = None) -> None:
    Index(f"ix_evaluations_{name}", *columns, sqlite_where=where, postgresql_where=where)


_index("waiting", _row.queue, _row.tenant, _row.seq, where=is_queued)
_index("running", _row.tenant, where=is_running)
_index("open", _row.tenant, where=is_open)
_index("reuse", _row.tenant, _row.reuse_key, _row.seq, where=is_done)
_index("finished", _row.finished_at, where=is_done)
_index("listed", _row.tenant, _row.seq)
_index("created", _row.tenant, _row.created_at)

submissions = Table("submissions", metadata, _of_evaluation(primary_key=True, autoincrement=False), _text("body"))

# The primary key is what makes a second verdict impossible, whatever the code does.
verdicts = Table("verdicts", metadata, _of_evaluation(primary_key=True, autoincrement=False), _text("body"))

idempotency = Table(
    "idempotency",
    metadata,
    _text("tenant", primary_key=True),
    _text("key", primary_key=True),
    _of_evaluation(index=True),
    _text("body_sha256"),
    # Null for the key that an evaluation was made with; of those that it answered later, the newest are kept.
    Column("reused_at", Double),
)

tenants = Table(
    "tenants",
    metadata,
    _text("name", primary_key=True),
    _number("turn"),
    Column("tag_s", Double, nullable=False, server_default="0"),
    Column("begun_s", Double, nullable=False, server_default="0"),
    Column("served_at", Double),
)

costs = Table(
    "costs",
    metadata,
    _text("tenant", primary_key=True),
    _text("problem", primary_key=True),
    _text("stage", primary_key=True),
    _number("mean_s", Double),
    _number("seen_at", Double),
)

foreign_problems = Table(
    "foreign_problems",
    metadata,
    _text("tenant", primary_key=True),
    _text("id", primary_key=True),
    _text("name"),
    _text("text"),
    _number("created_at", Double),
    _number("used_at", Double),
    Column("face", Plain),
    Column("refusal", Plain),
)

workers = Table(
    "workers",
    metadata,
    _text("id", primary_key=True),
    _text("host"),
    _number("pid", Integer),
    _text("queues"),
    _text("backend"),
    _text("device"),
    _text("arch"),
    _text("toolchain"),
    _text("sandbox"),
    _text("grader_version"),
    _number("started_at", Double),
    _number("seen_at", Double),
    _number("beat"),
    _number("draining", Boolean),
    _number("jobs_done"),
    Column("signing_key", Plain),
    Column("trouble", Plain),
    Column("no_references", Plain),
    Column("preparing", Plain),
)

keys = Table(
    "keys",
    metadata,
    _text("id", primary_key=True),
    _text("name"),
    _text("secret_sha256", unique=True),
    _number("created_at", Double),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    Column("used_at", Double),
    Column("per_minute", Integer),
    Column("concurrent", Integer),
    _number("admin", Boolean),
)

# One row for each counter or histogram bucket, in `shard`s, so that two who count at once seldom wait for each other.
tallies = Table(
    "tallies",
    metadata,
    _text("name", primary_key=True),
    _text("labels", primary_key=True),
    _text("le", primary_key=True),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    _number("count"),
    _number("total", Double),
)
