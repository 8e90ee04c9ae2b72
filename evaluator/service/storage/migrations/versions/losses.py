"""How often an evaluation lost its worker, and what a worker has to do before it takes anything."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """What was lost before this counts as an attempt, as it did then."""
    op.add_column("evaluations", sa.Column("losses", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("evaluations", sa.Column("lost_at", sa.Double(), nullable=True))
    op.add_column("evaluations", sa.Column("alone", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("workers", sa.Column("preparing", sa.Text(), nullable=True))


def downgrade() -> None:
    """There is no way back: see docs/operators.md."""
    raise NotImplementedError
