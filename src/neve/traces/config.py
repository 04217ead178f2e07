"""Settings of trace summaries and of the service map."""

from __future__ import annotations

from pydantic import Field

from neve.model.settings import Section


class TracesConfig(Section):
    """Upkeep of the tables `trace_summaries` and `service_edges`."""

    reach_hours: float = Field(
        24,
        gt=0,
        le=720,
        description="hours between spans of one trace up to which they share a summary; parts that are further apart, "
        "and were committed apart, have a row each",
    )
    critical_path_spans: int = Field(
        50_000, ge=0, description="spans of a trace up to which its critical path is computed"
    )
    chunk_spans: int = Field(
        500_000, ge=1, description="new spans that a run assembles at once; a longer backlog has several commits"
    )
    memory_mb: int = Field(1024, ge=64, description="memory in MB of the database that assembles traces")
    threads: int = Field(0, ge=0, description="threads of that database; 0: one for each core")
    lease_seconds: float = Field(60, gt=0, description="seconds until the lease of a run expires if it is not renewed")
