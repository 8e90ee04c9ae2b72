"""The first tables."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SEQ = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "evaluations",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=True),
        sa.Column("reuse_key", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("queued_at", sa.Double(), nullable=False),
        sa.Column("announced_at", sa.Double(), nullable=False),
        sa.Column("announcements", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("progress", sa.Text(), nullable=True),
        sa.Column("compiled_s", sa.Double(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("lease_s", sa.Double(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("wanted", sa.Boolean(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_evaluations"),
        sa.UniqueConstraint("id", name="uq_evaluations_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_evaluations_created", "evaluations", ["tenant", "created_at"])
    op.create_index("ix_evaluations_finished", "evaluations", ["finished_at"], **_where("state = 'done'"))
    op.create_index("ix_evaluations_listed", "evaluations", ["tenant", "seq"])
    op.create_index("ix_evaluations_open", "evaluations", ["tenant"], **_where("state != 'done'"))
    op.create_index("ix_evaluations_reuse", "evaluations", ["tenant", "reuse_key", "seq"], **_where("state = 'done'"))
    op.create_index("ix_evaluations_running", "evaluations", ["tenant"], **_where("state = 'running'"))
    op.create_index("ix_evaluations_waiting", "evaluations", ["queue", "tenant", "seq"], **_where("state = 'queued'"))
    op.create_table(
        "keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_sha256", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.Column("per_minute", sa.Integer(), nullable=True),
        sa.Column("concurrent", sa.Integer(), nullable=True),
        sa.Column("admin", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
        sa.UniqueConstraint("secret_sha256", name="uq_keys_secret_sha256"),
    )
    op.create_table(
        "tallies",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("le", sa.Text(), nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", "labels", "le", "shard", name="pk_tallies"),
    )
    op.create_table(
        "tenants",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_tenants"),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("queues", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("arch", sa.Text(), nullable=False),
        sa.Column("toolchain", sa.Text(), nullable=False),
        sa.Column("sandbox", sa.Text(), nullable=False),
        sa.Column("grader_version", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("jobs_done", sa.BigInteger(), nullable=False),
        sa.Column("busy_with", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_table(
        "idempotency",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("seq", SEQ, nullable=False),
        sa.Column("body_sha256", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["seq"], ["evaluations.seq"], name="fk_idempotency_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("tenant", "key", name="pk_idempotency"),
    )
    op.create_index("ix_idempotency_seq", "idempotency", ["seq"])
    op.create_table(
        "submissions",
        sa.Column("seq", SEQ, autoincrement=False, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["seq"], ["evaluations.seq"], name="fk_submissions_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("seq", name="pk_submissions"),
    )
    op.create_table(
        "verdicts",
        sa.Column("seq", SEQ, autoincrement=False, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["seq"], ["evaluations.seq"], name="fk_verdicts_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("seq", name="pk_verdicts"),
    )


def downgrade() -> None:
    """There is nothing before: drop them."""
    for table in ("verdicts", "submissions", "idempotency", "workers", "tenants", "tallies", "keys", "evaluations"):
        op.drop_table(table)
