"""What each tenant was given of the processors, and what its evaluations take."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Everyone begins with nothing used, and nothing known."""
    op.add_column("evaluations", sa.Column("yields", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("evaluations", sa.Column("claimed_at", sa.Double(), nullable=True))
    op.add_column("tenants", sa.Column("tag_s", sa.Double(), nullable=False, server_default="0"))
    op.add_column("tenants", sa.Column("begun_s", sa.Double(), nullable=False, server_default="0"))
    op.add_column("tenants", sa.Column("served_at", sa.Double(), nullable=True))
    op.create_table(
        "costs",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("mean_s", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "problem", "stage", name="pk_costs"),
    )


def downgrade() -> None:
    """There is no way back: see docs/operators.md."""
    raise NotImplementedError
