"""What users set about rollups."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from neve.model.section import Section

Kept = Literal["all", "none"] | tuple[str, ...]
Quantile = Annotated[float, Field(ge=0, le=1)]

KEPT_HELP = "all, none, or a list of names"


class RollupRule(Section):
    """How some metrics are rolled up in another way than the rest."""

    metrics: str = Field(min_length=1, description="names of the metrics, with * and ? as in file names")
    attributes: Kept | None = Field(None, description=f"attributes that are kept: {KEPT_HELP}; empty: as for the rest")
    resource_attributes: Kept | None = Field(
        None, description=f"resource attributes that are kept: {KEPT_HELP}; empty: as for the rest"
    )
    quantiles: tuple[Quantile, ...] | None = Field(
        None, description="quantiles beside p50, p95 and p99, for the map of them; empty: as for the rest"
    )


class RollupConfig(Section):
    """Which series are kept apart, how exact quantiles are, and when a window is closed."""

    attributes: Kept = Field("all", description=f"attributes that tell series apart: {KEPT_HELP}")
    resource_attributes: Kept = Field("all", description=f"resource attributes that tell series apart: {KEPT_HELP}")
    quantiles: tuple[Quantile, ...] = Field((), description="quantiles beside p50, p95 and p99, for the map of them")
    rules: tuple[RollupRule, ...] = Field((), description="other ways for some metrics; the first that fits decides")
    relative_error: float = Field(0.01, ge=0.0001, le=0.3, description="how far a quantile may be from the true value")
    lookback_seconds: int = Field(
        300, ge=1, le=86_400, description="how old the point before a cumulative one may be for both to be compared"
    )
    grace_seconds: int = Field(60, ge=0, description="a window is closed when its end is so long ago")
    partial: bool = Field(False, description="roll up windows that are still open, too; is_final tells them apart")
    slice_points: int = Field(500_000, ge=1000, description="points that a task holds in memory, about")
    lease_seconds: float = Field(60, gt=0, description="a run that does not renew its lease so long counts as dead")
