"""Which key each worker signs its verdicts with."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Null for the workers that are there: they register anew when they start."""
    op.add_column("workers", sa.Column("signing_key", sa.Text(), nullable=True))


def downgrade() -> None:
    """There is no way back: see docs/operators.md."""
    raise NotImplementedError
