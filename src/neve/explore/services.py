"""Services and operations of a time range: requests, errors and latency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neve.explore.source import RecordSource

__all__ = [
    "MAX_OPERATIONS",
    "MAX_SERVICES",
    "NAME_CHARACTERS",
    "aggregate_calls",
    "read_range",
    "read_services",
    "spread_latency",
]

MAX_SERVICES, MAX_OPERATIONS = 500, 1000
NAME_CHARACTERS = 200
ERROR = 2
# A request enters a service by a server or consumer span, or begins in it.
_IS_REQUEST = "span_kind IN (2, 5) OR parent_span_id IS NULL"
_SERVICE, _OPERATION = (f"coalesce(left({name}, {NAME_CHARACTERS}), '')" for name in ("service_name", "operation_name"))


# ruff: noqa: S608 - statements are made of constants, names are parameters


def aggregate_calls(duration: str, is_failed: str, condition: str = "true") -> str:
    """Return the SQL of the number of calls, of failed calls, and of the quantiles of their latency in milliseconds.

    Quantiles are estimates (t-digest), whose memory does not depend on the number of spans.
    """
    chosen = f"FILTER (WHERE {condition})"
    latency = f"approx_quantile({duration}, [0.5, 0.95, 0.99]) {chosen}"
    return (
        f"count(*) {chosen} AS calls, count(*) FILTER (WHERE ({condition}) AND ({is_failed})) AS errors, "
        f"{latency} AS latency"
    )


def read_range(source: RecordSource) -> dict[str, Any]:
    """Return the number of spans in the time range, and its seconds; an open range ends at the first or last span."""
    found = source.table(
        "SELECT count(*) AS spans, CAST(epoch_us(min(timestamp)) AS BIGINT) AS first, "
        "CAST(epoch_us(max(timestamp)) AS BIGINT) AS last FROM spans"
    ).to_pylist()[0]
    since = source.since.timestamp() if source.since else (found["first"] or 0) / 1e6
    until = source.until.timestamp() if source.until else (found["last"] or 0) / 1e6
    return {"spans": found["spans"], "seconds": max(until - since, 1.0)}


def read_services(source: RecordSource, service: str | None) -> dict[str, Any]:
    """Return services and operations, those with the most calls first; of one service, all of its operations.

    The calls of a service are the requests that enter it or begin in it.
    """
    where, parameters = (f"WHERE {_SERVICE} = ?", [service]) if service is not None else ("", [])
    requests = aggregate_calls("duration_ms", f"status_code = {ERROR}", _IS_REQUEST)
    spans = aggregate_calls("duration_ms", f"status_code = {ERROR}")
    services = source.rows(
        f"SELECT {_SERVICE} AS service, count(*) AS spans, {requests} FROM spans {where} GROUP BY 1 "
        f"ORDER BY calls DESC, spans DESC, service LIMIT {MAX_SERVICES + 1}",
        parameters,
    )
    operations = source.rows(
        f"SELECT {_SERVICE} AS service, {_OPERATION} AS operation, coalesce(span_kind, 0) AS kind, {spans} FROM spans "
        f"{where} GROUP BY 1, 2, 3 ORDER BY calls DESC, service, operation, kind LIMIT {MAX_OPERATIONS + 1}",
        parameters,
    )
    return read_range(source) | {
        "services": [spread_latency(one) for one in services[:MAX_SERVICES]],
        "operations": [spread_latency(one) for one in operations[:MAX_OPERATIONS]],
        "more_services": len(services) > MAX_SERVICES,
        "more_operations": len(operations) > MAX_OPERATIONS,
    }


def spread_latency(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with a key for each quantile of its latency.

    >>> spread_latency({"calls": 1, "latency": [1.0, 2.0, 3.0]})
    {'calls': 1, 'p50_ms': 1.0, 'p95_ms': 2.0, 'p99_ms': 3.0}
    """
    latency = row.pop("latency") or (None, None, None)
    return row | dict(zip(("p50_ms", "p95_ms", "p99_ms"), latency, strict=True))
