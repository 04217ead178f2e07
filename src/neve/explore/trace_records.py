"""Records of a trace: single spans in full, its logs, and the sampling decisions about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.explore.source import RecordSource, cut_text

__all__ = ["LOG_COLUMNS", "MAX_DECISIONS", "MAX_LOGS", "MAX_VERSIONS", "read_decisions", "read_logs", "read_span"]

if TYPE_CHECKING:
    from neve.explore.source import Context

MAX_LOGS = 1000
MAX_VERSIONS = 10  # spans with the same id
MAX_DECISIONS = 100
MAX_EVENTS = 200  # of a span, and as many links
VALUE_CHARACTERS = 16_384  # of an attribute
MESSAGE_CHARACTERS = 2048
LOG_MARGIN = timedelta(hours=1)  # around the spans: clocks differ, and some work outlives its span
LAST_SECOND = 253_402_300_799  # of the year 9999


def _attributes(column: str) -> str:
    """Return the SQL of a map of attributes whose long values are cut."""
    pairs = f"list_transform(map_entries({column}), pair -> {{'k': pair.key, 'v': {_cut_value('pair.value')}}})"
    return f"CASE WHEN {column} IS NULL THEN NULL ELSE map_from_entries({pairs}) END"


def _cut_value(value: str) -> str:
    return cut_text(value, VALUE_CHARACTERS)


_SPAN = f"""
    span_id, parent_span_id, {cut_text("service_name", VALUE_CHARACTERS)} AS service_name,
    {cut_text("operation_name", VALUE_CHARACTERS)} AS operation_name, span_kind, status_code,
    {cut_text("status_message", VALUE_CHARACTERS)} AS status_message, duration_ms, start_time_unix_nano,
    end_time_unix_nano, {cut_text("trace_state", VALUE_CHARACTERS)} AS trace_state, flags,
    {_attributes("attributes")} AS attributes, {_attributes("resource_attrs")} AS resource_attributes,
    {cut_text("scope_name", VALUE_CHARACTERS)} AS scope_name,
    {cut_text("scope_version", VALUE_CHARACTERS)} AS scope_version,
    list_transform(events[:{MAX_EVENTS}], e -> {{
        'time_unix_nano': e.time_unix_nano, 'name': {_cut_value("e.name")}, 'attributes': {_attributes("e.attributes")}
    }}) AS events, len(events) AS event_count,
    list_transform(links[:{MAX_EVENTS}], e -> {{
        'trace_id': e.trace_id, 'span_id': e.span_id, 'attributes': {_attributes("e.attributes")}
    }}) AS links, len(links) AS link_count,
    dropped_attributes_count, dropped_events_count, dropped_links_count, record_id, ingested_at
"""
LOG_COLUMNS = f"""
    timestamp, time_unix_nano, observed_time_unix_nano, service_name, severity_number, severity_text, span_id,
    {cut_text("message", MESSAGE_CHARACTERS)} AS message, record_id
"""
_DECISION = """
    selector, revision, kind, decision, policy, reason, adjusted_count, probability, late_spans, taken_by, decided_at,
    ready_at, ready_because, span_count, duration_ms, has_error, policies_hash, cycle
"""
_TRACE = "trace_id = unhex('{}')"
# ruff: noqa: S608 - ids are hexadecimal digits, the rest are constants


def read_span(trace_id: str, span_id: str, source: RecordSource) -> dict[str, Any]:
    """Return the spans with an id in full: usually one, more if a client used the id twice."""
    where = f"WHERE {_TRACE.format(trace_id)} AND span_id = unhex('{span_id}')"
    spans = source.rows(
        f"SELECT {_SPAN} FROM spans {where} ORDER BY start_time_unix_nano, record_id LIMIT {MAX_VERSIONS}"
    )
    return {"trace_id": trace_id, "span_id": span_id, "spans": spans}


def read_logs(trace_id: str, span_id: str | None, limit: int, source: RecordSource) -> dict[str, Any]:
    """Return the logs of a trace or a span, from an hour before the first span to an hour after the last."""
    bounds = source.table(
        f"SELECT min(start_time_unix_nano) AS first, max(greatest(end_time_unix_nano, start_time_unix_nano)) AS last "
        f"FROM spans WHERE {_TRACE.format(trace_id)} AND start_time_unix_nano > 0"
    ).to_pylist()[0]
    near = _around(source.context, bounds["first"], bounds["last"])
    where = f"FROM logs WHERE {_TRACE.format(trace_id)}" + (f" AND span_id = unhex('{span_id}')" if span_id else "")
    logs = near.rows(f"SELECT {LOG_COLUMNS} {where} ORDER BY timestamp, time_unix_nano, record_id LIMIT {limit}")
    count = len(logs) if len(logs) < limit else near.one(f"SELECT count(*) AS logs {where}")["logs"]
    return {
        "trace_id": trace_id,
        "since": near.since and near.since.isoformat(),
        "until": near.until and near.until.isoformat(),
        "logs": logs,
        "left_out": count - len(logs),
    }


def _around(context: Context, first: int | None, last: int | None) -> RecordSource:
    """Return a source of records near a time; without a time, of all records."""
    if not first or not last:
        return RecordSource(context)
    since = datetime.fromtimestamp(min(first // 10**9, LAST_SECOND - 86_400), UTC) - LOG_MARGIN
    until = datetime.fromtimestamp(min(last // 10**9 + 1, LAST_SECOND - 86_400), UTC) + LOG_MARGIN
    return RecordSource(context, since, until)


def read_decisions(trace_id: str, source: RecordSource) -> dict[str, Any]:
    """Return every revision of the sampling decisions about a trace, and the selectors that have not decided yet."""
    where = f"WHERE {_TRACE.format(trace_id)}"
    decisions = source.rows(
        f"SELECT {_DECISION} FROM trace_decisions {where} ORDER BY selector, revision LIMIT {MAX_DECISIONS}"
    )
    waiting = source.rows(
        f"SELECT selector, span_count, first_seen, last_seen FROM open_traces {where} "
        f"ORDER BY selector LIMIT {MAX_DECISIONS}"
    )
    return {"trace_id": trace_id, "decisions": decisions, "open": waiting}
