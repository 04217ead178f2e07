"""Settings of the tables of series."""

from __future__ import annotations

from pydantic import Field

from neve.model.settings import Section


class SeriesConfig(Section):
    """Upkeep of the tables of series and streams."""

    lease_seconds: float = Field(60, gt=0, description="seconds until the lease of a run expires if it is not renewed")
