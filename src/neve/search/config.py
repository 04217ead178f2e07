"""Settings of full-text search."""

from __future__ import annotations

from pydantic import Field

from neve.model.settings import Section


class SearchConfig(Section):
    """Indexed columns and accuracy of the index."""

    tables: dict[str, tuple[str, ...]] = Field(
        {"logs": ("message",), "spans": ("trace_id",)},
        description="columns to index, by table: texts by their words, bytes such as ids as they are",
    )
    false_positive_rate: float = Field(
        0.01,
        ge=0.0001,
        le=0.5,
        description="false positive rate: share of files that are opened although they do not contain the word",
    )
    lease_seconds: float = Field(60, gt=0, description="seconds until the lease of a run expires if it is not renewed")
