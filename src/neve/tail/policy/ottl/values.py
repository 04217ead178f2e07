"""Values of OTTL expressions: the SQL of a value for each type that it may have, and its text and size as in OTTL."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from neve.tail.policy.ottl.syntax import OttlError
from neve.tail.policy.span_sql import FALSE, TRUE, Sql, all_of, any_of, blob, boolean, double, integer, sql, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.tail.policy.span_sql import Attribute


Plain = str | int | float | bool | bytes | None


class Kind(StrEnum):
    """Types of values."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    BYTES = "bytes"
    LIST = "list"
    MAP = "map"
    STRING = "string"
    TRACE_ID = "trace id"
    SPAN_ID = "span id"
    TIME = "time"
    DURATION = "duration"


@dataclass(frozen=True)
class Value:
    """Value whose type may depend on the span.

    Each of `kinds` is null if the value is of another type. If it fails (an error in OTTL), all are null.
    """

    kinds: Mapping[Kind, Sql]
    nil: Sql = FALSE  # true if it is nil; never null
    fails: Sql = FALSE  # true if the evaluation fails and there is no value; never null
    attribute: Attribute | None = None  # the attribute that it reads
    literal: tuple[Plain, ...] = ()  # the value, if it is a literal
    size: Sql | None = None  # of a whole map or list, which can be counted but not compared
    what: str = field(default="", compare=False)  # the user's text, for messages


def make_literal(value: Plain) -> Value:
    """Build the value of a literal."""
    if value is None:
        return Value({}, nil=TRUE, literal=(None,))
    kind, written = _encode_literal(value)
    return Value({kind: written}, literal=(value,))


def _encode_literal(value: str | int | float | bool | bytes) -> tuple[Kind, Sql]:
    match value:
        case bool():
            return Kind.BOOL, boolean(value)
        case int():
            return Kind.INT, integer(value)
        case float():
            return Kind.FLOAT, double(value)
        case bytes():
            return Kind.BYTES, blob(value)
        case str():
            return Kind.STRING, text(value)


def make_attribute_value(attribute: Attribute) -> Value:
    """Build the value of an attribute of any type, where empty bytes are nil, as in the collector."""
    no_bytes = sql("coalesce({} = 'bytes' AND {} = '', false)", attribute.type, attribute.raw)
    some_bytes = sql("CASE WHEN {} <> '' THEN {} END", attribute.raw, attribute.bytes)
    return Value(
        {
            Kind.INT: attribute.integer,
            Kind.FLOAT: attribute.double,
            Kind.BOOL: attribute.boolean,
            Kind.BYTES: some_bytes,
            Kind.LIST: attribute.list,
            Kind.MAP: attribute.map,
            Kind.STRING: attribute.string,
        },
        nil=sql("({} IS NULL OR {})", attribute.raw, no_bytes),
        attribute=attribute,
    )


def is_none_of(kinds: Mapping[Kind, Sql]) -> Sql:
    """Return a condition that a value is of none of the kinds."""
    return all_of([sql("{} IS NULL", one) for one in kinds.values()])


# DuckDB's text of the number n, and the parts of a text with an exponent.
_WRITTEN = "CAST(n AS VARCHAR)"
_SIGN = "CASE WHEN n < 0 THEN '-' ELSE '' END"
_DIGITS = f"replace(regexp_extract({_WRITTEN}, '([0-9.]+)e', 1), '.', '')"
_POWER = f"CAST(regexp_extract({_WRITTEN}, 'e[+-]0*([0-9]+)', 1) AS INTEGER)"
_NUMBER = (
    "CASE WHEN NOT isfinite(n) THEN NULL "
    f"WHEN NOT contains({_WRITTEN}, 'e') OR abs(n) >= 1e21 OR abs(n) < 1e-6 "
    f"THEN regexp_replace(regexp_replace({_WRITTEN}, '[.]0$', ''), 'e-0', 'e-') "
    f"WHEN contains({_WRITTEN}, 'e+') THEN {_SIGN} || rpad({_DIGITS}, {_POWER} + 1, '0') "
    f"ELSE {_SIGN} || '0.' || repeat('0', {_POWER} - 1) || {_DIGITS} END"
)
# Go's JSON escapes these, so that it can be embedded in HTML.
JSON_ESCAPES = {"&": r"\u0026", "<": r"\u003c", ">": r"\u003e"}


def convert_to_text(value: Value) -> tuple[Sql, Sql]:
    """Convert a value to text, which is null for nil, and return the condition under which this fails."""
    if value.attribute is not None:
        text, fails = _convert_attribute(value.attribute)
        return text, any_of([value.fails, fails])
    if set(value.kinds) == {Kind.STRING}:
        return value.kinds[Kind.STRING], value.fails
    if set(value.kinds) == {Kind.INT} or set(value.kinds) == {Kind.BOOL}:
        return sql("CAST({} AS VARCHAR)", next(iter(value.kinds.values()))), value.fails
    if set(value.kinds) == {Kind.FLOAT}:
        number = value.kinds[Kind.FLOAT]
        return format_number(number), sql("coalesce(NOT isfinite({}), true)", number)
    raise OttlError(f"{value.what or ' or '.join(value.kinds) or 'nil'} can't be converted to text")


def _convert_attribute(attribute: Attribute) -> tuple[Sql, Sql]:
    kind, raw = attribute.type, attribute.raw
    nested = raw
    for character, escape in JSON_ESCAPES.items():
        nested = sql("replace({}, '{}', '{}')", nested, character, escape)
    number = attribute.double
    text = sql(
        "CASE WHEN coalesce({}, 'int') IN ('int', 'bool') THEN {} WHEN {} = 'double' THEN {} "
        "WHEN {} = 'bytes' THEN lower(hex({})) ELSE {} END",
        *(kind, raw, kind, format_number(number), kind, attribute.bytes, nested),
    )
    return text, sql("coalesce({} = 'double' AND NOT isfinite({}), false)", kind, number)


def format_number(number: Sql) -> Sql:
    """Format a floating-point number as Go's JSON does: plain from 1e-6 up to 1e21, null if it is not finite."""
    return sql(f"list_transform([{{}}], lambda n: {_NUMBER})[1]", number)


def measure_size(value: Value) -> Value:
    """Return the bytes of a text, or the number of values of a list or a map, and fail for other values."""
    if value.size is not None:
        return Value({Kind.INT: value.size})
    if value.attribute is None:
        if Kind.STRING not in value.kinds:
            raise OttlError(f"{value.what or 'this'} has no length")
        length = sql("CAST(strlen({}) AS BIGINT)", value.kinds[Kind.STRING])
        return Value({Kind.INT: length}, fails=FALSE if value.nil == FALSE else sql("({} IS NULL)", length))
    found = value.attribute
    length = sql(
        "CAST(CASE WHEN {} IS NULL THEN strlen({}) WHEN {} = 'bytes' THEN octet_length({}) "
        "WHEN {} IS NOT NULL THEN json_array_length({}) WHEN {} IS NOT NULL THEN len(json_keys({})) END AS BIGINT)",
        *(found.type, found.raw, found.type, found.bytes, found.list, found.list, found.map, found.map),
    )
    return Value({Kind.INT: length}, fails=sql("({} IS NULL)", length))
