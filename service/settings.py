"""Settings of the service, read from the environment (prefix ``STAGECUT_``)."""

from __future__ import annotations

import os
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]

DEFAULT_DATABASE_URL = "sqlite:///stagecut.db"


class Settings(BaseSettings):
    """Everything an operator can turn; every field has a default that works on one machine."""

    model_config = SettingsConfigDict(env_prefix="STAGECUT_", frozen=True)

    database_url: str = Field(
        default=DEFAULT_DATABASE_URL,
        description="Any SQLAlchemy URL; the default is an SQLite file in the working directory.",
    )
    migrate_at_start: bool | None = Field(
        default=None,
        description="Bring the database to the newest schema at start; default: only for SQLite.",
    )
    planner: str = Field(
        default="solver.planner", description="The module that solver processes import and call."
    )
    works: bool = Field(
        default=True,
        description="Whether a server solves too; false where `stagecut worker` processes do.",
    )
    solver_processes: Count = Field(
        default_factory=lambda: os.cpu_count() or 1,
        description="Solves that run at the same time, each in a process of its own.",
    )
    solver_memory_bytes: Annotated[int, Field(ge=2**28)] = Field(
        default=8 * 2**30,
        description="Address space of one solver process; a solve that needs more fails alone.",
    )
    solve_grace_seconds: Seconds = Field(
        default=15.0,
        description="How long after a request's own time limit its process is killed.",
    )
    evaluation_seconds: Seconds = Field(
        default=60.0, description="After this a check or an evaluation is given up."
    )
    calibration_seconds: Seconds = Field(
        default=300.0, description="After this the fit of a calibration is given up."
    )
    solver_calls_per_process: Count = Field(
        default=500, description="A solver process is replaced after so many calls."
    )
    max_attempts: Count = Field(
        default=3, description="A job whose process keeps dying fails after so many attempts."
    )
    heartbeat_seconds: Seconds = Field(
        default=0.5,
        description="How often a running job reports progress and looks for a cancellation.",
    )
    heartbeat_timeout_seconds: Seconds = Field(
        default=6.0, description="A running job silent for so long is taken over by another worker."
    )
    retention_days: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Plans finished longer ago are removed; default: none is."
    )
    max_body_bytes: Count = Field(
        default=4 * 2**20, description="A longer request body is refused with 413."
    )
    max_batch_bytes: Count = Field(
        default=32 * 2**20, description="The same for the body of a batch."
    )
    body_seconds: Seconds = Field(
        default=30.0, description="A body that takes longer to arrive is refused with 408."
    )
    max_wait_seconds: Seconds = Field(
        default=60.0, description="The longest `Prefer: wait` that is honoured."
    )

    access: Literal["auto", "open", "required"] = Field(
        default="auto",
        description="Whether a key is needed: `required`, `open` for everybody, or `auto`: needed"
        " unless the service listens on the loopback address only.",
    )
    bootstrap_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="A key that is made an admin's at start if there is no such key yet.",
    )
    requests_per_minute: Count | None = Field(
        default=None, description="What a key may ask that has no limit of its own; a 429 beyond."
    )
    plans_per_day: Count | None = Field(
        default=None,
        description="Different plans that a key without a limit of its own may ask for.",
    )
    max_time_limit_seconds: Seconds | None = Field(
        default=None, description="A request whose own time limit is longer is refused."
    )
    oidc_keys: str | None = Field(
        default=None,
        description="Keys of an OpenID Connect provider (JWKS), a file or a URL: its bearer tokens"
        " are accepted beside API keys.",
    )
    oidc_issuer: str | None = Field(default=None, description="What `iss` of a token must be.")
    oidc_audience: str = Field(default="stagecut", description="What `aud` must be.")
    oidc_tenant_claim: str = Field(
        default="tenant", description="The claim that names the tenant of a token."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="What is logged; `info` has a line for every request."
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="Lines for people, or a JSON object on each."
    )
    traces_url: str | None = Field(
        default=None,
        description="OTLP/HTTP endpoint for OpenTelemetry traces, such as"
        " `http://collector:4318/v1/traces`; needs `stagecut[traces]`.",
    )
    event_silence_seconds: Seconds = Field(
        default=15.0,
        description="An event stream without news says so this often, so that nobody closes it.",
    )

    @field_validator("database_url")
    @classmethod
    def _name_the_driver(cls, url: str) -> str:
        for bare in ("postgresql://", "postgres://"):
            if url.startswith(bare):
                return "postgresql+psycopg://" + url.removeprefix(bare)
        return url

    @model_validator(mode="after")
    def _know_the_issuer(self) -> Self:
        if self.oidc_keys is not None and self.oidc_issuer is None:
            raise ValueError("STAGECUT_OIDC_KEYS needs STAGECUT_OIDC_ISSUER")
        return self

    @property
    def shared(self) -> bool:
        """Whether the database is PostgreSQL, which servers and workers share."""
        return self.database_url.startswith("postgresql")

    @property
    def migrates_at_start(self) -> bool:
        """Whether the service brings the schema up to date by itself."""
        return not self.shared if self.migrate_at_start is None else self.migrate_at_start
