"""API keys, and who asked for which plan."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("previous_digest", sa.String(64)),
        sa.Column("previous_until", sa.Double()),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("scope", sa.String(20), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double()),
        sa.Column("revoked_at", sa.Double()),
        sa.Column("requests_per_minute", sa.Integer()),
        sa.Column("plans_per_day", sa.Integer()),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
    )
    op.create_index("ix_api_keys_digest", "api_keys", ["digest"], unique=True)
    op.create_index("ix_api_keys_previous_digest", "api_keys", ["previous_digest"])
    op.create_table(
        "asks",
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("plan_id", sa.String(100), nullable=False),
        sa.Column("key_id", sa.String(100), nullable=False),
        sa.Column("asked_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "plan_id", name="pk_asks"),
        sa.ForeignKeyConstraint(
            ["plan_id"], ["plans.id"], name="fk_asks_plan_id_plans", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_asks_plan_id", "asks", ["plan_id"])
    op.create_index("ix_asks_key_id_asked_at", "asks", ["key_id", "asked_at"])


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("asks")
    op.drop_table("api_keys")
