"""What was measured of running plans."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.create_table(
        "observations",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("plan_id", sa.String(100), nullable=False),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_observations"),
    )
    op.create_index("ix_observations_plan_id", "observations", ["plan_id", "created_at"])


def downgrade() -> None:
    """Take the change back."""
    op.drop_index("ix_observations_plan_id", "observations")
    op.drop_table("observations")
