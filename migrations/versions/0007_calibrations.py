"""Calibrations that callers fitted to their own runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.create_table(
        "calibrations",
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("version", sa.String(100), nullable=False),
        sa.Column("device", sa.String(200), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version", name="pk_calibrations"),
    )
    op.create_index("ix_calibrations_created_at", "calibrations", ["created_at"])


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("calibrations")
