"""What stands for the problems that callers state themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A table of texts by caller and id, and what is known of each."""
    op.create_table(
        "foreign_problems",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("used_at", sa.Double(), nullable=False),
        sa.Column("face", sa.Text(), nullable=True),
        sa.Column("refusal", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "id", name="pk_foreign_problems"),
    )


def downgrade() -> None:
    """There is no way back: see docs/operators.md."""
    raise NotImplementedError
