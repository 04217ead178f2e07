"""What users set about ingestion."""

from typing import Literal

from pydantic import Field

from neve.model.section import Section
from neve.otlp.bounds import Bounds

MB = 1024 * 1024

TimeFormat = Literal["auto", "rfc3339", "s", "ms", "us", "ns"]
Names = tuple[str, ...]


class FieldsConfig(Section):
    """Which fields of generic JSON lines, CSV and Parquet mean what; the first name that is there counts."""

    time: Names = Field(
        (
            "timestamp",
            "time",
            "@timestamp",
            "ts",
            "datetime",
            "date",
            "event_time",
            "time_unix_nano",
            "start_time",
            "startTime",
            "start",
        ),
        description="time of the record (start of a span)",
    )
    time_format: TimeFormat = Field(
        "auto", description="auto (RFC 3339, or an epoch told by its size), rfc3339, or epoch s, ms, us, ns"
    )
    message: Names = Field(("message", "msg", "body", "log", "text"), description="message of a log record")
    severity: Names = Field(
        ("severity", "level", "severity_text", "log_level", "loglevel", "lvl"), description="severity of a log record"
    )
    service: Names = Field(("service.name", "service_name", "service", "app"), description="name of the service")
    trace_id: Names = Field(("trace_id", "traceId", "traceid"), description="trace id, as hex")
    span_id: Names = Field(("span_id", "spanId", "spanid"), description="span id, as hex")
    parent_span_id: Names = Field(("parent_span_id", "parentSpanId", "parent_id"), description="parent span id, as hex")
    name: Names = Field(
        ("metric_name", "metric", "operation_name", "operation", "name", "__name__"),
        description="name of a metric or span",
    )
    value: Names = Field(("value", "val"), description="value of a metric point")
    unit: Names = Field(("unit",), description="unit of a metric")
    end: Names = Field(("end_time", "endTime", "end", "end_time_unix_nano"), description="end of a span")
    duration_ms: Names = Field(("duration_ms", "duration"), description="duration of a span in milliseconds")
    attributes: Names = Field(
        ("attributes", "labels", "tags"), description="object whose entries are attributes of the record"
    )
    resource: Names = Field(
        ("resource_attrs", "resource_attributes", "resource"), description="object whose entries describe the resource"
    )


class IngestConfig(Section):
    """How records are taken in."""

    max_future_seconds: int = Field(
        86_400, ge=0, le=10 * 365 * 86_400, description="a record with a later time than this from now is quarantined"
    )
    deduplicate_seconds: int = Field(
        3600,
        ge=0,
        le=30 * 86_400,
        description="a record that came in within this time before is not written again; 0 writes everything",
    )
    commit_seconds: float = Field(
        0, ge=0, le=3600, description="how often a stream commits; 0: every 10 s where Spark is local, else every 60 s"
    )
    checkpoints: str = Field(
        "lake/checkpoints",
        description="folder, or address that Spark can write to, where it keeps its plan of each stream",
    )
    task_bytes: int = Field(
        64 * MB, ge=1024, le=4096 * MB, description="how many bytes of files one Spark task reads, at about"
    )
    batch_bytes: int = Field(
        16 * 1024 * MB,
        ge=1024,
        description="how many bytes of files go into one commit, at about (packed files count eightfold)",
    )
    max_file_bytes: int = Field(
        512 * MB, ge=1024, le=2047 * MB, description="largest file that is read, as it is stored"
    )
    max_unpacked_bytes: int = Field(
        1024 * MB, ge=1024, le=2047 * MB, description="largest content of a file, unpacked; a worker holds it in memory"
    )
    flush_bytes: int = Field(
        256 * MB, ge=MB, le=8192 * MB, description="how many decoded bytes a task holds before it writes files"
    )
    quarantine_bytes: int = Field(
        64 * MB, ge=0, le=1024 * MB, description="largest payload that quarantine keeps; above that only its source"
    )
    max_message_bytes: int = Field(
        64 * MB, ge=1024, le=1024 * MB, description="largest OTLP message, unpacked; a larger one is quarantined"
    )
    max_groups: int = Field(
        100_000,
        ge=1,
        le=10_000_000,
        description="most resources, scopes and metrics in one OTLP message; one with more is quarantined",
    )
    max_records: int = Field(
        1_000_000, ge=1, le=100_000_000, description="most records in one OTLP message; one with more is quarantined"
    )
    max_attributes: int = Field(
        4_000_000,
        ge=1,
        le=100_000_000,
        description="most attributes, nested values, events, links and exemplars in one OTLP message; "
        "one with more is quarantined",
    )
    isolate_bytes: int = Field(
        2048 * MB,
        ge=256 * MB,
        description="how much memory a process may take that looks for the message of which a batch fails",
    )
    fields: FieldsConfig = Field(FieldsConfig(), description="meaning of fields in generic files")

    @property
    def bounds(self) -> Bounds:
        """The most that one OTLP message may hold."""
        return Bounds(self.max_groups, self.max_records, self.max_attributes)
