"""What users set about sampling."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import Field

from neve.model.section import Section
from neve.reservoir.draw import Method  # noqa: TC001 - pydantic reads it
from neve.reservoir.lake.config import LakeSampling


class ReservoirConfig(Section):
    """Which records are sampled by what, in which windows, and how the sample is written."""

    name: str = Field("default", min_length=1, description="of the sampler; others have other chances")
    source: str = Field("", description="folder of OTAP Parquet; the command line may name another")
    target: str = Field("", description="folder that the sample goes to; the command line may name another")
    signal: Literal["logs", "spans"] = Field("logs", description="what is sampled: logs or spans")
    k: int | None = Field(None, ge=1, description="records kept of each group and window; empty: everything passes")
    by: tuple[str, ...] = Field(
        ("service.name",), description="what groups are told by: resource attributes, or columns of the records"
    )
    query: str = Field("", description="SQL that decides instead of k and by; see docs/reservoir.md")
    method: Method = Field("priority", description="priority, or exact_total: counts of a group add up to its total")
    weights: Literal["adjusted_count", "one"] = Field(
        "adjusted_count", description="what a record weighs: what sampling.adjusted_count says (else 1), or always 1"
    )
    invalid_weights: Literal["refuse", "one"] = Field(
        "refuse", description="a weight that is no finite number above 0 ends the run, or counts as 1"
    )
    window_seconds: int = Field(300, ge=1, le=86_400 * 31, description="length of a window, counted from 1970")
    settle_seconds: int = Field(0, ge=0, description="a window is sampled when its end is so long ago")
    ids: Literal["keep", "renumber"] = Field("keep", description="ids as they came, or anew from 0 for each window")
    adjusted_count: Literal["double", "string"] = Field(
        "double", description="type that the attribute sampling.adjusted_count is written with"
    )
    rows_per_file: int = Field(200_000, ge=1000, description="records in a file of the sample, about")
    lease_seconds: float = Field(60, gt=0, description="a run that does not renew its lease so long counts as dead")

    lake: LakeSampling = Field(LakeSampling(), description="how the lake's own tables are sampled")

    @property
    def passes(self) -> bool:
        """Whether everything passes."""
        return not self.k and not self.query

    @property
    def how(self) -> str:
        """How records are kept, in words."""
        if self.passes:
            return "all pass"
        return "by a query" if self.query else f"{self.k} by {', '.join(self.by) or 'window'}, {self.method}"

    @property
    def told_by(self) -> tuple[str, ...] | None:
        """What groups are told by; nothing where everything passes, none where a query alone knows it."""
        return None if self.query else () if self.passes else self.by

    @property
    def policy(self) -> str:
        """What decides which records are kept, as one word: a window that was sampled by another is not the same."""
        decides = (self.name, self.signal, self.k, self.by, self.query, self.method, self.weights, self.window_seconds)
        return hashlib.sha256(repr(decides).encode()).hexdigest()[:16]
