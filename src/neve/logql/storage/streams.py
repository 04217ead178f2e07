"""Labels of streams and of lines in the table `logs`, as Loki makes them from OTLP.

The attributes of the resource that Loki indexes are the labels of a stream. All others belong to the line: they are
structured metadata, which filters see and metric queries carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neve.lexical.matchers import Matcher, MatchKind
from neve.logql.pipeline.entry import DUPLICATE, sanitize_name
from neve.logql.storage.parser_sql import Piece

__all__ = [
    "LINE_COLUMNS",
    "STREAM_COLUMNS",
    "STREAM_LABELS",
    "compare_text",
    "detect_level",
    "match_stream",
    "read_line",
    "read_stream",
    "write_metadata",
    "write_own",
    "write_stream",
]

SERVICE = "service_name"
UNKNOWN_SERVICE = "unknown_service"
_INDEXED = (
    "service.name",
    "service.namespace",
    "service.instance.id",
    "deployment.environment",
    "deployment.environment.name",
    "cloud.region",
    "cloud.availability_zone",
    "k8s.cluster.name",
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.container.name",
    "k8s.replicaset.name",
    "k8s.deployment.name",
    "k8s.statefulset.name",
    "k8s.daemonset.name",
    "k8s.cronjob.name",
    "k8s.job.name",
    "container.name",
)
STREAM_LABELS: Mapping[str, str] = {sanitize_name(key): key for key in _INDEXED}  # label to attribute
STREAM_COLUMNS = "service_name, resource_attrs"
LINE_COLUMNS = "attributes, severity_text, severity_number, trace_id, span_id, scope_name, event_name"
_OWN = frozenset({"severity_text", "severity_number", "trace_id", "span_id", "scope_name", "event_name"})
LEVEL = "detected_level"
_LEVELS = ("trace", "debug", "info", "warn", "error", "fatal")
_LEVEL_WORDS = {
    **{one: one for one in _LEVELS},
    **dict.fromkeys(("trc",), "trace"),
    **dict.fromkeys(("dbg",), "debug"),
    **dict.fromkeys(("inf", "information", "notice"), "info"),
    **dict.fromkeys(("wrn", "warning"), "warn"),
    **dict.fromkeys(("err",), "error"),
    **dict.fromkeys(("critical", "emerg", "alert", "panic"), "critical"),
}
Pairs = list[tuple[str, str | None]] | Mapping[str, str | None] | None


def read_stream(service: str | None, resource: Pairs) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels of a stream, and the other attributes of its resource under names of labels.

    >>> read_stream("cart", {"service.name": "cart", "host.name": "a"})
    ({'service_name': 'cart'}, {'host_name': 'a'})
    """
    labels, rest = {SERVICE: service or UNKNOWN_SERVICE}, {}
    for key, value in dict(resource or ()).items():
        name = sanitize_name(key)
        if value and STREAM_LABELS.get(name) == key:
            if name != SERVICE:
                labels[name] = value
        elif value and name:
            rest[f"{name}{DUPLICATE}" if name in _OWN else name] = value
    return labels, rest


def detect_level(number: int | None, text: str | None) -> str:
    """Return the level of a line by its severity.

    >>> detect_level(17, None), detect_level(0, "WARNING"), detect_level(None, None)
    ('error', 'warn', 'unknown')
    """
    if number and 1 <= number <= 24:
        return _LEVELS[(number - 1) // 4]
    return _LEVEL_WORDS.get((text or "").strip().lower(), "unknown")


def read_line(row: Mapping[str, Any], resource: Mapping[str, str]) -> dict[str, str]:
    """Return the structured metadata of a line. Its columns win over attributes of the same name."""
    found = dict(resource)
    for key, value in dict(row["attributes"] or ()).items():
        name = sanitize_name(key)
        if name and value is not None:
            found[f"{name}{DUPLICATE}" if name in _OWN else name] = value
    if row["severity_number"]:
        found["severity_number"] = str(row["severity_number"])
    for column in ("severity_text", "scope_name", "event_name"):
        if row[column]:
            found[column] = row[column]
    for column in ("trace_id", "span_id"):
        if row[column]:
            found[column] = row[column].hex()
    found[LEVEL] = detect_level(row["severity_number"], row["severity_text"])
    return found


def match_stream(matcher: Matcher) -> tuple[str, list[Any]]:
    """Return the SQL condition of a matcher, with its parameters. Other names match as an absent label does."""
    key = STREAM_LABELS.get(matcher.name)
    if key is None:
        return ("true" if matcher.matches("") else "false"), []
    if matcher.name == SERVICE:
        return _match_service(matcher)
    return compare_text("coalesce(map_extract_value(resource_attrs, ?), '')", [key], matcher)


def _match_service(matcher: Matcher) -> tuple[str, list[Any]]:
    """Compare the column itself where that is possible, so that files are pruned by it."""
    if matcher.kind is MatchKind.EQUAL and matcher.value not in {"", UNKNOWN_SERVICE}:
        return "service_name = ?", [matcher.value]
    return compare_text(f"coalesce(nullif(service_name, ''), '{UNKNOWN_SERVICE}')", [], matcher)


def compare_text(value: str, parameters: list[Any], matcher: Matcher) -> tuple[str, list[Any]]:
    """Return the SQL comparison of a text with that of a matcher."""
    if matcher.kind is MatchKind.EQUAL:
        return f"{value} = ?", [*parameters, matcher.value]
    if matcher.kind is MatchKind.NOT_EQUAL:
        return f"{value} <> ?", [*parameters, matcher.value]
    condition = f"regexp_full_match({value}, ?)"
    pattern = f"(?s:{matcher.value})"
    return (condition if matcher.kind is MatchKind.REGEX else f"NOT {condition}"), [*parameters, pattern]


def write_stream(name: str) -> Piece:
    """Return the SQL value of a stream's label, or NULL for other names."""
    key = STREAM_LABELS.get(name)
    if key is None:
        return Piece("NULL")
    if name == SERVICE:
        return Piece(f"coalesce(nullif(service_name, ''), '{UNKNOWN_SERVICE}')")
    return Piece("nullif(map_extract_value(resource_attrs, ?), '')", (key,))


def write_metadata(name: str) -> Piece:
    """Return the SQL value of a line's own label, as `read_line` finds it. That of the level is its severity."""
    if name == LEVEL:
        return Piece("concat(coalesce(severity_number, 0), ':', coalesce(severity_text, ''))")
    if name in {"trace_id", "span_id"}:
        return Piece(f"nullif(lower(hex({name})), '')")
    if name == "severity_number":
        return Piece("CAST(nullif(severity_number, 0) AS VARCHAR)")
    if name in _OWN:
        return Piece(f"nullif({name}, '')")
    own = _write_attribute("attributes", name)
    resource = _write_attribute("resource_attrs", name, "AND e.value <> '' AND e.key <> ?", STREAM_LABELS.get(name, ""))
    return Piece(f"coalesce({own.text}, {resource.text})", (*own.parameters, *resource.parameters))


def write_own(name: str) -> Piece:
    """Return the SQL value of a line's own label, or NULL if the stream has a label of this name, which hides it."""
    stream, metadata = write_stream(name), write_metadata(name)
    if name == SERVICE:
        return Piece("NULL")
    if name not in STREAM_LABELS:
        return metadata
    text = f"CASE WHEN {stream.text} IS NULL THEN {metadata.text} END"
    return Piece(text, (*stream.parameters, *metadata.parameters))


def _write_attribute(column: str, name: str, rest: str = "", *parameters: str) -> Piece:
    """Return the value of the last attribute whose key gives a name. Few rows have a key with a part of the name."""
    key = "regexp_replace(trim(e.key), '[^a-zA-Z0-9_]', '_', 'g')"
    value = f"list_filter(map_entries({column}), e -> {key} = ? AND e.value IS NOT NULL {rest})[-1].value"
    part = max(name.split("_"), key=len)
    may_have = f"len(list_filter(map_keys({column}), k -> contains(k, ?))) > 0"
    return Piece(f"CASE WHEN {may_have} THEN {value} END", (part, name, *parameters))
