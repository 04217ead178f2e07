"""Waterfall of a trace: a tree of spans with bars of their times, the critical path, and logs below their spans.

Imports rich, so the command imports this module when it runs.
"""

from __future__ import annotations

import sys
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from neve.cli.output import escape_controls, screen_width
from neve.model.critical_path import find_critical_paths
from neve.text import format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["describe_spans", "draw_waterfall"]

ERROR = 2
MIN_BAR, MAX_BAR = 10, 60  # columns
MAX_LOGS_OF_SPAN = 20
MAX_SERVICES = 8  # of the critical path
_WIDTH = 120  # without a terminal
_COLORS = ("cyan", "green", "magenta", "blue", "yellow")
_LEVELS = ((17, "red", "error"), (13, "yellow", "warn"), (9, "white", "info"), (1, "blue", "debug"))
_KINDS = ("", "internal", "server", "client", "producer", "consumer")
_STATUSES = ("unset", "ok", "error")


@dataclass
class TraceSpan:
    """Span of a waterfall. Times are nanoseconds after the start of the trace."""

    place: int
    span_id: str
    parent: int
    start: int
    duration: int
    service: str
    name: str
    kind: int
    status: int
    critical: int = 0
    depth: int = 0
    logs: list[dict[str, Any]] = field(default_factory=list)


def read_spans(document: dict[str, Any], logs: Sequence[dict[str, Any]]) -> list[TraceSpan]:
    """Return the spans of a trace with their times on the critical path and their logs, in order of start."""
    columns = document["spans"]
    found = [
        TraceSpan(
            place,
            span_id or "",
            columns["parent"][place],
            int(columns["start"][place] or 0),
            max(int(columns["duration"][place] or 0), 0),
            document["services"][columns["service"][place]],
            document["names"][columns["name"][place]],
            columns["kind"][place],
            columns["status"][place],
        )
        for place, span_id in enumerate(columns["span_id"])
    ]
    path = find_critical_paths(
        [one.parent for one in found], [one.start for one in found], [one.start + one.duration for one in found]
    )
    by_id: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in logs:
        by_id[record.get("span_id") or ""].append(record)
    for one, critical in zip(found, path.tolist(), strict=True):
        one.critical, one.logs = critical, by_id.pop(one.span_id, []) if one.span_id else []
    return found


def order_tree(spans: Sequence[TraceSpan]) -> list[TraceSpan]:
    """Return spans below their parents, with their depths. Spans in a cycle come last."""
    children: dict[int, list[TraceSpan]] = defaultdict(list)
    for one in spans:
        if one.parent >= 0:
            children[one.parent].append(one)
    found: list[TraceSpan] = []
    waiting = [one for one in reversed(spans) if one.parent < 0]
    while waiting:
        one = waiting.pop()
        found.append(one)
        for child in reversed(children[one.place]):
            child.depth = one.depth + 1
            waiting.append(child)
    seen = {one.place for one in found}
    return found + [one for one in spans if one.place not in seen]


def describe_spans(document: dict[str, Any], logs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a trace as a document: one object for each span."""
    spans = order_tree(read_spans(document, logs))
    return {
        "trace_id": document["trace_id"],
        "start_unix_nano": document["start_unix_nano"],
        "duration_nano": document["duration_nano"],
        "span_count": document["span_count"],
        "error_count": document["error_count"],
        "left_out": document["left_out"],
        "critical_path": [{"service": name, "nanoseconds": time} for name, time in _sum_critical(spans)],
        "spans": [_describe(one, document) for one in spans],
        "logs": [one for one in logs if not one.get("span_id")],
    }


def _describe(one: TraceSpan, document: dict[str, Any]) -> dict[str, Any]:
    parents = document["spans"]["span_id"]
    return {
        "span_id": one.span_id,
        "parent_span_id": parents[one.parent] if one.parent >= 0 else None,
        "depth": one.depth,
        "service": one.service,
        "name": one.name,
        "kind": _KINDS[one.kind] if 0 < one.kind < len(_KINDS) else "unspecified",
        "status": _STATUSES[one.status] if 0 <= one.status < len(_STATUSES) else "unset",
        "start_nano": one.start,
        "duration_nano": one.duration,
        "critical_nano": one.critical,
        "logs": one.logs,
    }


def _sum_critical(spans: Sequence[TraceSpan]) -> list[tuple[str, int]]:
    """Return services with their times on the critical path, the longest first."""
    totals: Counter[str] = Counter()
    for one in spans:
        totals[one.service] += one.critical
    return [(name, time) for name, time in totals.most_common() if time]


def draw_waterfall(document: dict[str, Any], logs: Sequence[dict[str, Any]], limit: int) -> None:
    """Print a trace."""
    width = None if sys.stdout.isatty() else screen_width(_WIDTH)
    console = Console(width=width, highlight=False)
    spans = order_tree(read_spans(document, logs))
    shown = spans[:limit]
    console.print(_head(document), soft_wrap=True)
    total = sum(time for _, time in _sum_critical(spans))
    if total:
        parts = [
            f"{escape_controls(name)} {format_duration(time / 1e9)} ({100 * time / total:.0f} %)"
            for name, time in _sum_critical(spans)[:MAX_SERVICES]
        ]
        console.print(Text(f"critical path: {', '.join(parts)}"), soft_wrap=True)
    console.print()
    console.print(_build_table(shown, document, console.width))
    hidden = document["left_out"] + len(spans) - len(shown)
    if hidden:
        console.print(Text(f"{format_count(hidden, 'more span')} not drawn: raise --limit", style="dim"))


def _head(document: dict[str, Any]) -> Text:
    begin = datetime.fromtimestamp(int(document["start_unix_nano"]) // 1_000_000 / 1000, UTC)
    parts = [
        f"trace {document['trace_id']}",
        format_duration(int(document["duration_nano"]) / 1e9),
        format_count(document["span_count"], "span"),
        format_count(len(document["services"]), "service"),
        format_count(document["error_count"], "error"),
        f"{begin:%Y-%m-%dT%H:%M:%S}.{begin.microsecond // 1000:03d}Z",
    ]
    return Text(", ".join(parts), style="bold")


def _build_table(spans: Sequence[TraceSpan], document: dict[str, Any], width: int) -> Table:
    bar = min(max(width // 3, MIN_BAR), MAX_BAR)
    table = Table(box=None, pad_edge=False, header_style="dim", expand=False)
    table.add_column("span", overflow="ellipsis", no_wrap=True)
    table.add_column("duration", justify="right", no_wrap=True)
    table.add_column("critical", justify="right", no_wrap=True)
    table.add_column("", width=bar, no_wrap=True)
    whole = max(int(document["duration_nano"]), 1)
    for one in spans:
        critical = format_duration(one.critical / 1e9) if one.critical else ""
        table.add_row(_label(one), format_duration(one.duration / 1e9), critical, _draw_bar(one, whole, bar))
        for line in _list_logs(one, int(document["start_unix_nano"])):
            table.add_row(line, "", "", "")
    return table


def _label(one: TraceSpan) -> Text:
    """Return the name of a span, indented by its depth."""
    found = Text("  " * min(one.depth, 20))
    if one.status == ERROR:
        found.append("✗ ", style="bold red")
    found.append(escape_controls(one.service), style=_color(one.service))
    found.append(f" {escape_controls(one.name)}", style="red" if one.status == ERROR else "")
    return found


def _color(service: str) -> str:
    return _COLORS[zlib.crc32(service.encode()) % len(_COLORS)]


def _draw_bar(one: TraceSpan, whole: int, width: int) -> Text:
    """Return the bar of a span. Its part of the critical path is solid."""
    begin = min(one.start * width // whole, width - 1)
    end = max(min(-(-(one.start + one.duration) * width // whole), width), begin + 1)
    solid = min(round((end - begin) * one.critical / one.duration), end - begin) if one.duration else 0
    solid = max(solid, 1) if one.critical else 0
    found = Text(" " * begin)
    found.append("█" * solid, style="red" if one.status == ERROR else _color(one.service))
    found.append("░" * (end - begin - solid), style="dim")
    return found


def _list_logs(one: TraceSpan, start: int) -> Iterator[Text]:
    indent = "  " * min(one.depth + 1, 21)
    for record in one.logs[:MAX_LOGS_OF_SPAN]:
        severity = record.get("severity_number") or 0
        color, level = next(((color, name) for least, color, name in _LEVELS if severity >= least), ("dim", "log"))
        at = int(record.get("time_unix_nano") or record.get("observed_time_unix_nano") or start) - start
        text = Text(f"{indent}· {format_duration(at / 1e9)} ", style="dim")
        text.append(f"{level} ", style=color)
        text.append(escape_controls(record.get("message") or "").replace("\n", " "))
        yield text
    if len(one.logs) > MAX_LOGS_OF_SPAN:
        yield Text(f"{indent}· {len(one.logs) - MAX_LOGS_OF_SPAN} more logs", style="dim")
