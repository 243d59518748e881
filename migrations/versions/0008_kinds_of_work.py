"""Work of other kinds than plans: capacity curves and contingencies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.add_column("plans", sa.Column("kind", sa.String(20), nullable=False, server_default="plan"))


def downgrade() -> None:
    """Take the change back."""
    with op.batch_alter_table("plans") as batch:
        batch.drop_column("kind")
