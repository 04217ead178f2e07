"""Settings of ingestion: limits, field names of generic files, Kafka topics, announced files and the SQS queue."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, SecretStr, field_validator, model_validator

from neve.errors import ConfigError
from neve.ingest.watch.places import parse_place
from neve.model.settings import ORGANIZATION_PATTERN, Section, as_text, check_organization
from neve.model.signals import Signal
from neve.redaction.config import RedactionConfig

if TYPE_CHECKING:
    from neve.otlp.bounds import Bounds

MB = 1024 * 1024

TimeFormat = Literal["auto", "rfc3339", "s", "ms", "us", "ns"]
Names = tuple[str, ...]


class FieldsConfig(Section):
    """Field names of generic JSON lines, CSV and Parquet files. The first name that is present applies.

    Upper and lower case, underscores and dashes make no difference, unless a file has both names.
    """

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
            "start_time_unix_nano",
            "start",
        ),
        description="time of the record (start of a span)",
    )
    date: Names = Field(
        ("date", "day", "event_date", "log_date"), description="date of a record whose time is a time of day"
    )
    time_format: TimeFormat = Field(
        "auto",
        description="auto (RFC 3339, or an epoch whose unit follows from its size), rfc3339, or epoch s, ms, us, ns",
    )
    earliest_year: int = Field(
        1990, ge=1970, le=2261, description="first year of epochs with time_format auto; an earlier one is quarantined"
    )
    latest_year: int = Field(
        2100, ge=1970, le=2261, description="last year of epochs with time_format auto; a later one is quarantined"
    )
    message: Names = Field(
        ("message", "msg", "body", "log", "text", "line", "content"), description="message of a log record"
    )
    severity: Names = Field(
        ("severity", "level", "severity_text", "log_level", "loglevel", "lvl", "log.level"),
        description="severity of a log record",
    )
    service: Names = Field(("service.name", "service_name", "service", "app"), description="name of the service")
    trace_id: Names = Field(("trace_id", "traceId", "traceid"), description="trace id: hex, a UUID or base64")
    span_id: Names = Field(("span_id", "spanId", "spanid"), description="span id: hex or base64")
    parent_span_id: Names = Field(
        ("parent_span_id", "parentSpanId", "parent_id"), description="parent span id: hex or base64"
    )
    name: Names = Field(
        ("metric_name", "metric", "span_name", "operation_name", "operation", "name", "__name__"),
        description="name of a metric or span",
    )
    value: Names = Field(("value", "val"), description="value of a metric point")
    unit: Names = Field(("unit",), description="unit of a metric")
    end: Names = Field(("end_time", "endTime", "end", "end_time_unix_nano"), description="end of a span")
    duration_ms: Names = Field(("duration_ms", "duration"), description="duration of a span in milliseconds")
    attributes: Names = Field(
        ("attributes", "labels", "tags"), description="object whose entries become attributes of the record"
    )
    resource: Names = Field(
        ("resource_attrs", "resource_attributes", "resource"),
        description="object whose entries become resource attributes",
    )

    @model_validator(mode="after")
    def _years_in_order(self) -> Self:
        if self.latest_year < self.earliest_year:
            raise ValueError(f"should have a latest_year of at least {self.earliest_year}, its earliest_year")
        return self


class LinesConfig(Section):
    """Rules for log files of plain lines."""

    continuation: str = Field(
        "",
        description="regular expression (RE2) of lines that belong to the record before them, such as those of a stack "
        "trace; empty for the rule of the format",
    )
    max_lines: int = Field(
        10_000, ge=1, le=10_000_000, description="most lines of one record; further ones are quarantined"
    )
    timezone: str = Field("UTC", description="time zone of times without an offset, such as Europe/Berlin")

    @field_validator("continuation")
    @classmethod
    def _linear_pattern(cls, value: str) -> str:
        try:
            pc.match_substring_regex(pa.array([""]), value)
        except pa.ArrowInvalid as error:
            raise ValueError(f"should be a regular expression of RE2: {error}") from None
        return value

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, value: str) -> str:
        if value == "UTC":  # needs no time zone database
            return value
        try:
            pc.assume_timezone(pa.array([0], pa.timestamp("s")), value)
        except (pa.ArrowException, ValueError):
            raise ValueError("should be a name of the time zone database, such as Europe/Berlin") from None
        return value


class IngestConfig(Section):
    """Ingestion of records."""

    max_future_seconds: int = Field(
        86_400, ge=0, le=10 * 365 * 86_400, description="records with a time further in the future are quarantined"
    )
    deduplicate_seconds: int = Field(
        3600,
        ge=0,
        le=30 * 86_400,
        description="duplicates of records ingested within this time are dropped; 0: nothing is dropped",
    )
    commit_seconds: float = Field(
        0, ge=0, le=3600, description="seconds between commits of a stream; 0: 10 with a local Spark, else 60"
    )
    checkpoints: str = Field(
        "lake/checkpoints",
        description="folder for Spark's checkpoints of streams; may be lost, because positions are stored in "
        "the tables",
    )
    task_bytes: int = Field(
        64 * MB, ge=1024, le=4096 * MB, description="approximate number of file bytes that one Spark task reads"
    )
    batch_bytes: int = Field(
        16 * 1024 * MB,
        ge=1024,
        description="approximate number of file bytes per commit (compressed files count eightfold)",
    )
    max_file_bytes: int = Field(512 * MB, ge=1024, le=2047 * MB, description="maximum size of a file, as stored")
    max_unpacked_bytes: int = Field(
        1024 * MB, ge=1024, le=2047 * MB, description="maximum decompressed size of a file; a worker holds it in memory"
    )
    flush_bytes: int = Field(
        256 * MB, ge=MB, le=8192 * MB, description="decoded bytes that a task buffers before it writes files"
    )
    quarantine_bytes: int = Field(
        64 * MB,
        ge=0,
        le=1024 * MB,
        description="maximum payload stored in quarantine; of larger ones only the source is stored",
    )
    max_message_bytes: int = Field(
        64 * MB,
        ge=1024,
        le=1024 * MB,
        description="maximum decompressed size of an OTLP message; larger ones are quarantined",
    )
    max_groups: int = Field(
        100_000,
        ge=1,
        le=10_000_000,
        description="maximum number of resources, scopes and metrics in one OTLP message; messages with more "
        "are quarantined",
    )
    max_records: int = Field(
        1_000_000,
        ge=1,
        le=100_000_000,
        description="maximum number of records in one OTLP message; messages with more are quarantined",
    )
    max_attributes: int = Field(
        4_000_000,
        ge=1,
        le=100_000_000,
        description="maximum number of attributes, nested values, events, links and exemplars in one OTLP "
        "message; messages with more are quarantined",
    )
    isolate_bytes: int = Field(
        2048 * MB,
        ge=256 * MB,
        description="memory limit of the process that searches a failing batch for the message that causes it",
    )
    fields: FieldsConfig = Field(FieldsConfig(), description="fields of generic files")
    lines: LinesConfig = Field(LinesConfig(), description="records of log files of plain lines")
    redaction: RedactionConfig = Field(RedactionConfig(), description="redaction of records before they are stored")

    @property
    def bounds(self) -> Bounds:
        """Return the limits of one OTLP message."""
        from neve.otlp.bounds import Bounds  # noqa: PLC0415 - Arrow, for those who read messages

        return Bounds(self.max_groups, self.max_records, self.max_attributes)


KafkaEncoding = Literal["auto", "otlp_proto", "otlp_json"]
TOPIC = r"^[A-Za-z0-9._-]{1,249}$"


class TopicConfig(Section):
    """Content of a topic."""

    topic: str = Field(pattern=TOPIC, description="name of the topic")
    signal: Signal = Field(description="logs, metrics or traces")
    encoding: KafkaEncoding = Field("auto", description="auto (detected by the first byte), otlp_proto or otlp_json")
    organization: str = Field(
        "",
        pattern=f"^$|{ORGANIZATION_PATTERN}",
        description="organization of the messages; empty: the configured one",
    )


class KafkaConfig(Section):
    """Kafka topics with telemetry."""

    bootstrap_servers: str = Field(
        "localhost:9092", min_length=1, description="brokers as host:port, separated by commas"
    )
    topics: tuple[TopicConfig, ...] = Field(
        (
            TopicConfig(topic="otlp_spans", signal=Signal.TRACES),
            TopicConfig(topic="otlp_logs", signal=Signal.LOGS),
            TopicConfig(topic="otlp_metrics", signal=Signal.METRICS),
        ),
        description="topics with OTLP messages; the defaults are those of the collector's Kafka exporter",
    )
    events: tuple[str, ...] = Field(
        ("ingest.logs", "ingest.metrics", "ingest.traces"),
        description="topics with file events, for `neve ingest watch --kafka`",
    )
    batch_messages: int = Field(100_000, ge=1, description="maximum number of messages per commit, over all topics")
    starting: Literal["earliest", "latest"] = Field(
        "earliest", description="start position of a stream without a stored position"
    )
    allow_loss: bool = Field(
        False,
        description="continue if the broker has deleted unread messages; otherwise the stream stops",
    )
    options: dict[str, str] = Field(
        {}, description="additional options of Spark's Kafka source, such as kafka.security.protocol"
    )

    _plain_options = field_validator("options", mode="before")(as_text)


def parse_topic(text: str) -> TopicConfig:
    """Parse a topic of the command line: NAME=SIGNAL.

    >>> parse_topic("otlp_spans=traces").signal.value
    'traces'
    """
    name, _, signal = text.partition("=")
    if signal not in {known.value for known in Signal} or not re.fullmatch(TOPIC.strip("^$"), name):
        raise ConfigError(f"topic is {text!r}, expected NAME=traces, NAME=logs or NAME=metrics")
    return TopicConfig(topic=name, signal=Signal(signal))


class SqsConfig(Section):
    """An SQS queue with the events of a bucket. Empty values use the default AWS credential chain."""

    queue_url: str = Field("", description="URL of the queue; empty: none")
    region: str = Field("us-east-1", min_length=1, description="region of the queue")
    endpoint: str = Field("", description="URL of an SQS-compatible server; empty: AWS")
    access_key: str = Field("", description="access key; empty: the default AWS credential chain")
    secret_key: SecretStr = Field(SecretStr(""), description="secret key")
    wait_seconds: int = Field(20, ge=0, le=20, description="seconds that one request waits for messages (long polling)")
    visibility_seconds: int = Field(
        120,
        ge=1,
        le=43_200,
        description="seconds until an unacknowledged message is delivered again; must be longer than storing one takes",
    )
    batch_messages: int = Field(10, ge=1, le=10, description="messages per request")
    retry_seconds: float = Field(30, gt=0, le=3600, description="maximum backoff after a failure in seconds")


class WatchConfig(Section):
    """Limits and places of announced files."""

    places: dict[str, tuple[str, ...]] = Field(
        {},
        description="folders and s3:// prefixes in which an organization may announce files, by organization; "
        "other files are rejected",
    )
    max_objects: int = Field(1000, ge=1, le=100_000, description="maximum number of files in one event")
    attempts: int = Field(10, ge=1, le=1000, description="attempts at an announced file before it is quarantined")
    retry_seconds: float = Field(
        10, ge=0, le=3600, description="seconds before an announced file is retried; doubles, up to an hour"
    )
    max_waiting: int = Field(
        10_000,
        ge=0,
        le=1_000_000,
        description="maximum number of announced files of an organization that wait for a retry",
    )
    sqs: SqsConfig = Field(SqsConfig(), description="queue with the events of a bucket")

    @field_validator("places", mode="before")
    @classmethod
    def _by_organization(cls, value: object) -> object:
        if not isinstance(value, dict):
            raise ValueError("should be a map from organizations to lists of places: {acme: [s3://raw/acme]}")
        return {name: (places,) if isinstance(places, str) else places for name, places in value.items()}

    @field_validator("places")
    @classmethod
    def _plain_places(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {
            _check_organization_key(name): tuple(_check_place(name, place) for place in places)
            for name, places in value.items()
        }


def _check_organization_key(name: str) -> str:
    try:
        return check_organization(name)
    except ConfigError as error:
        raise ValueError(f"should have names of organizations as keys: {error.message}") from None


def _check_place(organization: str, text: str) -> str:
    try:
        return parse_place(text)
    except ValueError as error:
        raise ValueError(f"has the place {text!r} of {organization}, which {error}") from None
