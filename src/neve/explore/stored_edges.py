"""Calls between services from the table `service_edges`, with files that the table has not seen asked directly.

Traces with spans in such files are taken out of the sums of the table, by their rows of `trace_summaries`, and counted
from their spans.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.model.service_calls import write_calls
from neve.model.trace_tables import BUCKET_SCALE, LOWEST_BUCKET

if TYPE_CHECKING:
    from neve.explore.source import RecordSource

__all__ = ["read_stored_edges"]

MAX_NEW_SPANS, MAX_NEW_TRACES = 2_000_000, 50_000  # in files that the table has not seen: above, all spans are asked
MINUTE, MARGIN, REACH = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)
_STEPS = 1 << BUCKET_SCALE
_EDGE = "client, server, connection"
_SUMS = ("calls", "errors", "estimated_calls", "estimated_errors")
# ruff: noqa: S608 - statements are made of constants, values are parameters


@dataclass(frozen=True)
class _Minutes:
    """Whole minutes of a time range."""

    since: datetime
    until: datetime

    @classmethod
    def of(cls, source: RecordSource) -> _Minutes:
        """Return the minutes that a time range touches."""
        since, until = source.since or _EPOCH, source.until or _LATEST
        first = _EPOCH + (since - _EPOCH) // MINUTE * MINUTE
        return cls(first, _EPOCH - (_EPOCH - until) // MINUTE * MINUTE)


def read_stored_edges(source: RecordSource, most: int) -> list[dict[str, Any]] | None:
    """Return at most so many edges, in whole minutes, or `None` if the table has seen too little to be of use."""
    minutes = _Minutes.of(source)
    ids = _find_new_traces(source, minutes)
    if ids is None:
        return None
    since, until = minutes.since, minutes.until
    wide = source.widen(
        max(since - REACH, _EPOCH) if source.since else None, min(until + MARGIN, _LATEST) if source.until else None
    )
    given = [",".join(one.hex() for one in ids)] * 2 if ids else []
    return wide.rows(_write_statement(minutes, most, has_new=bool(ids)), given)


def _find_new_traces(source: RecordSource, minutes: _Minutes) -> list[bytes] | None:
    """Return the traces with spans in files that the table has not seen, or `None` if these are too many."""
    around = source.widen(
        max(minutes.since - MARGIN, _EPOCH) if source.since else None,
        min(minutes.until + MARGIN, _LATEST) if source.until else None,
    )
    new = around.table("SELECT count(*) AS spans FROM spans", only_new_files=True).column(0)[0].as_py()
    if not new:
        return []
    if new > MAX_NEW_SPANS:
        return None
    sql = f"SELECT DISTINCT trace_id FROM spans WHERE trace_id IS NOT NULL LIMIT {MAX_NEW_TRACES + 1}"
    ids: list[bytes] = around.table(sql, only_new_files=True).column(0).to_pylist()
    return ids if len(ids) <= MAX_NEW_TRACES else None


def _write_statement(minutes: _Minutes, most: int, *, has_new: bool) -> str:
    """Return the statement of edges with their sums and the quantiles of their latency. Ids are given twice."""
    since, until = (f"TIMESTAMPTZ '{one.isoformat()}'" for one in (minutes.since, minutes.until))
    in_time = f"{{0}} >= {since} AND {{0}} < {until}"
    is_new = "trace_id IN (SELECT unhex(unnest(string_split(?, ','))))"
    parts = [
        f"SELECT client, server, connection_type AS connection, {', '.join(_SUMS)}, "
        f"NULL::INTEGER AS bucket, 0.0 AS weight FROM service_edges WHERE {in_time.format('timestamp')}",
        f"SELECT client, server, connection, 0, 0, 0.0, 0.0, entry.key, entry.value FROM ("
        "SELECT client, server, connection_type AS connection, unnest(map_entries(server_buckets)) AS entry "
        f"FROM service_edges WHERE {in_time.format('timestamp')}) AS entries",
    ]
    new = ""
    if has_new:
        new = write_calls(f"spans WHERE {is_new}") + ", "
        minute = "date_trunc('minute', began)"
        parts += [
            f"SELECT client, server, connection, {_write_call(1)} FROM edges WHERE {in_time.format(minute)}",
            f"SELECT client, server, connection, {_write_call(-1)} FROM ("
            "SELECT call.client, call.server, call.connection_type AS connection, call.is_failed AS failed, "
            "call.weight AS weight, call.server_ms AS server_ms, call.minute AS minute FROM ("
            f"SELECT unnest(calls) AS call FROM trace_summaries WHERE {is_new}) AS spread) AS old "
            f"WHERE {in_time.format('minute')}",
        ]
    sums = ", ".join(f"CAST(sum({name}) AS DOUBLE) AS {name}" for name in _SUMS)
    return f"""
    WITH {new}parts AS ({" UNION ALL ".join(parts)}),
    buckets AS (
        SELECT {_EDGE}, bucket, greatest(sum(weight), 0) AS weight FROM parts WHERE bucket IS NOT NULL
        GROUP BY {_EDGE}, bucket
    ),
    shares AS (
        SELECT {_EDGE}, bucket, weight, sum(weight) OVER (PARTITION BY {_EDGE} ORDER BY bucket) AS below,
            sum(weight) OVER (PARTITION BY {_EDGE}) AS total FROM buckets
    ),
    latencies AS (
        SELECT {_EDGE}, {", ".join(_write_quantile(one) for one in (0.5, 0.95, 0.99))} FROM shares
        WHERE weight > 0 GROUP BY {_EDGE}
    ),
    totals AS (SELECT {_EDGE}, {sums} FROM parts GROUP BY {_EDGE} HAVING sum(calls) > 0)
    SELECT {_EDGE}, {", ".join(_SUMS)}, p50_ms, p95_ms, p99_ms FROM totals LEFT JOIN latencies USING ({_EDGE})
    ORDER BY calls DESC, {_EDGE} LIMIT {most}
    """


def _write_call(sign: int) -> str:
    """Return the columns of one call, with a sign."""
    bucket = (
        f"CASE WHEN server_ms > 0 THEN greatest(CAST(ceil(log2(server_ms / 1000) * {_STEPS}) AS INTEGER) - 1, "
        f"{LOWEST_BUCKET}) WHEN server_ms IS NOT NULL THEN {LOWEST_BUCKET} END"
    )
    failed = "CASE WHEN failed THEN 1 ELSE 0 END"
    return f"{sign}, {sign} * {failed}, {sign} * weight, {sign} * weight * {failed}, {bucket}, {sign} * weight"


def _write_quantile(share: float) -> str:
    """Return the SQL of a quantile: the middle of the bucket that holds it, in milliseconds."""
    middle = f"1000 * pow(2, (min(bucket) FILTER (WHERE below >= {share} * total) + 0.5) / {_STEPS})"
    return f"{middle} AS p{round(share * 100)}_ms"
