"""Shapes of documents: SQL that makes one flat map of fields of each record, whatever objects and lists are around it.

| Shape | Example |
| --- | --- |
| plain | `{"time": …, "message": …}` |
| nested | Elastic's common schema, also inside of `_source`: `{"log": {"level": …}}` has the field `log.level` |
| labels | Loki's lines: `{"timestamp": …, "line": …, "labels": {…}}` |
| event | Windows events, as converters write the XML: `{"Event": {"System": {…}}}` |
| counter | Vector's metrics: `{"name": …, "counter": {"value": 5}}` |

Answers of servers hold many records in one document. They are expanded first.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from neve.ingest.files.sql_values import merge_maps, parse_structure

if TYPE_CHECKING:
    from collections.abc import Iterable

FLATTEN_LEVELS = 4
TO_MAP = "::JSON::MAP(VARCHAR, JSON)"


class Shape(StrEnum):
    """Arrangement of the fields in a document."""

    PLAIN = "plain"
    NESTED = "nested"
    SOURCE = "source"
    LABELS = "labels"
    EVENT = "event"
    COUNTER = "counter"


# Names that all must be there, and names of which one must.
MARKS = (
    (Shape.SOURCE, ("_source",), ()),
    (Shape.NESTED, ("@timestamp",), ("ecs", "ecs.version", "agent", "log.level", "log", "event", "_index")),
    (Shape.NESTED, ("system",), ("eventdata", "userdata", "renderinginfo")),
    (Shape.LABELS, ("line", "labels"), ()),
    (Shape.COUNTER, ("name", "kind", "timestamp"), ("counter", "gauge")),
)


def detect_shape(names: Iterable[str]) -> Shape:
    """Return the shape of documents with these top-level names."""
    lower = {name.lower() for name in names}
    if "event" in lower and lower <= {"event", "xmlns"}:
        return Shape.EVENT
    for shape, needs, one_of in MARKS:
        if lower.issuperset(needs) and not (one_of and lower.isdisjoint(one_of)):
            return shape
    return Shape.PLAIN


def build_fields(shape: Shape) -> str:
    """Return the expression over `document` that gives the map of its fields."""
    plain = f"document{TO_MAP}"
    if shape is Shape.SOURCE:
        source = f"coalesce((document->'_source'){TO_MAP}, MAP {{}})"
        return _flatten(f"map_entries({merge_maps(source, _without(plain, '_source'))})")
    if shape is Shape.NESTED:
        return _flatten(f"map_entries({plain})")
    if shape is Shape.EVENT:
        event = "coalesce(document->'Event', document->'event')"
        return _flatten(f"map_entries(coalesce({event}{TO_MAP}, MAP {{}}))")
    if shape is Shape.LABELS:
        labels = parse_structure("document->'labels'")
        return merge_maps(_without(plain, "labels"), f"({labels}){TO_MAP}")
    if shape is Shape.COUNTER:
        value = "coalesce(document->'counter'->'value', document->'gauge'->'value')"
        return merge_maps(plain, f"CASE WHEN {value} IS NOT NULL THEN MAP {{'value': {value}}} END")
    return plain


def build_expansion(names: Iterable[str]) -> str | None:
    """Return the query that expands answers of Loki and Elasticsearch to their records, or nothing for other documents.

    Its rows are the position of the document and the text of the record.
    """
    present = set(names)
    if "hits" in present:
        hits = "from_json(document->'$.hits.hits', '[\"JSON\"]')"
        return f"SELECT position, unnest({hits})::VARCHAR AS document FROM given_documents"  # noqa: S608 - constant
    if "streams" in present or {"status", "data"} <= present:
        streams = "coalesce(document->'streams', document->'$.data.result')"
        inner = f"SELECT position, unnest(from_json({streams}, '[\"JSON\"]')) AS stream FROM given_documents"  # noqa: S608
        return f"""
SELECT position, to_json({{'timestamp': value->0, 'line': value->1, 'labels': json_merge_patch(
  coalesce(stream->'stream', '{{}}'::JSON), coalesce(value->2, '{{}}'::JSON))}})::VARCHAR AS document
FROM (SELECT position, stream, unnest(from_json(stream->'values', '["JSON"]')) AS value FROM ({inner}))
"""  # noqa: S608 - constant
    return None


def _without(fields: str, name: str) -> str:
    return f"map_from_entries(list_filter(map_entries({fields}), lambda w: w.key <> '{name}'))"


def _flatten(entries: str) -> str:
    """Return the map of entries whose objects are replaced by their entries, with dotted names."""
    for level in range(FLATTEN_LEVELS):
        outer, inner = f"o{level}", f"i{level}"
        entries = (
            f"flatten(list_transform({entries}, lambda {outer}: "
            f"CASE WHEN json_type({outer}.value) = 'OBJECT' AND len(json_keys({outer}.value)) > 0 "
            f"THEN list_transform(map_entries({outer}.value{TO_MAP}), lambda {inner}: "
            f"{{'key': {outer}.key || '.' || {inner}.key, 'value': {inner}.value}}) "
            f"ELSE [{{'key': {outer}.key, 'value': {outer}.value}}] END))"
        )
    return f"map_from_entries({entries})"
