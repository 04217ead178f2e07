"""Settings of sampling, for OTAP folders and for tables of the lake."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import Field

from neve.model.settings import Section
from neve.reservoir.sampling.methods import Method  # noqa: TC001 - pydantic reads it


class SamplingSettings(Section):
    """Settings that OTAP folders and tables share."""

    k: int | None = Field(None, ge=1, description="records to keep per group and window; empty: all")
    method: Method = Field(
        "priority", description="priority, or exact_total: the counts of a group add up to its exact total"
    )
    weights: Literal["adjusted_count", "one"] = Field(
        "adjusted_count", description="weight of a record: its sampling.adjusted_count (else 1), or always 1"
    )
    invalid_weights: Literal["refuse", "one"] = Field(
        "refuse", description="a weight that is not a finite number above 0 ends the run, or counts as 1"
    )
    window_seconds: int = Field(
        300, ge=1, le=86_400 * 31, description="window length in seconds; windows are aligned to 1970-01-01"
    )
    lease_seconds: float = Field(60, gt=0, description="seconds until the lease of a run expires if it is not renewed")


class LakeSampling(SamplingSettings):
    """Sampling of a table: groups, sample size and windows."""

    name: str = Field(
        "lake", min_length=1, description="name of the sampler; samplers with different names choose independently"
    )
    by: tuple[str, ...] = Field(
        ("service_name",),
        description="columns that define groups: columns, attributes['key'], resource_attrs['key'] or "
        "scope_attrs['key']",
    )
    settle_seconds: int = Field(
        0,
        ge=0,
        description="seconds after its end until a window is sampled; 0: immediately, and again with every record",
    )

    @property
    def micros(self) -> int:
        """The length of a window in microseconds."""
        return self.window_seconds * 1_000_000

    @property
    def how(self) -> str:
        """Summary of the sampling settings, for messages."""
        if self.k is None:
            return "all pass"
        return f"{self.k} by {', '.join(self.by) or 'window'}, {self.method}"

    @property
    def policy(self) -> str:
        """Identifier of the sampling policy: a window that was sampled by another policy is sampled again."""
        decides = (self.name, self.k, self.by, self.method, self.weights, self.window_seconds)
        return hashlib.sha256(repr(decides).encode()).hexdigest()[:16]


class ReservoirConfig(SamplingSettings):
    """Sampling of OTAP Parquet: groups, sample size, windows and output."""

    name: str = Field(
        "default", min_length=1, description="name of the sampler; samplers with different names choose independently"
    )
    source: str = Field("", description="folder with OTAP Parquet; the command line overrides it")
    target: str = Field("", description="folder for the sample; the command line overrides it")
    signal: Literal["logs", "spans"] = Field("logs", description="records to sample: logs or spans")
    by: tuple[str, ...] = Field(
        ("service.name",),
        description="attributes or columns that define groups: resource attributes, or columns of the records",
    )
    query: str = Field("", description="SQL that replaces k and by; see docs/reservoir.md")
    settle_seconds: int = Field(0, ge=0, description="seconds after its end until a window is sampled")
    ids: Literal["keep", "renumber"] = Field("keep", description="original ids, or new ids from 0 in each window")
    adjusted_count: Literal["double", "string"] = Field(
        "double", description="type of the attribute sampling.adjusted_count"
    )
    rows_per_file: int = Field(200_000, ge=1000, description="approximate number of records per file of the sample")

    lake: LakeSampling = Field(LakeSampling(), description="sampling of the lake's own tables")

    @property
    def passes(self) -> bool:
        """True if all records pass."""
        return not self.k and not self.query

    @property
    def how(self) -> str:
        """Summary of the sampling settings, for messages."""
        if self.passes:
            return "all pass"
        return "by a query" if self.query else f"{self.k} by {', '.join(self.by) or 'window'}, {self.method}"

    @property
    def grouping(self) -> tuple[str, ...] | None:
        """Attributes that define the groups: empty if all records pass, None if only a query defines them."""
        return None if self.query else () if self.passes else self.by

    @property
    def policy(self) -> str:
        """Identifier of the sampling policy: a window that was sampled by another policy is sampled again."""
        decides = (self.name, self.signal, self.k, self.by, self.query, self.method, self.weights, self.window_seconds)
        return hashlib.sha256(repr(decides).encode()).hexdigest()[:16]
