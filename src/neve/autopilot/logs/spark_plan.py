"""Scans of Iceberg tables in a Spark plan, rendered as SQL.

An event log has no SQL for DataFrames or `spark.sql(…).collect()`, only the plan. The scan of a table lists the
filters that were pushed down to Iceberg; those on map keys stay in the Spark node above it. Filters that don't parse
are skipped, because Spark prints strings without escapes. So is IS NOT NULL, which Spark adds to any filter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.autopilot.workload.sql_statement import UnreadableSql, parse_statements

if TYPE_CHECKING:
    from collections.abc import Iterator

SCAN = re.compile(r"^BatchScan (?P<table>[^\[\s]+)\[(?P<columns>[^\]]*)\] IcebergScan\((?P<rest>.*)\)", re.S)
FILTERS = re.compile(r"(?:^|, )filters=(?P<filters>.*?)(?:, runtimeFilters=.*)?, groupedBy=", re.S)
COLUMN = re.compile(r"(?P<name>[^,#]+)#\d+L?")
KEY = r"(?P<column>\w+)#\d+\[(?P<key>[^\]]+)\]"
KEY_EQUALS = re.compile(rf"\({KEY} = (?P<value>[^()]*)\)")
KEY_IN = re.compile(rf"{KEY} IN \((?P<values>[^()]*)\)")
KEY_STARTS = re.compile(rf"StartsWith\({KEY}, (?P<value>[^()]*)\)")
BYTES_METRIC = "total data file size (bytes)"
MAX_DEPTH = 500


@dataclass(frozen=True)
class PlanScan:
    """One scan: its statement, its table, and the accumulator that counts its bytes."""

    sql: str
    table: tuple[str, ...]
    bytes_id: int | None


def find_scans(plan: dict[str, Any]) -> list[PlanScan]:
    """Return the scans of a plan, from top to bottom."""
    found = []
    waiting: list[tuple[dict[str, Any], str, int]] = [(plan, "", 0)]
    while waiting:
        node, above, depth = waiting.pop()
        text = str(node.get("simpleString", ""))
        scan = _parse_scan(node, text, above)
        if scan is not None:
            found.append(scan)
        condition = text if text.startswith("Filter ") else above if _passes_rows(text) else ""
        if depth < MAX_DEPTH:
            waiting += [(child, condition, depth + 1) for child in reversed(node.get("children") or [])]
    return found


def _parse_scan(node: dict[str, Any], text: str, above: str) -> PlanScan | None:
    match = SCAN.match(text)
    if match is None:
        return None
    filters = FILTERS.search(match["rest"])
    conditions = [*_split_filters(filters["filters"] if filters else ""), *_find_key_tests(above)]
    where = " AND ".join(f"({one})" for one in conditions if not one.endswith(" IS NOT NULL") and _is_sql(one))
    columns = [one["name"].strip() for one in COLUMN.finditer(match["columns"])]
    table = tuple(match["table"].split("."))
    sql = " ".join(["SELECT", ", ".join(map(_quote_name, columns)) or "1", "FROM", ".".join(map(_quote_name, table))])
    return PlanScan(f"{sql} WHERE {where}" if where else sql, table, _bytes_accumulator(node))


def _passes_rows(text: str) -> bool:
    """Return whether a node passes rows on unchanged, so that a condition above it applies to the scan below."""
    return text.startswith(("ColumnarToRow", "InputAdapter", "WholeStageCodegen"))


def _split_filters(filters: str) -> Iterator[str]:
    """Split filters at commas, except those in brackets or quotes."""
    depth, quoted, start = 0, False, 0
    for place, letter in enumerate(filters):
        if letter == "'":
            quoted = not quoted
        elif not quoted:
            depth += (letter == "(") - (letter == ")")
            if letter == "," and depth == 0:
                yield filters[start:place].strip()
                start = place + 1
    if filters[start:].strip():
        yield filters[start:].strip()


def _find_key_tests(condition: str) -> Iterator[str]:
    """Yield the tests on map keys that hold for every row, because they are only joined by AND."""
    if " OR " in condition or "NOT " in condition:
        return
    for one in KEY_EQUALS.finditer(condition):
        yield f"{_format_key(one)} = {_quote_text(one['value'])}"
    for one in KEY_IN.finditer(condition):
        yield f"{_format_key(one)} IN ({', '.join(map(_quote_text, one['values'].split(',')))})"
    for one in KEY_STARTS.finditer(condition):
        yield f"startswith({_format_key(one)}, {_quote_text(one['value'])})"


def _is_sql(condition: str) -> bool:
    """Return whether a condition parses.

    Spark prints text that contains a quote without escapes. A condition that doesn't parse is no evidence.
    """
    try:
        trees = parse_statements(f"SELECT {condition}", "spark")
    except UnreadableSql:
        return False
    return len(trees) == 1


def _bytes_accumulator(node: dict[str, Any]) -> int | None:
    found = (one.get("accumulatorId") for one in node.get("metrics") or [] if one.get("name") == BYTES_METRIC)
    return next(found, None)


def _format_key(match: re.Match[str]) -> str:
    return f"{_quote_name(match['column'])}[{_quote_text(match['key'])}]"


def _quote_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _quote_text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
