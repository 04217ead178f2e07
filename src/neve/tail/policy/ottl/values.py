"""What an expression of OTTL may be: for each type that it can have, the SQL of its value when it has that type."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from neve.tail.policy.sql import FALSE, TRUE, Sql, all_of, blob, boolean, double, integer, sql, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.tail.policy.attributes import Attribute

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
    """A value whose type may depend on the span.

    Each of `kinds` is null where the value is of another type. Where it fails (what OTTL calls an error), all are null.
    """

    kinds: Mapping[Kind, Sql]
    nil: Sql = FALSE  # where it is nil; never null
    fails: Sql = FALSE  # where there is no value, because something can't be done; never null
    attribute: Attribute | None = None  # that it is
    literal: tuple[Plain, ...] = ()  # the one value, where it was written down
    size: Sql | None = None  # of a whole map or list, which can be counted but not compared
    what: str = field(default="", compare=False)  # how the user wrote it, for messages


def literal(value: Plain) -> Value:
    """A value that was written down."""
    if value is None:
        return Value({}, nil=TRUE, literal=(None,))
    kind, written = _written(value)
    return Value({kind: written}, literal=(value,))


def _written(value: str | int | float | bool | bytes) -> tuple[Kind, Sql]:
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


def attribute_value(attribute: Attribute) -> Value:
    """An attribute, of whatever type it is; bytes without a byte are nil, as in the collector."""
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


def nothing_of(kinds: Mapping[Kind, Sql]) -> Sql:
    """Where a value is of none of the kinds."""
    return all_of([sql("{} IS NULL", one) for one in kinds.values()])
