"""Plans, and the jobs that make them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_IN_FLIGHT = sa.text("status IN ('queued', 'running')")


def upgrade() -> None:
    """Apply the change."""
    op.create_table(
        "plans",
        sa.Column("id", sa.String(100), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text()),
        sa.Column("problem", sa.Text()),
        sa.Column("solver_version", sa.String(100), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("device", sa.String(200)),
        sa.Column("devices", sa.BigInteger()),
        sa.Column("iteration_seconds", sa.Double()),
        sa.Column("gap", sa.Double()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("finished_at", sa.Double()),
        sa.PrimaryKeyConstraint("id", name="pk_plans"),
    )
    op.create_index("ix_plans_created_at_id", "plans", ["created_at", "id"])
    op.create_table(
        "jobs",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            nullable=False,
            autoincrement=True,
        ),
        sa.Column("plan_id", sa.String(100), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(100)),
        sa.Column("progress", sa.Text()),
        sa.Column("deadline_at", sa.Double()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("heartbeat_at", sa.Double()),
        sa.Column("finished_at", sa.Double()),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.ForeignKeyConstraint(
            ["plan_id"], ["plans.id"], name="fk_jobs_plan_id_plans", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_jobs_plan_id", "jobs", ["plan_id"])
    op.create_index("ix_jobs_status_priority_id", "jobs", ["status", "priority", "id"])
    op.create_index(
        "uq_jobs_plan_in_flight",
        "jobs",
        ["plan_id"],
        unique=True,
        sqlite_where=_IN_FLIGHT,
        postgresql_where=_IN_FLIGHT,
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("jobs")
    op.drop_table("plans")
