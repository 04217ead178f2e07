"""Values as the texts that OTTL makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.tail.policy.ottl.errors import OttlError
from neve.tail.policy.ottl.values import Kind, Value
from neve.tail.policy.sql import FALSE, Sql, any_of, sql

if TYPE_CHECKING:
    from neve.tail.policy.attributes import Attribute

# What DuckDB writes for the number n, and its parts where that has an exponent.
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
# Go's JSON writes these as escapes, so that it can stand in HTML.
ESCAPED = {"&": r"\u0026", "<": r"\u003c", ">": r"\u003e"}


def like_text(value: Value) -> tuple[Sql, Sql]:
    """A value as a text, null for nil, and where that fails."""
    if value.attribute is not None:
        text, fails = _attribute_text(value.attribute)
        return text, any_of([value.fails, fails])
    if set(value.kinds) == {Kind.STRING}:
        return value.kinds[Kind.STRING], value.fails
    if set(value.kinds) == {Kind.INT} or set(value.kinds) == {Kind.BOOL}:
        return sql("CAST({} AS VARCHAR)", next(iter(value.kinds.values()))), value.fails
    if set(value.kinds) == {Kind.FLOAT}:
        number = value.kinds[Kind.FLOAT]
        return number_text(number), sql("coalesce(NOT isfinite({}), true)", number)
    raise OttlError(f"{value.what or ' or '.join(value.kinds) or 'nil'} can't be read as a text")


def _attribute_text(attribute: Attribute) -> tuple[Sql, Sql]:
    kind, raw = attribute.type, attribute.raw
    nested = raw
    for character, escape in ESCAPED.items():
        nested = sql("replace({}, '{}', '{}')", nested, character, escape)
    number = attribute.double
    text = sql(
        "CASE WHEN coalesce({}, 'int') IN ('int', 'bool') THEN {} WHEN {} = 'double' THEN {} "
        "WHEN {} = 'bytes' THEN lower(hex({})) ELSE {} END",
        *(kind, raw, kind, number_text(number), kind, attribute.bytes, nested),
    )
    return text, sql("coalesce({} = 'double' AND NOT isfinite({}), false)", kind, number)


def number_text(number: Sql) -> Sql:
    """A floating-point number as Go's JSON writes it: plain from 1e-6 up to 1e21, null where it is not finite."""
    return sql(f"list_transform([{{}}], lambda n: {_NUMBER})[1]", number)


def size(value: Value) -> Value:
    """How long a text is in bytes, or how many values a list or a map has; fails for anything else."""
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
