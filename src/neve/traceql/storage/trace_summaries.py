"""Summaries of traces for lists: root, start, duration, and counts by service."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.traceql.storage.span_reader import match_ids
from neve.traceql.storage.sql import Sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.traceql.storage.span_reader import SpanReader, Window

__all__ = ["TraceSummary", "read_summaries"]

NO_ROOT = "<root span not yet received>"  # as Tempo names it
MAX_SERVICES = 50  # of a trace
_START, _END = "start_time_unix_nano", "end_time_unix_nano"
_IS_ROOT = "parent_span_id IS NULL"
_COLUMNS = f"""
    trace_id, coalesce(service_name, '') AS service, count(*) AS spans,
    count(*) FILTER (WHERE status_code = 2) AS errors,
    min({_START}) AS start, max(greatest({_END}, {_START})) AS stop,
    min({_START}) FILTER (WHERE {_IS_ROOT}) AS root_start,
    arg_min(operation_name, {_START}) FILTER (WHERE {_IS_ROOT}) AS root
"""


@dataclass(slots=True)
class TraceSummary:
    """Root, times and services of a trace."""

    root_service: str = ""
    root_name: str = NO_ROOT
    start_ns: int = 0
    end_ns: int = 0
    services: dict[str, tuple[int, int]] = field(default_factory=dict)  # spans and errors
    _root_start: int | None = None

    def add(self, row: dict[str, Any]) -> None:
        """Add the spans of one service."""
        self.start_ns = min(self.start_ns or row["start"], row["start"])
        self.end_ns = max(self.end_ns, row["stop"])
        if len(self.services) < MAX_SERVICES:
            self.services[row["service"]] = (row["spans"], row["errors"])
        begin = row["root_start"]
        if begin is not None and (self._root_start is None or begin < self._root_start):
            self._root_start, self.root_service, self.root_name = begin, row["service"], row["root"] or ""


def read_summaries(reader: SpanReader, ids: Sequence[bytes], window: Window) -> dict[bytes, TraceSummary]:
    """Return the summaries of traces by their ids."""
    found: dict[bytes, TraceSummary] = {}
    if not ids:
        return found
    chosen = match_ids(ids)
    text = f"SELECT {_COLUMNS} FROM spans WHERE {chosen.text} GROUP BY trace_id, service ORDER BY spans DESC, service"  # noqa: S608  # parameters
    for row in reader.table(Sql(text, chosen.parameters), window).to_pylist():
        found.setdefault(row["trace_id"], TraceSummary()).add(row)
    return found
