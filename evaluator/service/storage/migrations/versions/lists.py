"""What lists show stands beside the texts; how often an evaluation answered; when a key was used last."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_AT_ONCE = 100
"""Verdicts that are in memory at one time."""


def upgrade() -> None:
    """Fill in what is shown of the evaluations that are there."""
    op.add_column("evaluations", sa.Column("backend", sa.Text(), nullable=False, server_default="auto"))
    op.add_column("evaluations", sa.Column("outcome", sa.Text(), nullable=True))
    op.add_column("idempotency", sa.Column("reused_at", sa.Double(), nullable=True))
    op.add_column("keys", sa.Column("used_at", sa.Double(), nullable=True))
    connection = op.get_bind()
    for backend in ("gpu", "sim"):
        # Inside a text of JSON every quotation mark has a backslash before it, so this is the submission's own.
        asked = "SELECT seq FROM submissions WHERE body LIKE :said"
        connection.execute(
            sa.text(f"UPDATE evaluations SET backend = :backend WHERE seq IN ({asked})"),
            {"backend": backend, "said": f'%"backend":"{backend}"%'},
        )
    last = -1
    while True:
        some = sa.text("SELECT seq, body FROM verdicts WHERE seq > :last ORDER BY seq LIMIT :most")
        rows = connection.execute(some, {"last": last, "most": _AT_ONCE}).all()
        if not rows:
            return
        for seq, body in rows:
            connection.execute(
                sa.text("UPDATE evaluations SET outcome = :outcome WHERE seq = :seq"),
                {"outcome": _outcome(json.loads(body)), "seq": seq},
            )
        last = rows[-1].seq


def _outcome(verdict: dict[str, dict[str, object] | None]) -> str:
    correctness, earned = verdict.get("correctness") or {}, verdict.get("reward") or {}
    return json.dumps(
        {
            "status": verdict["status"],
            "backend": verdict["backend"],
            "quick": correctness.get("verification") == "quick",
            "speedup": (verdict.get("timing") or {}).get("speedup"),
            "estimated_speedup": (verdict.get("profile") or {}).get("estimated_speedup"),
            "reward": earned.get("value"),
            "most_reward": earned.get("maximum"),
        }
    )


def downgrade() -> None:
    """There is no way back: see docs/operators.md."""
    raise NotImplementedError
