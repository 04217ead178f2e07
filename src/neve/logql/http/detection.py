"""Fields and patterns of lines, for Grafana's log panels.

Lines that differ in numbers and identifiers only are one pattern. This is simpler than Loki's miner, which also merges
lines that differ in words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from neve.lexical.units import UnitError, parse_bytes, parse_float, parse_go_duration
from neve.logql.pipeline.entry import ALL_LABELS, Entry
from neve.logql.pipeline.json_parser import JsonParser
from neve.logql.pipeline.logfmt_parser import LogfmtParser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from neve.promql.labels import Labels

__all__ = ["LinePattern", "detect_fields", "detect_labels", "find_patterns", "list_field_values"]

MAX_PATTERNS = 300  # of one answer
_MAX_KNOWN = 10_000  # patterns in memory
_MAX_CHARS = 1000  # of a line
_ANY = "<_>"
_VARIABLE = re.compile(r"(?:<_>|[^\s\"'=,:;()\[\]{}]*\d[^\s\"'=,:;()\[\]{}]*)")
_REPEATED = re.compile(r"<_>(?:[:.,/]?<_>)+")
_TYPES: tuple[tuple[str, Callable[[str], Any]], ...] = (
    ("int", int),
    ("float", parse_float),
    ("duration", parse_go_duration),
    ("bytes", parse_bytes),
)


@dataclass(slots=True)
class _Field:
    values: set[str] = field(default_factory=set)
    parsers: set[str] = field(default_factory=set)


def _find_type(value: str) -> str:
    """Return the type of a value.

    >>> _find_type("12"), _find_type("1.5s"), _find_type("true"), _find_type("x")
    ('int', 'duration', 'boolean', 'string')
    """
    if value.lower() in {"true", "false"}:
        return "boolean"
    for name, parse in _TYPES:
        try:
            parse(value)
        except (UnitError, ValueError):
            continue
        return name
    return "string"


def _copy(entry: Entry) -> Entry:
    return replace(
        entry, metadata=dict(entry.metadata), parsed={}, deleted=set(), extracted=set(), error="", details=""
    )


def _parse_line(entry: Entry) -> tuple[str, dict[str, str]]:
    """Return the parser that reads a line, and its fields."""
    if entry.line.lstrip()[:1] == "{":
        [parsed] = JsonParser(ALL_LABELS).apply([_copy(entry)])
        if not parsed.error and parsed.parsed:
            return "json", parsed.parsed
    if "=" in entry.line:
        [parsed] = LogfmtParser(True, False, ALL_LABELS).apply([_copy(entry)])
        if not parsed.error and parsed.parsed:
            return "logfmt", parsed.parsed
    return "", {}


def _collect(entries: Sequence[Entry]) -> dict[str, _Field]:
    found: dict[str, _Field] = defaultdict(_Field)
    for entry in entries:
        for name, value in (entry.metadata | entry.parsed).items():
            found[name].values.add(value)
        parser, fields = _parse_line(entry)
        for name, value in fields.items():
            found[name].values.add(value)
            found[name].parsers.add(parser)
    return found


def detect_fields(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the fields of lines: those of structured metadata, and those that `json` or `logfmt` finds."""
    return [
        {
            "label": name,
            "type": _find_type(next(iter(sorted(one.values)))),
            "cardinality": len(one.values),
            "parsers": sorted(one.parsers) or None,
        }
        for name, one in sorted(_collect(entries).items())
    ]


def list_field_values(entries: Sequence[Entry], name: str) -> list[str]:
    """Return the values of one field."""
    return sorted(_collect(entries)[name].values)


def detect_labels(streams: Iterable[Labels]) -> list[dict[str, Any]]:
    """Return the labels of streams with the number of their values."""
    found: dict[str, set[str]] = defaultdict(set)
    for labels in streams:
        for name, value in labels:
            found[name].add(value)
    return [{"label": name, "cardinality": len(values)} for name, values in sorted(found.items())]


@dataclass(slots=True)
class LinePattern:
    """Text with `<_>` for the parts that vary, and the number of lines in each step."""

    text: str
    counts: dict[int, int] = field(default_factory=lambda: defaultdict(int))


def mask_line(line: str) -> str:
    """Return a line with `<_>` in place of words that have digits.

    >>> mask_line('took 12ms for user=u17 at "10.0.0.1:80"')
    'took <_> for user=<_> at "<_>"'
    """
    return _REPEATED.sub(_ANY, _VARIABLE.sub(_ANY, line[:_MAX_CHARS]))


def find_patterns(lines: Iterable[tuple[int, str]], step_ns: int) -> list[LinePattern]:
    """Return the most frequent patterns of lines with their times."""
    found: dict[str, LinePattern] = {}
    for time_ns, line in lines:
        text = mask_line(line)
        one = found.get(text)
        if one is None:
            if len(found) >= _MAX_KNOWN:
                continue
            one = found[text] = LinePattern(text)
        one.counts[time_ns // step_ns * step_ns] += 1
    ordered = sorted(found.values(), key=lambda one: (-sum(one.counts.values()), one.text))
    return ordered[:MAX_PATTERNS]
