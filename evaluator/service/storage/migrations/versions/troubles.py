"""Why a worker cannot do what it is there for."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Null for the workers that are there: they say so when they next give a sign of life."""
    op.add_column("workers", sa.Column("trouble", sa.Text(), nullable=True))


def downgrade() -> None:
    """There is no way back: see docs/operators.md."""
    raise NotImplementedError
