"""The tables. Times are seconds since the epoch, JSON is kept as the text that is served."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Base of the tables; the naming convention keeps constraint names stable."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class PlanRow(Base):
    """A plan that was asked for. ``answer`` is written once and never changed.

    ``kind`` is ``plan``, or what else was asked and is worked out as a job (``service.studies``).
    """

    __tablename__ = "plans"
    __table_args__ = (
        Index("ix_plans_created_at_id", "created_at", "id"),
        Index("ix_plans_finished_at", "finished_at"),
    )

    id: Mapped[str] = mapped_column(String(100), primary_key=True)
    kind: Mapped[str] = mapped_column(String(20), default="plan", server_default="plan")
    status: Mapped[str] = mapped_column(String(20))
    request: Mapped[str] = mapped_column(Text)
    answer: Mapped[str | None] = mapped_column(Text)
    problem: Mapped[str | None] = mapped_column(Text)
    solver_version: Mapped[str] = mapped_column(String(100))
    model: Mapped[str] = mapped_column(String(200))
    device: Mapped[str | None] = mapped_column(String(200))
    devices: Mapped[int | None] = mapped_column(BigInteger)
    iteration_seconds: Mapped[float | None] = mapped_column(Double)
    gap: Mapped[float | None] = mapped_column(Double)
    created_at: Mapped[float] = mapped_column(Double)
    finished_at: Mapped[float | None] = mapped_column(Double)


class JobRow(Base):
    """One piece of accepted work: the truth about it, whatever carries its id about.

    Jobs of one ``chunk`` are small and taken together. ``trace_parent`` is the span that asked, as
    W3C Trace Context writes it.
    The partial unique index is what makes a plan be solved once however many ask for it.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        Index(
            "uq_jobs_plan_in_flight",
            "plan_id",
            unique=True,
            sqlite_where=text("status IN ('queued', 'running')"),
            postgresql_where=text("status IN ('queued', 'running')"),
        ),
        Index("ix_jobs_status_priority_id", "status", "priority", "id"),
        Index("ix_jobs_chunk", "chunk"),
    )

    id: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    plan_id: Mapped[str] = mapped_column(
        String(100), ForeignKey("plans.id", ondelete="CASCADE"), index=True
    )
    status: Mapped[str] = mapped_column(String(20))
    priority: Mapped[int] = mapped_column(Integer, default=0)
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    owner: Mapped[str | None] = mapped_column(String(100))
    progress: Mapped[str | None] = mapped_column(Text)
    deadline_at: Mapped[float | None] = mapped_column(Double)
    chunk: Mapped[str | None] = mapped_column(String(60))
    trace_parent: Mapped[str | None] = mapped_column(String(60))
    created_at: Mapped[float] = mapped_column(Double)
    started_at: Mapped[float | None] = mapped_column(Double)
    heartbeat_at: Mapped[float | None] = mapped_column(Double)
    finished_at: Mapped[float | None] = mapped_column(Double)


class BatchRow(Base):
    """Many requests that were asked together; its cases say which."""

    __tablename__ = "batches"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(100))
    name: Mapped[str] = mapped_column(String(200))
    against: Mapped[str | None] = mapped_column(String(40))
    created_at: Mapped[float] = mapped_column(Double)


class BatchCaseRow(Base):
    """A case of a batch. ``outcome`` is its result, written once when its plan is finished."""

    __tablename__ = "batch_cases"

    batch_id: Mapped[str] = mapped_column(
        String(40), ForeignKey("batches.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(String(200))
    plan_id: Mapped[str] = mapped_column(String(100))
    expectations: Mapped[str] = mapped_column(Text)
    reference_seconds: Mapped[float | None] = mapped_column(Double)
    outcome: Mapped[str | None] = mapped_column(Text)


class ClusterRow(Base):
    """A cluster that requests may name; importing it again replaces it."""

    __tablename__ = "clusters"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    document: Mapped[str] = mapped_column(Text)
    created_at: Mapped[float] = mapped_column(Double)


class ApiKeyRow(Base):
    """A key, by its digest. After a rotation the digest before is good for a while."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    previous_digest: Mapped[str | None] = mapped_column(String(64), index=True)
    previous_until: Mapped[float | None] = mapped_column(Double)
    name: Mapped[str] = mapped_column(String(100))
    tenant: Mapped[str] = mapped_column(String(100))
    scope: Mapped[str] = mapped_column(String(20))
    created_at: Mapped[float] = mapped_column(Double)
    expires_at: Mapped[float | None] = mapped_column(Double)
    revoked_at: Mapped[float | None] = mapped_column(Double)
    requests_per_minute: Mapped[int | None] = mapped_column(Integer)
    plans_per_day: Mapped[int | None] = mapped_column(Integer)

    __table_args__ = (Index("ix_api_keys_digest", "digest", unique=True),)


class AskRow(Base):
    """A tenant asked for a plan, and may see it."""

    __tablename__ = "asks"
    __table_args__ = (Index("ix_asks_key_id_asked_at", "key_id", "asked_at"),)

    tenant: Mapped[str] = mapped_column(String(100), primary_key=True)
    plan_id: Mapped[str] = mapped_column(
        String(100), ForeignKey("plans.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    key_id: Mapped[str] = mapped_column(String(100))
    asked_at: Mapped[float] = mapped_column(Double)


class WorkerRow(Base):
    """A process that solves, and when it last said so."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    seen_at: Mapped[float] = mapped_column(Double)


class CalibrationRow(Base):
    """A calibration that was fitted here; its content decides its version and never changes.

    ``created_at`` is when it was last made: the newest of a name is what the name alone means.
    """

    __tablename__ = "calibrations"
    __table_args__ = (Index("ix_calibrations_created_at", "created_at"),)

    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    version: Mapped[str] = mapped_column(String(100), primary_key=True)
    device: Mapped[str] = mapped_column(String(200))
    document: Mapped[str] = mapped_column(Text)
    created_at: Mapped[float] = mapped_column(Double)


class ObservationRow(Base):
    """What was measured of a running plan, and what that says of it."""

    __tablename__ = "observations"
    __table_args__ = (Index("ix_observations_plan_id", "plan_id", "created_at"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    plan_id: Mapped[str] = mapped_column(String(100))
    tenant: Mapped[str] = mapped_column(String(100))
    document: Mapped[str] = mapped_column(Text)
    created_at: Mapped[float] = mapped_column(Double)
