"""Settings of a session, all with defaults that suit one machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.errors import ConfigError


class Settings(BaseModel):
    """What `connect(config=…)` takes, as a mapping or as this."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spark_memory: str = Field("2g", pattern=r"^\d+[gm]$", description="Memory of the Spark that penstock starts.")
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
