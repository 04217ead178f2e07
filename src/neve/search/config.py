"""What users set about full-text search."""

from __future__ import annotations

from pydantic import Field

from neve.model.section import Section


class SearchConfig(Section):
    """Which texts are indexed, and how exactly."""

    tables: dict[str, tuple[str, ...]] = Field(
        {"logs": ("message",)}, description="columns of text that are indexed, by table"
    )
    false_positive_rate: float = Field(
        0.01, ge=0.0001, le=0.5, description="share of files that are opened for a word that they do not hold"
    )
    lease_seconds: float = Field(60, gt=0, description="a run that does not renew its lease so long counts as dead")
