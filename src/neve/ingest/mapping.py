"""The SQL that finds the meaning of a generic record's fields; DuckDB runs it over whole files.

Every function returns an expression over `fields`, a map from the names in a record to their JSON values.
"""

from collections.abc import Sequence

from neve.ingest.config import FieldsConfig
from neve.model.signals import Signal

NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
# An epoch tells its unit by its size: until the year 5138 for seconds, from 1973 on for the others.
EPOCHS = ((10**11, "s"), (10**14, "ms"), (10**17, "us"))


OBJECTS = ("attributes", "resource")
COMMON = ("time", "service", *OBJECTS)
MEANINGS = {
    Signal.LOGS: (*COMMON, "message", "severity", "trace_id", "span_id"),
    Signal.METRICS: (*COMMON, "name", "value", "unit"),
    Signal.TRACES: (*COMMON, "name", "end", "duration_ms", "trace_id", "span_id", "parent_span_id"),
}
TEXTS = tuple(name for name in FieldsConfig.model_fields if name not in ("time_format", *OBJECTS))


def mapping_query(signal: Signal, fields: FieldsConfig, *, keep_nulls: bool) -> str:
    """Documents with their fields found; whatever has no meaning for the signal becomes an attribute."""
    names = {meaning: getattr(fields, meaning) for meaning in MEANINGS[signal]}
    texts = ",\n  ".join(f'{_text(names.get(meaning, ()))} AS "{meaning}"' for meaning in TEXTS)
    chosen = ", ".join(_chosen(meaning, candidates) for meaning, candidates in names.items())
    nulls = "" if keep_nulls else " AND e.value IS NOT NULL"
    return f"""
WITH documents AS (SELECT position, document, document::JSON::MAP(VARCHAR, JSON) AS fields FROM given_documents),
found AS (SELECT position, document,
  {texts},
  {_object(fields.attributes)} AS given_attributes,
  {_object(fields.resource)} AS given_resource,
  map_from_entries(list_filter(map_entries(fields), lambda e: NOT list_contains([{chosen}], e.key){nulls})) AS other
FROM documents)
SELECT position, document, message, severity, service, trace_id, span_id, parent_span_id, name, unit,
  time AS time_text, {_nanos("time", fields.time_format)} AS time_nanos,
  "end" AS end_text, {_nanos('"end"', fields.time_format)} AS end_nanos,
  TRY_CAST(duration_ms AS DOUBLE) AS duration_ms,
  value AS value_text, TRY_CAST(value AS DOUBLE) AS value,
  map_concat(other, coalesce(given_attributes, MAP {{}})) AS attributes,
  CASE WHEN service IS NULL THEN given_resource
       ELSE map_concat(coalesce(given_resource, MAP {{}}), MAP {{'service.name': to_json(service)}}) END AS resource
FROM found ORDER BY service NULLS FIRST, position
"""  # noqa: S608 - names are quoted as literals


def _chosen(meaning: str, names: Sequence[str]) -> str:
    """The name of the field that gives this meaning, or null where none does."""
    there = " = 'OBJECT'" if meaning in OBJECTS else " IS NOT NULL"
    field = "json_type(fields[{0}])" if meaning in OBJECTS else "fields[{0}]"
    cases = " ".join(f"WHEN {field.format(_literal(name))}{there} THEN {_literal(name)}" for name in names)
    return f"CASE {cases} END" if cases else "NULL"


def _text(names: Sequence[str]) -> str:
    """The first of these fields that is there, as text."""
    return "coalesce(" + ", ".join([*(f"fields[{_literal(name)}]->>'$'" for name in names), "NULL::VARCHAR"]) + ")"


def _object(names: Sequence[str]) -> str:
    """The first of these fields that is an object, as a map."""
    cases = " ".join(
        f"WHEN json_type(fields[{_literal(name)}]) = 'OBJECT' THEN fields[{_literal(name)}]::MAP(VARCHAR, JSON)"
        for name in names
    )
    return f"CASE {cases} END" if cases else "NULL::MAP(VARCHAR, JSON)"


def _nanos(text: str, time_format: str) -> str:
    """A time in nanoseconds since 1970, null where the text is no time."""
    number = f"TRY_CAST({text} AS DECIMAL(38, 9))"
    if time_format in NANOS:
        return f"TRY_CAST({number} * {NANOS[time_format]} AS BIGINT)"
    whole = f"epoch_ns(TRY_CAST(regexp_replace({text}, '[.,]\\d+', '') AS TIMESTAMPTZ))"
    fraction = f"TRY_CAST(rpad(left(regexp_extract({text}, '[.,](\\d+)', 1), 9), 9, '0') AS BIGINT)"
    calendar = f"{whole} + coalesce({fraction}, 0)"
    if time_format == "rfc3339":
        return calendar
    cases = " ".join(f"WHEN abs({number}) < {limit} THEN {number} * {NANOS[unit]}" for limit, unit in EPOCHS)
    return f"coalesce(TRY_CAST(CASE {cases} ELSE {number} END AS BIGINT), {calendar})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
