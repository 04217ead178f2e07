"""The SQL that finds the meaning of a generic record's fields; DuckDB runs it over whole files.

Every function returns an expression over `fields`, a map from the names in a record to their JSON values.
"""

from collections.abc import Sequence

from neve.ingest.config import FieldsConfig
from neve.lake.duck import literal
from neve.model.signals import Signal

TYPED_TIME = "ns:"  # begins the text of a time that the file itself knew to be one, in nanoseconds
NUMBER = r"\s*[+-]?(\d+\.?\d*|\.\d+)(E[+-]?\d+)?\s*"
HEX_ID = "^[0-9a-fA-F]{32}$"
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
    conditions = _conditions(signal, fields)
    texts = ",\n  ".join(
        _when(conditions, meaning, _text(names.get(meaning, ()))) + f' AS "{meaning}"' for meaning in TEXTS
    )
    chosen = ", ".join(_when(conditions, meaning, _chosen(meaning, given)) for meaning, given in names.items())
    nulls = "" if keep_nulls else " AND e.value IS NOT NULL"
    return f"""
WITH maps AS (SELECT position, document, document::JSON::MAP(VARCHAR, JSON) AS fields FROM given_documents),
documents AS (SELECT *, [{chosen}] AS used FROM maps),
found AS (SELECT position, document,
  {texts},
  {_object(fields.attributes)} AS given_attributes,
  {_object(fields.resource)} AS given_resource,
  map_from_entries(list_filter(map_entries(fields), lambda e: NOT list_contains(used, e.key){nulls})) AS other
FROM documents)
SELECT position, document, message, severity, service, trace_id, span_id, parent_span_id, name, unit,
  time AS time_text, {_nanos("time", fields.time_format)} AS time_nanos,
  "end" AS end_text, {_nanos('"end"', fields.time_format)} AS end_nanos,
  TRY_CAST(duration_ms AS DOUBLE) AS duration_ms,
  duration_ms AS duration_text,
  value AS value_text, TRY_CAST(value AS DOUBLE) AS value,
  CASE WHEN regexp_full_match(value, '-?\\d+') THEN TRY_CAST(value AS BIGINT) END AS value_int,
  {_merged("other", "given_attributes")} AS attributes,
  CASE WHEN service IS NULL THEN given_resource
       ELSE {_merged("MAP {'service.name': to_json(service)}", "given_resource")} END AS resource
FROM found ORDER BY service NULLS FIRST, position
"""  # noqa: S608 - names are quoted as literals


def _conditions(signal: Signal, fields: FieldsConfig) -> dict[str, str]:
    """When a field may have its meaning at all; where it may not, it stays an attribute."""
    if signal is Signal.TRACES:  # a span with an end needs no duration
        return {"duration_ms": f"{_text(fields.end)} IS NULL"}
    if signal is Signal.LOGS:  # a correlation id of another kind is no trace id
        return {"trace_id": f"regexp_full_match(replace({_text(fields.trace_id)}, '-', ''), '{HEX_ID}')"}
    return {}


def _when(conditions: dict[str, str], meaning: str, expression: str) -> str:
    return f"CASE WHEN {conditions[meaning]} THEN {expression} END" if meaning in conditions else expression


def _merged(first: str, second: str) -> str:
    """Two maps as one; where both have a key, the second one's value is kept under another name beside it."""
    renamed = (
        f"map_from_entries(list_transform(map_entries(coalesce({second}, MAP {{}})), lambda e: "
        f"CASE WHEN map_contains({first}, e.key) THEN {{'key': 'given.' || e.key, 'value': e.value}} ELSE e END))"
    )
    return f"map_concat({first}, {renamed})"


def _chosen(meaning: str, names: Sequence[str]) -> str:
    """The name of the field that gives this meaning, or null where none does."""
    there = " = 'OBJECT'" if meaning in OBJECTS else " IS NOT NULL"
    field = "json_type(fields[{0}])" if meaning in OBJECTS else "fields[{0}]"
    cases = " ".join(f"WHEN {field.format(literal(name))}{there} THEN {literal(name)}" for name in names)
    return f"CASE {cases} END" if cases else "NULL"


def _text(names: Sequence[str]) -> str:
    """The first of these fields that is there, as text."""
    return "coalesce(" + ", ".join([*(f"fields[{literal(name)}]->>'$'" for name in names), "NULL::VARCHAR"]) + ")"


def _object(names: Sequence[str]) -> str:
    """The first of these fields that is an object, as a map."""
    cases = " ".join(
        f"WHEN json_type(fields[{literal(name)}]) = 'OBJECT' THEN fields[{literal(name)}]::MAP(VARCHAR, JSON)"
        for name in names
    )
    return f"CASE {cases} END" if cases else "NULL::MAP(VARCHAR, JSON)"


def _nanos(text: str, time_format: str) -> str:
    """A time in nanoseconds since 1970, null where the text is no time."""
    typed = f"WHEN {text} LIKE '{TYPED_TIME}%' THEN TRY_CAST(substr({text}, {len(TYPED_TIME) + 1}) AS BIGINT)"
    return f"CASE {typed} ELSE {_written_nanos(f'upper({text})', time_format)} END"


def _written_nanos(text: str, time_format: str) -> str:
    number = f"TRY_CAST({text} AS DECIMAL(38, 9))"
    if time_format in NANOS:
        return f"TRY_CAST({number} * {NANOS[time_format]} AS BIGINT)"
    whole = f"epoch_ns(TRY_CAST(regexp_replace({text}, '[.,]\\d+', '') AS TIMESTAMPTZ))"
    fraction = f"TRY_CAST(rpad(left(regexp_extract({text}, '[.,](\\d+)', 1), 9), 9, '0') AS BIGINT)"
    calendar = f"{whole} + coalesce({fraction}, 0)"
    if time_format == "rfc3339":
        return calendar
    cases = " ".join(f"WHEN abs({number}) < {limit} THEN {number} * {NANOS[unit]}" for limit, unit in EPOCHS)
    epoch = f"TRY_CAST(CASE {cases} ELSE {number} END AS BIGINT)"
    # A cast that fails costs a hundred times one that succeeds, so numbers are known by their look first.
    return f"CASE WHEN regexp_full_match({text}, '{NUMBER}') THEN {epoch} ELSE {calendar} END"
