"""Scans of Iceberg tables in a plan of Spark, as SQL.

An event log has no SQL for what was asked through DataFrames or `spark.sql(…).collect()`, only the plan. The scan of a
table lists the filters that Iceberg got; those on keys of a map stay in Spark, in the node above. Left out are filters
that are no SQL, as texts with quotes in them are written as they are, and IS NOT NULL, which Spark adds to any filter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.autopilot.parse.statement import Unreadable, trees_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SCAN = re.compile(r"^BatchScan (?P<table>[^\[\s]+)\[(?P<columns>[^\]]*)\] IcebergScan\((?P<rest>.*)\)", re.S)
FILTERS = re.compile(r"(?:^|, )filters=(?P<filters>.*?)(?:, runtimeFilters=.*)?, groupedBy=", re.S)
COLUMN = re.compile(r"(?P<name>[^,#]+)#\d+L?")
KEY = r"(?P<column>\w+)#\d+\[(?P<key>[^\]]+)\]"
KEY_EQUALS = re.compile(rf"\({KEY} = (?P<value>[^()]*)\)")
KEY_IN = re.compile(rf"{KEY} IN \((?P<values>[^()]*)\)")
KEY_STARTS = re.compile(rf"StartsWith\({KEY}, (?P<value>[^()]*)\)")
BYTES = "total data file size (bytes)"
MOST_DEPTH = 500


@dataclass(frozen=True)
class Scan:
    """One scan: its statement, its table, and the accumulator that counts its bytes."""

    sql: str
    table: tuple[str, ...]
    bytes_id: int | None


def scans_of(plan: dict[str, Any]) -> list[Scan]:
    """The scans of a plan, from top to bottom."""
    found = []
    waiting: list[tuple[dict[str, Any], str, int]] = [(plan, "", 0)]
    while waiting:
        node, above, depth = waiting.pop()
        said = str(node.get("simpleString", ""))
        scan = _scan(node, said, above)
        if scan is not None:
            found.append(scan)
        condition = said if said.startswith("Filter ") else above if _passes(said) else ""
        if depth < MOST_DEPTH:
            waiting += [(child, condition, depth + 1) for child in reversed(node.get("children") or [])]
    return found


def _scan(node: dict[str, Any], said: str, above: str) -> Scan | None:
    match = SCAN.match(said)
    if match is None:
        return None
    filters = FILTERS.search(match["rest"])
    conditions = [*_parts(filters["filters"] if filters else ""), *_on_keys(above)]
    where = " AND ".join(f"({one})" for one in conditions if not one.endswith(" IS NOT NULL") and _is_sql(one))
    columns = [one["name"].strip() for one in COLUMN.finditer(match["columns"])]
    table = tuple(match["table"].split("."))
    sql = " ".join(["SELECT", ", ".join(map(_quoted, columns)) or "1", "FROM", ".".join(map(_quoted, table))])
    return Scan(f"{sql} WHERE {where}" if where else sql, table, _accumulator(node))


def _passes(said: str) -> bool:
    """Whether a node hands rows on as they are, so that a condition above it is one on the scan below."""
    return said.startswith(("ColumnarToRow", "InputAdapter", "WholeStageCodegen"))


def _parts(filters: str) -> Iterator[str]:
    """Filters that stand with commas between them; a comma in brackets or quotes is none."""
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


def _on_keys(condition: str) -> Iterator[str]:
    """Tests of keys of a map that hold for every row, since nothing but AND is around them."""
    if " OR " in condition or "NOT " in condition:
        return
    for one in KEY_EQUALS.finditer(condition):
        yield f"{_key(one)} = {_text(one['value'])}"
    for one in KEY_IN.finditer(condition):
        yield f"{_key(one)} IN ({', '.join(map(_text, one['values'].split(',')))})"
    for one in KEY_STARTS.finditer(condition):
        yield f"startswith({_key(one)}, {_text(one['value'])})"


def _is_sql(condition: str) -> bool:
    """A text with a quote in it is written without escapes, and what can't be read says nothing."""
    try:
        trees = trees_of(f"SELECT {condition}", "spark")
    except Unreadable:
        return False
    return len(trees) == 1


def _accumulator(node: dict[str, Any]) -> int | None:
    found = (one.get("accumulatorId") for one in node.get("metrics") or [] if one.get("name") == BYTES)
    return next(found, None)


def _key(match: re.Match[str]) -> str:
    return f"{_quoted(match['column'])}[{_text(match['key'])}]"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
