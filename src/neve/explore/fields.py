"""Fields of records, their values, and records over time: what narrows a search.

A field is a column of a fixed list, or else an attribute of the record or of its resource.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from neve.explore.source import RecordSource

__all__ = [
    "FIELD_COLUMNS",
    "MAX_BARS",
    "MAX_FIELDS",
    "MAX_GROUPS",
    "MAX_VALUES",
    "SAMPLED_RECORDS",
    "Selection",
    "choose_step",
    "read_fields",
    "read_histogram",
    "read_values",
]

FIELD_COLUMNS: dict[str, tuple[str, ...]] = {
    "logs": ("service_name", "severity_number", "severity_text", "event_name", "scope_name"),
    "spans": ("service_name", "operation_name", "span_kind", "status_code", "status_message", "scope_name"),
    "metrics": ("service_name", "metric_name", "metric_type", "unit", "scope_name"),
}
SAMPLED_RECORDS = 20_000  # whose attributes are listed
MAX_FIELDS, MAX_VALUES, MAX_GROUPS, MAX_BARS = 200, 100, 30, 500
NAME_CHARACTERS, VALUE_CHARACTERS = 200, 200
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)  # seconds

# ruff: noqa: S608 - names of tables and columns are those above; a condition is the caller's statement, planned as one


@dataclass(frozen=True)
class Selection:
    """Records of a table that a condition in SQL selects."""

    table: str
    where: str = ""
    parameters: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, wanted: Mapping[str, Any]) -> Selection:
        """Return the selection of a request."""
        return cls(wanted["table"], wanted.get("where", ""), json.loads(wanted.get("parameters", "{}")))

    def write(self, *columns: str, condition: str = "") -> str:
        """Return the SQL of the records, with the columns."""
        conditions = " AND ".join(f"({one})" for one in (self.where, condition) if one)
        return f"SELECT {', '.join(columns)} FROM {self.table}" + (f" WHERE {conditions}" if conditions else "")

    def bind(self, **more: Any) -> dict[str, Any]:
        """Return the values of all parameters."""
        return {**(self.parameters or {}), **more}


def read_fields(selection: Selection, source: RecordSource) -> dict[str, Any]:
    """Return the columns that can be counted, and the attributes of a part of the records, most frequent first."""
    keys = ("attributes", "resource_attrs")
    lists = ", ".join(
        f"list_transform(map_keys({column}), name -> {{'kind': '{kind}', 'name': name}})"
        for column, kind in zip(keys, ("attribute", "resource"), strict=True)
    )
    found = source.rows(
        f"SELECT field.kind AS kind, left(field.name, {NAME_CHARACTERS}) AS name, count(*) AS records "
        f"FROM (SELECT unnest(list_concat({lists})) AS field FROM "
        f"({selection.write(*keys)} LIMIT {SAMPLED_RECORDS})) "
        f"GROUP BY 1, 2 ORDER BY records DESC, name, kind LIMIT {MAX_FIELDS + 1}",
        selection.bind(),
    )
    return {
        "table": selection.table,
        "columns": list(FIELD_COLUMNS[selection.table]),
        "attributes": found[:MAX_FIELDS],
        "sampled": SAMPLED_RECORDS,
        "more": len(found) > MAX_FIELDS,
    }


def read_values(selection: Selection, fields: list[str], limit: int, source: RecordSource) -> dict[str, Any]:
    """Return the most frequent values of each field, with the number of records that have them."""
    return {"table": selection.table, "fields": [_count_values(selection, one, limit, source) for one in fields]}


def _count_values(selection: Selection, field: str, limit: int, source: RecordSource) -> dict[str, Any]:
    is_column = field in FIELD_COLUMNS[selection.table]
    value = field if is_column else "coalesce(attributes[$field_name], resource_attrs[$field_name])"
    chosen = selection.write(
        f"left(CAST({value} AS VARCHAR), {VALUE_CHARACTERS}) AS value",
        condition="" if is_column else f"{value} IS NOT NULL",
    )
    found = source.rows(
        f"SELECT value, count(*) AS records FROM ({chosen}) GROUP BY 1 ORDER BY records DESC, value LIMIT {limit + 1}",
        selection.bind() if is_column else selection.bind(field_name=field),
    )
    return {"field": field, "values": found[:limit], "more": len(found) > limit}


def read_histogram(selection: Selection, by: str, bars: int, source: RecordSource) -> dict[str, Any]:
    """Return the number of records in equal steps of time, by the values of a column."""
    if source.since is None or source.until is None:
        raise ValueError("a histogram needs a range")
    step = choose_step(source.since, source.until, bars)
    first = int(source.since.timestamp() // step)
    count = max(1, -(-int(source.until.timestamp() * 1000) // (step * 1000)) - first)
    column = f"left(CAST({by} AS VARCHAR), {VALUE_CHARACTERS}) AS value" if by else "NULL AS value"
    found = source.rows(
        f"SELECT bar, value, count(*) AS records FROM "
        f"({selection.write(f'CAST(epoch_ms(timestamp) // {step * 1000} AS BIGINT) AS bar', column)}) GROUP BY 1, 2",
        selection.bind(),
    )
    totals: dict[str | None, int] = {}
    for row in found:
        totals[row["value"]] = totals.get(row["value"], 0) + row["records"]
    largest = sorted(totals, key=lambda value: (-totals[value], str(value)))[:MAX_GROUPS]
    counts = {value: [0] * count for value in largest}
    for row in found:
        place = row["bar"] - first
        if row["value"] in counts and 0 <= place < count:
            counts[row["value"]][place] += row["records"]
    return {
        "table": selection.table,
        "start_unix_seconds": first * step,
        "step_seconds": step,
        "bars": count,
        "groups": [{"value": value, "records": counts[value]} for value in largest],
        "left_out": sum(totals.values()) - sum(totals[value] for value in largest),
    }


def choose_step(since: datetime, until: datetime, bars: int) -> int:
    """Return the seconds of a bar, so that a range has at most about `bars` of them.

    >>> from datetime import UTC, datetime
    >>> [choose_step(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, day, tzinfo=UTC), 120) for day in (2, 31)]
    [900, 21600]
    """
    seconds = max(1.0, (until - since).total_seconds())
    days = -(-int(seconds) // (bars * 86_400)) * 86_400
    return next((step for step in STEPS if seconds / step <= bars), max(days, 86_400))
