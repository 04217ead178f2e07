"""SQL over JSON values: texts, objects, lists, ids and times of records; DuckDB runs it over whole columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from neve.lake.duckdb import quote_literal
from neve.otlp.values import MAX_LEVELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.ingest.config import FieldsConfig

TYPED_TIME = "ns:"  # prefix of a value that has a time type in the file, in nanoseconds
NUMBER = r"\s*[+-]?(\d+\.?\d*|\.\d+)(E[+-]?\d+)?\s*"
CLOCK = r"\s*\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*(Z|z|[+-]\d{2}:?\d{2})?\s*"
DATE = r"\s*\d{4}([-/.])\d{1,2}[-/.]\d{1,2}\s*"
NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
# The size of an epoch shows its unit: until the year 5138 for seconds, from 1973 on for the others.
EPOCHS = ((10**11, "s"), (10**14, "ms"), (10**17, "us"))
LARGEST_EPOCH = 10**19  # more than 64 bits of nanoseconds; a larger decimal would overflow when it is multiplied
NO_IDS = ("root", "none", "null", "nil")  # texts for a missing id, beside zeros and dashes
TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8
# ClickHouse's texts of maps and arrays: replaced in this order, they are JSON.
CLICKHOUSE = (
    ("\\\\", "\\u005c"),
    ("\\'", "\\u0027"),
    ("\\0", "\\u0000"),
    ("\\a", "\\u0007"),
    ("\\v", "\\u000b"),
    ('"', '\\"'),
    ("'", '"'),
)


def field_value(name: str) -> str:
    """Return the JSON value of a field."""
    return f"fields[{quote_literal(name)}]"


def first_text(names: Sequence[str]) -> str:
    """Return the first existing field as text."""
    return "coalesce(" + ", ".join([*(f"{field_value(name)}->>'$'" for name in names), "NULL::VARCHAR"]) + ")"


def first_list(names: Sequence[str]) -> str:
    """Return the first field that is a list, or the text of one, as JSON."""
    values = (f"CASE WHEN {is_list(name)} THEN {parse_structure(field_value(name))} END" for name in names)
    return "coalesce(" + ", ".join([*values, "NULL::JSON"]) + ")"


def is_list(name: str) -> str:
    """Return the condition that a field is a list, or the text of one."""
    return f"json_type({parse_structure(field_value(name))}) = 'ARRAY'"


def first_map(names: Sequence[str]) -> str:
    """Return the first field that is an object, or the text of one, as a map."""
    cases = " ".join(
        f"WHEN {is_object(name)} THEN CASE WHEN json_type({field_value(name)}) = 'OBJECT' "
        f"THEN {field_value(name)}::MAP(VARCHAR, JSON) ELSE {text_to_map(parse_structure(field_value(name)))} END"
        for name in names
    )
    return f"CASE {cases} END" if cases else "NULL::MAP(VARCHAR, JSON)"


def is_object(name: str) -> str:
    """Return the condition that a field is an object, or the text of one with each key once."""
    parsed = parse_structure(field_value(name))
    unique = f"len(json_keys({parsed})) = len(list_distinct(json_keys({parsed})))"
    plain = f"json_type({field_value(name)})"
    return f"({plain} = 'OBJECT' OR ({plain} = 'VARCHAR' AND json_type({parsed}) = 'OBJECT' AND {unique}))"


def parse_structure(value: str) -> str:
    """Return a JSON value, or the JSON that a text holds, or null. Maps and arrays of ClickHouse are understood, too.

    CSV has only texts, and some exporters write JSON as text to Parquet.
    """
    text = f"({value}->>'$')"
    converted = text
    for old, new in CLICKHOUSE:
        converted = f"replace({converted}, {quote_literal(old)}, {quote_literal(new)})"
    return (
        f"CASE json_type({value}) WHEN 'OBJECT' THEN {value} WHEN 'ARRAY' THEN {value} WHEN 'VARCHAR' THEN "
        f"CASE WHEN NOT regexp_matches({text}, '^\\s*[\\[{{]') THEN NULL WHEN json_valid({text}) THEN {text}::JSON "
        f"WHEN json_valid({converted}) THEN {converted}::JSON END END"
    )


def text_to_map(structure: str) -> str:
    """Return an object that was a text as a map. Values that may be nested too deep for OTLP stay text.

    The depth of a document is checked when it is read, but not the depth of a text inside of it.
    """
    brackets = "length(t.value::VARCHAR) - length(replace(replace(t.value::VARCHAR, '[', ''), '{', ''))"
    value = f"CASE WHEN {brackets} >= {MAX_LEVELS} THEN to_json(t.value::VARCHAR) ELSE t.value END"
    entries = f"map_entries(({structure})::JSON::MAP(VARCHAR, JSON))"
    return f"map_from_entries(list_transform({entries}, lambda t: {{'key': t.key, 'value': {value}}}))"


def merge_maps(first: str, second: str) -> str:
    """Merge two maps. If both have a key, the value of the second is stored under another name."""
    renamed = (
        f"map_from_entries(list_transform(map_entries(coalesce({second}, MAP {{}})), lambda e: "
        f"CASE WHEN map_contains({first}, e.key) THEN {{'key': 'given.' || e.key, 'value': e.value}} ELSE e END))"
    )
    return f"map_concat({first}, {renamed})"


def normal_id(text: str, width: int) -> str:
    """Return an id as hex digits: from hex, a UUID, or base64 with its padding. Others, and no id, are null."""
    digits = f"replace(trim({text}), '-', '')"
    padded = f"[A-Za-z0-9+/_-]{{{-(-width * 4 // 3)}}}{'=' * (-width % 3)}"
    from_base64 = f"lower(hex(TRY(from_base64(translate(trim({text}), '-_', '+/')))))"
    return (
        f"CASE WHEN regexp_full_match({text}, '[0-9a-f]{{{width * 2}}}') AND trim({text}, '0') <> '' THEN {text} "
        f"WHEN {is_no_id(text)} THEN NULL "
        f"WHEN regexp_full_match({digits}, '[0-9a-fA-F]{{{width * 2}}}') THEN lower({digits}) "
        f"WHEN regexp_full_match(trim({text}), '{padded}') THEN {from_base64} END"
    )


def is_no_id(text: str) -> str:
    """Return the condition that a text stands for a missing id."""
    return rf"regexp_full_match({text}, '[0 -]*|\p{{Zs}}*(?i:{'|'.join(NO_IDS)})\p{{Zs}}*')"


def join_date(time: str, date: str) -> str:
    """Return the text of a time, with the date of another field where it is a time of day."""
    joined = f"replace(replace(trim({date}), '/', '-'), '.', '-') || 'T' || trim({time})"
    return f"CASE WHEN {is_clock(time, date)} THEN {joined} ELSE {time} END"


def is_clock(time: str, date: str) -> str:
    """Return the condition that one text is a time of day and the other a date."""
    return f"coalesce(regexp_full_match({time}, '{CLOCK}') AND regexp_full_match({date}, '{DATE}'), false)"


def parse_time(text: str, fields: FieldsConfig) -> str:
    """Return a time in nanoseconds since 1970, or null if the text is not a time."""
    typed = f"WHEN {text} LIKE '{TYPED_TIME}%' THEN TRY_CAST(substr({text}, {len(TYPED_TIME) + 1}) AS BIGINT)"
    return f"CASE {typed} ELSE {_parse_nanos(f'upper({text})', fields)} END"


def _parse_nanos(text: str, fields: FieldsConfig) -> str:
    number = f"TRY_CAST({text} AS DECIMAL(38, 9))"
    if fields.time_format in NANOS:
        scaled = f"CASE WHEN abs({number}) < {LARGEST_EPOCH} THEN {number} * {NANOS[fields.time_format]} END"
        return f"TRY_CAST({scaled} AS BIGINT)"
    calendar = parse_calendar(text)
    if fields.time_format == "rfc3339":
        return calendar
    cases = " ".join(f"WHEN abs({number}) < {limit} THEN {number} * {NANOS[unit]}" for limit, unit in EPOCHS)
    epoch = f"TRY_CAST(CASE {cases} ELSE {number} END AS BIGINT)"
    first, last = epoch_range(fields)
    sane = f"CASE WHEN {epoch} BETWEEN {first} AND {last} THEN {epoch} END"
    # A failed cast costs a hundred times a successful one, so a pattern recognises numbers first.
    return f"CASE WHEN regexp_full_match({text}, '{NUMBER}') THEN {sane} ELSE {calendar} END"


def parse_calendar(text: str) -> str:
    """Return a calendar time with any number of digits of the second in nanoseconds, or null."""
    # `epoch_ns` fails for the whole file if one time is not within the years 1677 to 2262.
    whole = f"epoch_us(TRY_CAST(regexp_replace({text}, '[.,]\\d+', '') AS TIMESTAMPTZ))::HUGEINT * 1000"
    fraction = f"TRY_CAST(rpad(left(regexp_extract({text}, '[.,](\\d+)', 1), 9), 9, '0') AS BIGINT)"
    return f"TRY_CAST({whole} + coalesce({fraction}, 0) AS BIGINT)"


def epoch_range(fields: FieldsConfig) -> tuple[int, int]:
    """Return the first and the last nanosecond of epochs whose unit is guessed."""
    first = datetime(fields.earliest_year, 1, 1, tzinfo=UTC)
    after = datetime(fields.latest_year + 1, 1, 1, tzinfo=UTC)
    return int(first.timestamp()) * NANOS["s"], int(after.timestamp()) * NANOS["s"] - 1
