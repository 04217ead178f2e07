"""The query that maps the fields of generic records to columns; DuckDB runs it over whole files.

Expressions are over `fields`, a map from the names in a record to their JSON values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.ingest.files.foreign_schemas import LISTS, MEANINGS, OBJECTS, FieldMap
from neve.ingest.files.sql_values import (
    SPAN_ID_BYTES,
    TRACE_ID_BYTES,
    field_value,
    first_list,
    first_map,
    first_text,
    is_clock,
    is_list,
    is_no_id,
    is_object,
    join_date,
    merge_maps,
    normal_id,
    parse_time,
)
from neve.lake.duckdb import quote_literal
from neve.model.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.ingest.config import FieldsConfig

IDS = {"trace_id": TRACE_ID_BYTES, "span_id": SPAN_ID_BYTES, "parent_span_id": SPAN_ID_BYTES}
TIMES = ("time", "end", "observed", "start")
NUMBERS = {
    **dict.fromkeys(("duration_ms", "value", "sum", "min", "max", "zero_threshold"), "DOUBLE"),
    **dict.fromkeys(("count", "scale", "zero_count", "positive_offset", "negative_offset", "flags"), "BIGINT"),
}
SERVICE = "MAP {'service.name': to_json(service)}"
NO_NUMBER = "NULL::BIGINT"
ELEMENTS = {
    **dict.fromkeys(("bucket_counts", "positive_counts", "negative_counts"), "BIGINT"),
    **dict.fromkeys(("explicit_bounds", "quantiles", "quantile_values", "exemplar_values"), "DOUBLE"),
}


def build_mapping_query(names: FieldMap, fields: FieldsConfig, shape: str, *, keep_nulls: bool) -> str:
    """Build the query that finds the fields of documents. `shape` is the map of a document's fields.

    A field without a meaning for the signal becomes an attribute. The query fails if an object has a key twice.
    """
    meanings = MEANINGS[names.signal]
    texts = list_texts(meanings)
    return f"""{_find_fields(names, shape, keep_nulls=keep_nulls)}
SELECT position, document,
  {_lines(_columns(texts, names, fields))},
  {_lines(_list_columns(meanings, names))},
  map_from_entries(map_entries(given_scope_attributes)) AS scope_attributes,
  {merge_maps("other", "given_attributes")} AS attributes,
  CASE WHEN service IS NULL THEN map_from_entries(map_entries(given_resource))
       ELSE {merge_maps(SERVICE, _drop_service("given_resource"))} END AS resource
FROM found ORDER BY service NULLS FIRST, position
"""  # noqa: S608 - names are quoted as literals


def build_flat_query(names: FieldMap, fields: FieldsConfig) -> str:
    """Build the query over texts of each meaning, for records without nested fields.

    The columns `is_…` return whether the field of a meaning has it. Otherwise the field is an attribute.
    """
    meanings = MEANINGS[names.signal]
    texts, ids, conditions = list_texts(meanings), _list_ids(meanings), _conditions(names.signal)
    known = [name for name in texts if names.names[name]]
    absent = [f'NULL::VARCHAR AS "{name}"' for name in texts if not names.names[name]]
    questions = [f"{conditions.get(name, 'true')} AS is_{name}" for name in known]
    return f"""
WITH texts AS (SELECT {_lines(["row", *map(_quote, known), *absent])} FROM given_flat),
ids AS (SELECT *, {_lines(_hex_columns(ids))} FROM texts),
found AS (SELECT {_lines(["row", *questions])},
  {_lines([f'{_when(conditions, text, _quote(text))} AS "{text}"' for text in texts])},
  {_lines([f"{name}_hex" for name in ids] or ["no_ids"])}
FROM ids)
SELECT {_lines(["row", *(f"is_{name}" for name in known), *_columns(texts, names, fields)])},
  {_lines(_list_columns(meanings, names))}
FROM found ORDER BY service NULLS FIRST, row
"""  # noqa: S608 - names are quoted as literals


def list_texts(meanings: Sequence[str]) -> list[str]:
    """Return the meanings that are texts: neither objects nor lists."""
    return [meaning for meaning in meanings if meaning not in (*OBJECTS, *LISTS)]


def _list_ids(meanings: Sequence[str]) -> list[str]:
    return [name for name in IDS if name in meanings]


def _hex_columns(ids: Sequence[str]) -> list[str]:
    return [f"{normal_id(name, IDS[name])} AS {name}_hex" for name in ids] or ["NULL AS no_ids"]


def build_repeated_keys_query(names: FieldMap, shape: str, *, keep_nulls: bool) -> str:
    """Build the query that returns the positions of documents whose attributes or resource have a key twice.

    It is slower than the mapping, and needed only if the mapping failed.
    """
    service = f"CASE WHEN service IS NULL THEN MAP {{}} ELSE {SERVICE} END"
    return f"""{_find_fields(names, shape, keep_nulls=keep_nulls)}
SELECT position FROM found WHERE {_has_repeated_key("other", "given_attributes")}
  OR {_has_repeated_key(service, "given_resource")} OR {_has_repeated_key("MAP {}", "given_scope_attributes")}
"""  # noqa: S608 - names are quoted as literals


def _has_repeated_key(first: str, second: str) -> str:
    """Return whether two keys of the second map have one name once those that both maps have are renamed."""
    keys = (
        f"list_transform(map_keys(coalesce({second}, MAP {{}})), lambda k: "
        f"CASE WHEN map_contains({first}, k) THEN 'given.' || k ELSE k END)"
    )
    return f"len({keys}) > len(list_distinct({keys}))"


def _find_fields(names: FieldMap, shape: str, *, keep_nulls: bool) -> str:
    """Return the WITH clause that finds the field of each meaning, the nested objects and all other fields."""
    meanings = MEANINGS[names.signal]
    conditions = _conditions(names.signal)
    texts, ids = list_texts(meanings), _list_ids(meanings)
    structures = [
        *(f"{first_map(names.names[name])} AS given_{name}" for name in OBJECTS),
        *(f"{first_list(names.names[name])} AS given_{name}" for name in LISTS if names.names.get(name)),
    ]
    chosen = [_when(conditions, meaning, _choose_field(meaning, names.names[meaning])) for meaning in meanings]
    chosen += [quote_literal(name) for name in names.names["repeated"]]
    nulls = "" if keep_nulls else " AND e.value IS NOT NULL"
    return f"""
WITH maps AS (SELECT position, document, {shape} AS fields FROM given_documents),
texts AS (SELECT position, document, fields,
  {_lines([f'{first_text(names.names[text])} AS "{text}"' for text in texts])}
FROM maps),
ids AS (SELECT *, {_lines(_hex_columns(ids))}
FROM texts),
documents AS (SELECT *, [{", ".join(chosen)}] AS used FROM ids),
found AS (SELECT position, document,
  {_lines([f'{_when(conditions, text, _quote(text))} AS "{text}"' for text in texts])},
  {_lines([f"{name}_hex" for name in ids] or ["no_ids"])},
  {_lines(structures)},
  map_from_entries(list_filter(map_entries(fields), lambda e: NOT list_contains(used, e.key){nulls})) AS other
FROM documents)"""  # noqa: S608 - names are quoted as literals


def _quote(name: str) -> str:
    return f'"{name}"'


def _columns(texts: Sequence[str], names: FieldMap, fields: FieldsConfig) -> list[str]:
    """Return the columns of meanings that are texts: times as nanoseconds, ids as hex, numbers as numbers."""
    columns = []
    for name in texts:
        text = join_date('"time"', '"date"') if name == "time" else f'"{name}"'
        given = bool(names.names[name])  # planning a query over constants takes time, too
        if name in TIMES:
            columns += [f"{text} AS {name}_text", f"{parse_time(text, fields) if given else NO_NUMBER} AS {name}_nanos"]
        elif name in IDS:
            columns += [
                f"CASE WHEN {name}_hex IS NOT NULL OR NOT {is_no_id(text)} THEN {text} END AS {name}_text",
                f"{name}_hex AS {name}",
            ]
        elif name in NUMBERS:
            columns += [f"{text} AS {name}_text", f"TRY_CAST({text} AS {NUMBERS[name]}) AS {name}"]
        else:
            columns.append(f"{text} AS {name}")
    if "value" in texts:
        columns.append("CASE WHEN regexp_full_match(value, '-?\\d+') THEN TRY_CAST(value AS BIGINT) END AS value_int")
    return columns


def _list_columns(meanings: Sequence[str], names: FieldMap) -> list[str]:
    """Return the columns of meanings that are lists, each with its text. A null list shows elements of a wrong type."""
    columns = []
    for name in (name for name in meanings if name in LISTS):
        kind = ELEMENTS.get(name, "VARCHAR")
        if names.names[name]:
            value = f"TRY_CAST(from_json(given_{name}, '[\"VARCHAR\"]') AS {kind}[])"
            columns += [f"given_{name}::VARCHAR AS {name}_text", f"{value} AS {name}"]
        else:
            columns += [f"NULL::VARCHAR AS {name}_text", f"NULL::{kind}[] AS {name}"]
    return columns or ["NULL AS no_lists"]


def _drop_service(resource: str) -> str:
    """Return the resource without a name of the service that repeats the one of the record."""
    repeats = f"{resource}['service.name']->>'$' = service"
    entries = f"list_filter(map_entries({resource}), lambda e: e.key <> 'service.name')"
    return f"CASE WHEN {repeats} THEN map_from_entries({entries}) ELSE {resource} END"


def _conditions(signal: Signal) -> dict[str, str]:
    """Return the condition under which a field has its meaning. Otherwise it stays an attribute."""
    conditions = {"date": is_clock('"time"', '"date"')}
    if signal is Signal.TRACES:  # a span with an end needs no duration
        conditions["duration_ms"] = '"end" IS NULL'
    if signal is Signal.LOGS:  # a correlation id of another kind is not a trace id
        conditions |= {name: f"({name}_hex IS NOT NULL OR {is_no_id(name)})" for name in ("trace_id", "span_id")}
    return conditions


def _when(conditions: dict[str, str], meaning: str, expression: str) -> str:
    return f"CASE WHEN {conditions[meaning]} THEN {expression} END" if meaning in conditions else expression


def _choose_field(meaning: str, names: Sequence[str]) -> str:
    """Return the name of the field that has this meaning, or null if there is none."""
    cases = " ".join(f"WHEN {_is_there(meaning, name)} THEN {quote_literal(name)}" for name in names)
    return f"CASE {cases} END" if cases else "NULL"


def _is_there(meaning: str, name: str) -> str:
    if meaning in OBJECTS:
        return is_object(name)
    return is_list(name) if meaning in LISTS else f"{field_value(name)} IS NOT NULL"


def _lines(expressions: Sequence[str]) -> str:
    return ",\n  ".join(expressions)
