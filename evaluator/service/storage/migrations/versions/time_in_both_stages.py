"""The time of work in the compile stage goes along; what a worker is busy with is read from the leases alone."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the one, and drop what the other made superfluous."""
    op.add_column("evaluations", sa.Column("worked_s", sa.Double(), nullable=True))
    with op.batch_alter_table("workers") as workers:
        workers.drop_column("busy_with")


def downgrade() -> None:
    """There is no way back: see docs/operators.md."""
    raise NotImplementedError
