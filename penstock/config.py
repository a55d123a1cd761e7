"""Settings of a session, all with defaults that suit one machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.errors import ConfigError


class Settings(BaseModel):
    """What `connect(config=…)` takes, as a mapping or as this."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spark_memory: str = Field("2g", pattern=r"^\d+[gm]$", description="Memory of the Spark that penstock starts.")
    lookup_memory: int | None = Field(
        None, ge=0, description="Bytes of columns kept for look-ups; a sixteenth of the memory, up to 2 GB, if not set."
    )
    publish_interval: float | str = Field(
        "adaptive",
        description="run(): when a relation is published: adaptive, every-cut, manual, or seconds between two times.",
    )
    publish_share: float = Field(0.2, gt=0, le=1, description="run(): share of the time for adaptive publishing.")
    compat: bool = Field(
        False, description="Delta tables made from now on have neither deletion vectors nor column mapping."
    )
    keep_versions: str = Field("7d", description="How long past versions of Delta tables stay readable.")
    maintenance_interval: float = Field(60.0, ge=1, description="run(): seconds between two looks at the changelog.")
    changelog_retention: float = Field(
        7 * 86400.0, ge=0, description="Seconds for which every frontier stays readable, pinned or not."
    )
    changelog_grace: float = Field(
        3600.0, ge=0, description="Seconds for which files that were replaced stay for those who are reading them."
    )
    changelog_limit: int | None = Field(
        None, gt=0, description="Bytes of changelog past which history, pins and late readers are given up."
    )
    enabled: bool = Field(True, description="run(): refresh stream tables on schedule.")
    scheduler_interval: float = Field(0.2, gt=0, le=60, description="run(): seconds between two looks at what is due.")
    min_schedule: float = Field(1.0, ge=1, description="The shortest interval that a schedule may have, in seconds.")
    on_commit_gap: float = Field(0.0, ge=0, description="Least seconds between two refreshes of an on-commit one.")
    max_consecutive_errors: int = Field(3, ge=1, description="Errors in a row after which it is not tried any more.")
    max_concurrent_refreshes: int = Field(4, ge=1, le=64, description="Stream tables that are computed at once.")
    differential_max_change_ratio: float = Field(
        0.15, ge=0, le=1, description="AUTO: share of changed input rows past which all is computed anew."
    )
    block_source_ddl: bool = Field(False, description="The sources refuse DDL on columns that stream tables use.")
    cdc_mode: Literal["auto", "trigger", "wal"] = Field(
        "wal", description="How tables are captured where a stream table does not say; the WAL in any case for now."
    )
    lock_timeout: float = Field(60.0, ge=0, description="Seconds for which refresh() waits for one that is under way.")
    snapshot_timeout: float = Field(30.0, gt=0, description="Seconds to wait for a consistent snapshot of a source.")
    verify_workers: int = Field(2, ge=1, le=64, description="verify(): connections that read a source at once.")
    verify_interval: float | None = Field(
        None, ge=1, description="run(): seconds between verifications; none if not set."
    )

    @classmethod
    def of(cls, given: Settings | Mapping[str, Any] | None) -> Settings:
        if isinstance(given, Settings):
            return given
        try:
            return cls(**(given or {}))
        except ValidationError as error:
            first = error.errors()[0]
            setting = ".".join(map(str, first["loc"]))
            known = ", ".join(cls.model_fields)
            raise ConfigError(f"setting {setting!r}: {first['msg']}", hint=f"Known settings: {known}.") from None
