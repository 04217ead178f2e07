"""Settings of rollups."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from neve.model.settings import Section

AttributeChoice = Literal["all", "none"] | tuple[str, ...]
Quantile = Annotated[float, Field(ge=0, le=1)]

KEPT_HELP = "all, none, or a list of names"


class RollupRule(Section):
    """A rollup rule for some metrics."""

    metrics: str = Field(min_length=1, description="metric names, with the wildcards * and ?")
    attributes: AttributeChoice | None = Field(
        None, description=f"attributes to keep: {KEPT_HELP}; empty: as for the other metrics"
    )
    resource_attributes: AttributeChoice | None = Field(
        None, description=f"resource attributes to keep: {KEPT_HELP}; empty: as for the other metrics"
    )
    quantiles: tuple[Quantile, ...] | None = Field(
        None, description="quantiles in addition to p50, p95 and p99; empty: as for the other metrics"
    )


class RollupConfig(Section):
    """Series identity, quantile accuracy and window closing."""

    attributes: AttributeChoice = Field("all", description=f"attributes that identify a series: {KEPT_HELP}")
    resource_attributes: AttributeChoice = Field(
        "all", description=f"resource attributes that identify a series: {KEPT_HELP}"
    )
    quantiles: tuple[Quantile, ...] = Field((), description="quantiles in addition to p50, p95 and p99")
    rules: tuple[RollupRule, ...] = Field((), description="rules for some metrics; the first match applies")
    relative_error: float = Field(0.01, ge=0.0001, le=0.3, description="maximum relative error of quantiles")
    lookback_seconds: int = Field(
        300,
        ge=1,
        le=86_400,
        description="maximum age in seconds of the previous point when the increase of a cumulative series is computed",
    )
    grace_seconds: int = Field(60, ge=0, description="seconds after its end until a window is closed")
    partial: bool = Field(False, description="also roll up open windows; the column is_final distinguishes them")
    slice_points: int = Field(500_000, ge=1000, description="approximate number of points that a task holds in memory")
    lease_seconds: float = Field(60, gt=0, description="seconds until the lease of a run expires if it is not renewed")
