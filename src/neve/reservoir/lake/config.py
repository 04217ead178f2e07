"""What users set about sampling the lake's own tables."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import Field

from neve.model.section import Section
from neve.reservoir.draw import Method  # noqa: TC001 - pydantic reads it


class LakeSampling(Section):
    """Which records of a table are kept, and in which windows."""

    name: str = Field("lake", min_length=1, description="of the sampler; others have other chances")
    k: int | None = Field(None, ge=1, description="records kept of each group and window; empty: everything passes")
    by: tuple[str, ...] = Field(
        ("service_name",),
        description="what groups are told by: columns, attributes['key'], resource_attrs['key'] or scope_attrs['key']",
    )
    method: Method = Field("priority", description="priority, or exact_total: counts of a group add up to its total")
    weights: Literal["adjusted_count", "one"] = Field(
        "adjusted_count", description="what a record weighs: what sampling.adjusted_count says (else 1), or always 1"
    )
    invalid_weights: Literal["refuse", "one"] = Field(
        "refuse", description="a weight that is no finite number above 0 ends the run, or counts as 1"
    )
    window_seconds: int = Field(300, ge=1, le=86_400 * 31, description="length of a window, counted from 1970")
    settle_seconds: int = Field(
        0, ge=0, description="a window is sampled when its end is so long ago; 0: at once, and again with every record"
    )
    lease_seconds: float = Field(60, gt=0, description="a run that does not renew its lease so long counts as dead")

    @property
    def micros(self) -> int:
        """The length of a window in microseconds."""
        return self.window_seconds * 1_000_000

    @property
    def how(self) -> str:
        """How records are kept, in words."""
        if self.k is None:
            return "all pass"
        return f"{self.k} by {', '.join(self.by) or 'window'}, {self.method}"

    @property
    def policy(self) -> str:
        """What decides which records are kept, as one word: a window that was sampled by another is not the same."""
        decides = (self.name, self.k, self.by, self.method, self.weights, self.window_seconds)
        return hashlib.sha256(repr(decides).encode()).hexdigest()[:16]
