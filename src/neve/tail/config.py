"""What users set about tail sampling."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from neve.lake.config import CatalogConfig  # noqa: TC001 - pydantic reads it
from neve.model.organization import PATTERN
from neve.model.section import Section
from neve.tail.export.config import ExportConfig
from neve.tail.policy.tree import Semantics

Unit = Literal["s", "ms", "us", "ns"]
MB = 1024 * 1024


class SourceConfig(Section):
    """Where spans are, and what their columns are called there."""

    table: str = Field("spans", min_length=1, description="table of spans: one of the lake's, or namespace.table")
    catalog: CatalogConfig | None = Field(
        None, description="catalog that knows the table; empty: the lake's own. The table is only read"
    )
    columns: dict[str, str] = Field(
        {}, description="columns of the table by what they are here, where their names do not tell; empty text: none"
    )
    units: dict[str, Unit] = Field(
        {}, description="units of times that are whole numbers (start, end, duration, arrived): s, ms, us or ns"
    )
    organization: str = Field(
        "", pattern=f"({PATTERN})?", description="only this organization; for a table without one: whose spans they are"
    )


class TailConfig(Section):
    """Which traces are complete, which are kept, and where they go."""

    name: str = Field("tail", pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="name of the selector")
    storage: Literal["iceberg", "memory"] = Field(
        "iceberg", description="iceberg: spans are read from a table; memory: straight from the receiver or Kafka"
    )
    policies: str = Field(
        "", description="file with the collector's tail_sampling; empty: errors, slow traces and a percentage"
    )
    semantics: Semantics = Field(
        Semantics.DOCUMENTED, description="documented, or otelcol: as the collector's code where it differs"
    )
    slow_ms: int = Field(5000, ge=1, description="without a file: traces that take longer are kept")
    percentage: float = Field(1.0, ge=0, le=100, description="without a file: share of all others that is kept")
    start: Literal["all", "new"] = Field(
        "all", description="what the first cycle reads: all spans there are, or only those that come after it"
    )
    clock: Literal["arrival", "event"] = Field(
        "arrival", description="what times are measured by: when spans arrived, or when they ended"
    )
    inactivity_seconds: float = Field(300, gt=0, description="a trace is complete when no span came for so long")
    max_duration_seconds: float = Field(3600, gt=0, description="a trace is decided after so long, come what may")
    after_root_seconds: float | None = Field(
        None, ge=0, description="a trace is complete so long after its root span; empty: the root does not matter"
    )
    window_seconds: int = Field(60, ge=1, le=3600, description="limits hold over so long, and are shared out in it")
    late_seconds: float = Field(7200, gt=0, description="how long after a decision spans still count as late ones")
    trace_ttl_seconds: float = Field(7200, gt=0, description="how long selectors remember in Redis what was kept")
    claims: str = Field("", description="redis:// URL where selectors agree who keeps a trace; empty: one selector")
    engine: Literal["auto", "duckdb", "spark"] = Field("auto", description="what reads spans: duckdb, spark, or auto")
    spark_bytes: int = Field(20_000 * MB, ge=0, description="auto: Spark reads what is larger than this")
    memory_mb: int = Field(96, ge=64, description="memory for DuckDB; what needs more goes through the disk")
    threads: int = Field(0, ge=0, description="threads of DuckDB; 0: one a core")
    chunk_rows: int = Field(250_000, ge=1000, description="spans that are summed up at once")
    feeds: tuple[Literal["receiver", "kafka"], ...] = Field(
        ("receiver",), min_length=1, description="storage memory: where spans come from: receiver, kafka or both"
    )
    buffer_mb: int = Field(256, ge=1, description="storage memory: spans that are held; more, and the oldest go first")
    interval_seconds: float = Field(30, gt=0, description="how often a cycle begins")
    lease_seconds: float = Field(60, gt=0, description="a selector that does not renew its lease so long is dead")
    price_per_million_spans: float = Field(0, ge=0, description="what a destination costs, for simulations")
    source: SourceConfig = Field(SourceConfig(), description="where spans are")
    export: ExportConfig = Field(ExportConfig(), description="where kept traces go")

    @model_validator(mode="after")
    def _remembers_long_enough(self) -> TailConfig:
        if self.trace_ttl_seconds <= self.max_duration_seconds:
            raise ValueError(
                f"trace_ttl_seconds is {self.trace_ttl_seconds:g}, expected more than max_duration_seconds "
                f"({self.max_duration_seconds:g}): a trace would be forgotten before it is decided"
            )
        return self
