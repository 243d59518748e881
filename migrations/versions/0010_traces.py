"""Jobs remember the trace that they were asked in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.add_column("jobs", sa.Column("trace_parent", sa.String(60)))


def downgrade() -> None:
    """Take the change back."""
    with op.batch_alter_table("jobs") as batch:
        batch.drop_column("trace_parent")
