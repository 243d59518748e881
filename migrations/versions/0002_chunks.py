"""Jobs that are taken together, and an index for what is old."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.add_column("jobs", sa.Column("chunk", sa.String(60)))
    op.create_index("ix_jobs_chunk", "jobs", ["chunk"])
    op.create_index("ix_plans_finished_at", "plans", ["finished_at"])


def downgrade() -> None:
    """Take the change back."""
    op.drop_index("ix_plans_finished_at", "plans")
    op.drop_index("ix_jobs_chunk", "jobs")
    op.drop_column("jobs", "chunk")
