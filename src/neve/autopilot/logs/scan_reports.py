"""Iceberg scan reports, as clients post them to a REST catalog: filter expressions without SQL.

Java clients mask the values of reported filters: `(hash-1a2b3c4d)`, `(2-digit-int)`, `(timestamp)`. Then a report shows
that there was a test, but not what it prunes: its kind is `other`, and its function is `masked` and the original kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from neve.autopilot.logs.records import LoggedQuery, UnreadableRecord, list_log_files, read_documents
from neve.autopilot.logs.trino_log import parse_event_time
from neve.autopilot.workload.queries import TableUse
from neve.predicate.filters import NEVER, AllOf, Test, all_of, any_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from neve.autopilot.logs.records import LogRecord
    from neve.predicate.filters import Filter, Value


MASKED = "masked"
MASK = re.compile(r"^\((hash-[0-9a-f]{8}|\d+-digit-(int|float)|date(-.*)?|time|timestamp(-.*)?|variant)\)$")
MAX_DEPTH = 200
NEGATED_PREDICATES = {
    "eq": "not-eq",
    "not-eq": "eq",
    "lt": "gt-eq",
    "gt-eq": "lt",
    "gt": "lt-eq",
    "lt-eq": "gt",
    "in": "not-in",
    "not-in": "in",
    "is-null": "not-null",
    "not-null": "is-null",
    "starts-with": "not-starts-with",
    "not-starts-with": "starts-with",
    "is-nan": "not-nan",
    "not-nan": "is-nan",
}


def parse_expression(expression: Any, *, truth: bool = True, depth: int = 0) -> Filter | None:
    """Convert an expression to a filter; `None` if every row passes."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(expression, bool):
        return None if expression == truth else NEVER
    kind = str(expression["type"])
    if kind in {"true", "false"}:
        return None if (kind == "true") == truth else NEVER
    if kind == "not":
        return parse_expression(expression["child"], truth=not truth, depth=depth + 1)
    if kind in {"and", "or"}:
        parts = [parse_expression(expression[side], truth=truth, depth=depth + 1) for side in ("left", "right")]
        return all_of(parts) if (kind == "and") == truth else any_of(parts)
    return _parse_predicate(expression, kind if truth else NEGATED_PREDICATES.get(kind, ""))


def _parse_predicate(expression: dict[str, Any], kind: str) -> Filter:
    column, transform = _parse_term(expression["term"])
    make = _TESTS.get(kind)
    if make is None or transform:
        return Test(column, "other", function=transform)
    values = [expression["value"]] if "value" in expression else list(expression.get("values") or [])
    if any(isinstance(value, str) and MASK.match(value) for value in values):
        return Test(column, "other", function=f"{MASKED} {_KINDS[kind]}")
    return make(column, tuple(values))


def _parse_term(term: Any) -> tuple[str, str]:
    """Return a column, and the transform around it."""
    if isinstance(term, str):
        return term, ""
    if term.get("type") == "reference":
        return str(term["term"]), ""
    return _parse_term(term["term"])[0], str(term.get("transform", "transform"))


def _not_in(column: str, values: tuple[Value, ...]) -> Filter:
    parts = [
        any_of([_less_than(column, value, inclusive=False), _greater_than(column, value, inclusive=False)])
        for value in values
    ]
    return all_of(parts) or Test(column, "not_null")


def _less_than(column: str, value: Value, *, inclusive: bool) -> Test:
    return Test(column, "range", high=value, high_inclusive=inclusive)


def _greater_than(column: str, value: Value, *, inclusive: bool) -> Test:
    return Test(column, "range", low=value, low_inclusive=inclusive)


_TESTS: dict[str, Callable[[str, tuple[Value, ...]], Filter]] = {
    "eq": lambda column, values: Test(column, "eq", values),
    "in": lambda column, values: Test(column, "in", values),
    "starts-with": lambda column, values: Test(column, "prefix", values),
    "is-null": lambda column, _: Test(column, "is_null"),
    "not-null": lambda column, _: Test(column, "not_null"),
    "lt": lambda column, values: _less_than(column, values[0], inclusive=False),
    "lt-eq": lambda column, values: _less_than(column, values[0], inclusive=True),
    "gt": lambda column, values: _greater_than(column, values[0], inclusive=False),
    "gt-eq": lambda column, values: _greater_than(column, values[0], inclusive=True),
    "not-eq": _not_in,
    "not-in": _not_in,
}
_KINDS = {
    **dict.fromkeys(("lt", "lt-eq", "gt", "gt-eq", "not-eq", "not-in"), "range"),
    "eq": "eq",
    "in": "in",
    "starts-with": "prefix",
    "is-null": "is_null",
    "not-null": "not_null",
}


ENGINE = "iceberg"
REPORT_TYPE = "scan-report"
RECEIVED_KEY = "received"  # a report has no time of its own: the receiver adds the time of arrival


@dataclass(frozen=True)
class ScanReports:
    """Files or folders of reports, one JSON object per line."""

    place: str

    @property
    def name(self) -> str:
        """The name for reports."""
        return f"scan reports {self.place}"

    def queries(self, since: datetime) -> Iterator[LogRecord]:
        """Yield the scans since a time; commit reports are skipped."""
        for file in list_log_files(self.place, since):
            for number, document in read_documents(file):
                record = document if isinstance(document, UnreadableRecord) else _parse_report(document, file, number)
                if isinstance(record, UnreadableRecord) or (record is not None and record.at >= since):
                    yield record


def _parse_report(report: dict[str, Any], file: Path, number: int) -> LogRecord | None:
    if report.get("report-type", REPORT_TYPE) != REPORT_TYPE or "table-name" not in report:
        return None
    where = f"{file.name}:{number}"
    try:
        return LoggedQuery(
            query_id=where,
            engine=ENGINE,
            at=parse_event_time(report[RECEIVED_KEY]) if RECEIVED_KEY in report else _modified_at(file),
            seconds=_planning_seconds(report.get("metrics") or {}),
            uses=(_parse_use(report),),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return UnreadableRecord("not a scan report", where)


def _parse_use(report: dict[str, Any]) -> TableUse:
    metrics = report.get("metrics") or {}
    found = parse_expression(report.get("filter", True))
    names = (
        str(name).removesuffix(".key").removesuffix(".value") for name in report.get("projected-field-names") or []
    )
    size = metrics.get("total-file-size-in-bytes")
    return TableUse(
        table=str(report["table-name"]),
        filter=found if found is not None else AllOf(),
        columns=tuple(dict.fromkeys(names)),
        bytes_read=None if size is None else int(size["value"]),
    )


def _planning_seconds(metrics: dict[str, Any]) -> float | None:
    """Return the duration of planning; a report has no duration of the read."""
    timer = metrics.get("total-planning-duration")
    if timer is None or timer.get("time-unit") != "nanoseconds":
        return None
    return float(timer["total-duration"]) / 1e9


def _modified_at(file: Path) -> datetime:
    return datetime.fromtimestamp(file.stat().st_mtime, UTC)
