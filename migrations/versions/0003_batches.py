"""Batches: many requests with what is expected of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.create_table(
        "batches",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("against", sa.String(40)),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_batches"),
    )
    op.create_table(
        "batch_cases",
        sa.Column("batch_id", sa.String(40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("plan_id", sa.String(100), nullable=False),
        sa.Column("expectations", sa.Text(), nullable=False),
        sa.Column("reference_seconds", sa.Double()),
        sa.Column("outcome", sa.Text()),
        sa.PrimaryKeyConstraint("batch_id", "number", name="pk_batch_cases"),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["batches.id"],
            name="fk_batch_cases_batch_id_batches",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("batch_cases")
    op.drop_table("batches")
