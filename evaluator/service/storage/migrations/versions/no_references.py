"""Why a worker can carry out no caller's reference."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Null for the workers that are there: newer ones say so when they register."""
    op.add_column("workers", sa.Column("no_references", sa.Text(), nullable=True))


def downgrade() -> None:
    """There is no way back: see docs/operators.md."""
    raise NotImplementedError
