"""Schemas of other systems' exports, declared as data, and the mapping of a file's fields by them.

A schema is recognised by the names of its fields. Upper and lower case, underscores and dashes make no difference,
except that an exact name is found before a similar one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.ingest.config import FieldsConfig
from neve.model.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Names = tuple[str, ...]

OBJECTS = ("attributes", "resource", "scope_attributes")
LISTS = (
    *("event_times", "event_names", "event_attributes"),
    *("link_trace_ids", "link_span_ids", "link_states", "link_attributes"),
    *("bucket_counts", "explicit_bounds", "positive_counts", "negative_counts", "quantiles", "quantile_values"),
    *("exemplar_times", "exemplar_values", "exemplar_trace_ids", "exemplar_span_ids", "exemplar_attributes"),
)
COMMON = ("time", "date", "service", "attributes", "resource")
SCOPE = ("scope_name", "scope_version", "scope_attributes", "scope_schema_url", "resource_schema_url")
MEANINGS: dict[Signal, Names] = {
    Signal.LOGS: (
        *(*COMMON, "message", "severity", "trace_id", "span_id", *SCOPE),
        *("severity_number", "observed", "flags", "event_name"),
    ),
    Signal.METRICS: (
        *(*COMMON, "name", "value", "unit", *SCOPE),
        *("description", "start", "flags", "temporality", "monotonic", "count", "sum", "min", "max"),
        *("scale", "zero_count", "zero_threshold", "positive_offset", "negative_offset", "counter", *LISTS[7:]),
    ),
    Signal.TRACES: (
        *(*COMMON, "name", "end", "duration_ms", "trace_id", "span_id", "parent_span_id", *SCOPE),
        *("kind", "status", "status_message", "trace_state", "flags", *LISTS[:7]),
    ),
}
# A file without any of these is not of the signal.
NEEDED: dict[Signal, Names] = {
    Signal.LOGS: ("time", "message"),
    Signal.METRICS: ("value", "count"),
    Signal.TRACES: ("trace_id", "span_id"),
}


def fold_name(name: str) -> str:
    """Return a name without case, underscores and dashes.

    >>> fold_name("ServiceName") == fold_name("service_name")
    True
    """
    return name.lower().replace("_", "").replace("-", "")


@dataclass(frozen=True)
class ForeignSchema:
    """The fields of an export.

    `needs` are names that all must be there, `one_of` names of which one must. A schema that is not `distinct` shares
    its names with other sources: the name of a file counts more.
    """

    name: str
    signal: Signal
    needs: Names
    one_of: Names = ()
    names: Mapping[str, Names] = field(default_factory=dict)
    repeated: Names = ()  # fields that only repeat others
    duration: str = "ms"
    severities: str = "names"
    metric_type: str = "gauge"
    distinct: bool = True

    def fits(self, present: frozenset[str]) -> bool:
        """Return whether a file with these names, in lower case or folded, has the schema."""
        return present.issuperset(self.needs) and (not self.one_of or not present.isdisjoint(self.one_of))


_OTEL_SCOPE = {
    "resource": ("ResourceAttributes",),
    "resource_schema_url": ("ResourceSchemaUrl",),
    "scope_name": ("ScopeName",),
    "scope_version": ("ScopeVersion",),
    "scope_attributes": ("ScopeAttributes",),
    "scope_schema_url": ("ScopeSchemaUrl",),
    "service": ("ServiceName",),
}
_CLICKHOUSE_LOGS = {
    **_OTEL_SCOPE,
    "time": ("Timestamp",),
    "observed": ("ObservedTimestamp",),
    "message": ("Body",),
    "severity": ("SeverityText",),
    "severity_number": ("SeverityNumber",),
    "flags": ("TraceFlags",),
    "event_name": ("EventName",),
    "attributes": ("LogAttributes",),
}
_CLICKHOUSE_TRACES = {
    **_OTEL_SCOPE,
    "time": ("Timestamp",),
    "name": ("SpanName",),
    "kind": ("SpanKind",),
    "status": ("StatusCode",),
    "status_message": ("StatusMessage",),
    "trace_state": ("TraceState",),
    "attributes": ("SpanAttributes",),
    "event_times": ("Events.Timestamp", "EventsTimestamp"),
    "event_names": ("Events.Name", "EventsName"),
    "event_attributes": ("Events.Attributes", "EventsAttributes"),
    "link_trace_ids": ("Links.TraceId", "LinksTraceId"),
    "link_span_ids": ("Links.SpanId", "LinksSpanId"),
    "link_states": ("Links.TraceState", "LinksTraceState"),
    "link_attributes": ("Links.Attributes", "LinksAttributes"),
}
_CLICKHOUSE_METRICS = {
    **_OTEL_SCOPE,
    "time": ("TimeUnix", "Timestamp"),
    "start": ("StartTimeUnix", "StartTimestamp"),
    "name": ("MetricName",),
    "description": ("MetricDescription",),
    "unit": ("MetricUnit",),
    "flags": ("Flags",),
    "temporality": ("AggregationTemporality", "AggTemp"),
    "monotonic": ("IsMonotonic",),
    "count": ("Count",),
    "sum": ("Sum",),
    "min": ("Min",),
    "max": ("Max",),
    "bucket_counts": ("BucketCounts",),
    "explicit_bounds": ("ExplicitBounds",),
    "scale": ("Scale",),
    "zero_count": ("ZeroCount",),
    "zero_threshold": ("ZeroThreshold",),
    "positive_offset": ("PositiveOffset",),
    "positive_counts": ("PositiveBucketCounts",),
    "negative_offset": ("NegativeOffset",),
    "negative_counts": ("NegativeBucketCounts",),
    "quantiles": ("ValueAtQuantiles.Quantile", "QuantileQuantiles"),
    "quantile_values": ("ValueAtQuantiles.Value", "QuantileValues"),
    "exemplar_times": ("Exemplars.TimeUnix", "ExemplarsTimestamp"),
    "exemplar_values": ("Exemplars.Value", "ExemplarsValue"),
    "exemplar_trace_ids": ("Exemplars.TraceId", "ExemplarsTraceId"),
    "exemplar_span_ids": ("Exemplars.SpanId", "ExemplarsSpanId"),
    "exemplar_attributes": ("Exemplars.FilteredAttributes", "ExemplarsFilteredAttributes"),
}
_ELASTIC = {
    "time": ("@timestamp",),
    "service": ("service.name",),
    "trace_id": ("trace.id",),
    "parent_span_id": ("parent.id",),
}
_METRIC_TYPES = {
    "exponential_histogram": ("scale", "zerocount", "positivebucketcounts"),
    "histogram": ("bucketcounts", "explicitbounds"),
    "summary": ("count", "sum"),
    "sum": ("value", "ismonotonic"),
    "gauge": ("value",),
}
_JOURNALD = {
    "time": ("__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP"),
    "message": ("MESSAGE",),
    "severity": ("PRIORITY",),
    "service": ("SYSLOG_IDENTIFIER", "_SYSTEMD_UNIT"),
}
_WINDOWS = {
    "time": tuple(f"System.TimeCreated.{name}" for name in ("SystemTime", "@SystemTime", "#attributes.SystemTime")),
    "message": ("RenderingInfo.Message", "Message", "EventData.Data", "EventData"),
    "severity": ("System.Level",),
    "service": ("System.Provider.Name", "System.Provider.@Name", "System.Provider.#attributes.Name"),
}

JOURNALD = ForeignSchema(
    "journald", Signal.LOGS, ("__realtime_timestamp",), ("message", "priority"), _JOURNALD, severities="syslog"
)
WINDOWS_EVENTS = ForeignSchema(
    "windows_events", Signal.LOGS, ("system.level",), ("system.eventid", "system.channel", "system.computer"),
    _WINDOWS, severities="windows",
)  # fmt: skip

SCHEMAS = (
    ForeignSchema(
        "clickhouse_traces", Signal.TRACES, ("timestamp", "traceid", "spanid", "spanname"),
        ("spankind", "spanattributes", "resourceattributes", "duration"), _CLICKHOUSE_TRACES, duration="ns",
    ),
    *(
        ForeignSchema(
            f"clickhouse_{kind}", Signal.METRICS, ("metricname", *marks), ("timeunix", "resourceattributes"),
            _CLICKHOUSE_METRICS, metric_type=kind,
        )
        for kind, marks in _METRIC_TYPES.items()
    ),
    ForeignSchema(
        "clickhouse_logs", Signal.LOGS, ("timestamp", "body"), ("logattributes", "resourceattributes", "severitytext"),
        _CLICKHOUSE_LOGS, repeated=("TimestampTime", "TimestampDate"),
    ),
    JOURNALD,
    WINDOWS_EVENTS,
    ForeignSchema(
        "elastic_spans", Signal.TRACES, ("@timestamp", "trace.id"), ("transaction.duration.us", "span.duration.us"),
        {
            **_ELASTIC,
            "time": ("timestamp.us", "@timestamp"),
            "name": ("span.name", "transaction.name"),
            "span_id": ("span.id", "transaction.id"),
            "duration_ms": ("span.duration.us", "transaction.duration.us"),
        },
        duration="us",
    ),
    ForeignSchema(
        "elastic_logs", Signal.LOGS, ("@timestamp",),
        ("ecs.version", "log.level", "event.dataset", "agent.type", "index", "service.name", "host.name"),
        {
            **_ELASTIC,
            "message": ("message", "event.original", "log.original", "body.text", "body"),
            "severity": ("log.level", "log.syslog.severity.name", "level", "severity_text"),
            "span_id": ("span.id", "transaction.id"),
        },
    ),
    ForeignSchema(
        "loki", Signal.LOGS, ("line", "timestamp"), (),
        {"time": ("tsNs", "timestamp"), "message": ("line",), "severity": ("detected_level", "level")}, distinct=False,
    ),
    ForeignSchema(
        "loki_grafana", Signal.LOGS, ("line", "tsns"), (),
        {"time": ("tsNs",), "message": ("line",), "severity": ("detected_level", "level")}, repeated=("Time", "Date"),
    ),
    ForeignSchema(
        "openobserve_traces", Signal.TRACES, ("starttime", "endtime", "traceid", "spanid", "operationname"),
        ("_timestamp", "spanstatus", "referenceparentspanid"),
        {
            "time": ("start_time",),
            "name": ("operation_name",),
            "parent_span_id": ("reference_parent_span_id", "reference.parent_span_id"),
            "kind": ("span_kind",),
            "status": ("span_status",),
            "status_message": ("status_message",),
        },
        duration="us",
    ),
    ForeignSchema(
        "openobserve_metrics", Signal.METRICS, ("_timestamp", "__name__", "value"), (),
        {"time": ("_timestamp",), "name": ("__name__",)},
    ),
    ForeignSchema("openobserve_logs", Signal.LOGS, ("_timestamp",), (), {"time": ("_timestamp",)}, distinct=False),
    ForeignSchema(
        "vector_metrics", Signal.METRICS, ("name", "timestamp", "kind"), ("counter", "gauge"),
        {"temporality": ("kind",), "attributes": ("tags",), "counter": ("counter",)}, repeated=("gauge",),
        metric_type="vector",
    ),
    ForeignSchema(
        "vector_logs", Signal.LOGS, ("message", "timestamp", "sourcetype"), (), {"time": ("timestamp",)}, distinct=False
    ),
    ForeignSchema(
        "fluent_bit", Signal.LOGS, ("date", "log"), (), {"time": ("date",), "message": ("log",)}, distinct=False
    ),
)  # fmt: skip


@dataclass(frozen=True)
class FieldMap:
    """The names in a file by their meaning, in the order in which they are looked up, and the names without one."""

    signal: Signal
    names: Mapping[str, Names]
    others: Names = ()
    schema: ForeignSchema | None = None

    @property
    def duration(self) -> str:
        """Return the unit of durations: ms, us or ns."""
        return self.schema.duration if self.schema else "ms"

    @property
    def missing(self) -> bool:
        """Return whether none of the names has a meaning that the signal needs."""
        return not any(self.names[meaning] for meaning in NEEDED[self.signal])


def detect_schema(names: Iterable[str], signal: Signal | None, guess: Signal | None) -> ForeignSchema | None:
    """Return the schema of a file with these names.

    A stated signal restricts the schemas, and one that a file's name suggests those that are not distinct.
    """
    present = frozenset(form for name in names for form in (name.lower(), fold_name(name)))
    for schema in SCHEMAS:
        if signal is not None and schema.signal is not signal:
            continue
        if not schema.distinct and guess not in (None, schema.signal):
            continue
        if schema.fits(present):
            return schema
    return None


def map_fields(signal: Signal, fields: FieldsConfig, names: Iterable[str], schema: ForeignSchema | None) -> FieldMap:
    """Find the names of a file that have a meaning for the signal."""
    lookup = _NameLookup(names)
    found = {meaning: lookup.find(_candidates(meaning, fields, schema)) for meaning in MEANINGS[signal]}
    used = {name for given in found.values() for name in given}
    repeated = lookup.find(schema.repeated) if schema else ()
    return FieldMap(
        signal, found | {"repeated": repeated}, tuple(n for n in lookup.names if n not in used | set(repeated)), schema
    )


def _candidates(meaning: str, fields: FieldsConfig, schema: ForeignSchema | None) -> Names:
    """Return the names to look for: those that the user configured, else those of the schema, then the common ones."""
    own: Names = schema.names.get(meaning, ()) if schema else ()
    if meaning not in FieldsConfig.model_fields:
        return own
    common: Names = getattr(fields, meaning)
    return common if common != FieldsConfig.model_fields[meaning].default else (*own, *common)


class _NameLookup:
    """The names of a file, exact and folded."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(names))
        self._folded: dict[str, list[str]] = {}
        for name in self.names:
            self._folded.setdefault(fold_name(name), []).append(name)
        self._exact = frozenset(self.names)

    def find(self, candidates: Names) -> Names:
        """Return the names that are there in the order of the candidates, an exact one before similar ones."""
        found = [name for candidate in candidates for name in self._find_one(candidate)]
        return tuple(dict.fromkeys(found))

    def _find_one(self, candidate: str) -> list[str]:
        exact = [candidate] if candidate in self._exact else []
        return [*exact, *self._folded.get(fold_name(candidate), ())]
