"""Settings of the tables of series."""

from __future__ import annotations

from pydantic import Field

from neve.model.settings import Section


class SeriesConfig(Section):
    """Upkeep of the tables of series and streams, and of the sizes of streams."""

    memory_mb: int = Field(512, ge=64, description="memory in MB of the database that counts lines of logs")
    threads: int = Field(0, ge=0, description="threads of that database; 0: one for each core")
    lease_seconds: float = Field(60, gt=0, description="seconds until the lease of a run expires if it is not renewed")
