"""What a scan asks of files, in words that people know: SQL, more or less."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    NotEqualTo,
    NotNull,
    Or,
    StartsWith,
    UnaryPredicate,
)
from pyiceberg.expressions.literals import DateLiteral, TimestampLiteral

from neve.lake.calendar import EPOCH
from neve.lake.duck import literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.expressions import BooleanExpression

    from neve.query.scan.scans import Tokens

COMPARED: dict[type[LiteralPredicate], str] = {
    EqualTo: "=",
    NotEqualTo: "<>",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}
ALONE: dict[type[UnaryPredicate], str] = {IsNull: "IS NULL", NotNull: "IS NOT NULL", IsNaN: "= 'NaN'"}
DAY_MICROS = 86_400_000_000


def asked_of(expression: BooleanExpression, tokens: Tokens = ()) -> str:
    """All that files are told apart by, the words of an index among it; nothing where nothing is known.

    >>> from pyiceberg.expressions import And, EqualTo, Or
    >>> asked_of(And(EqualTo("a", "x"), Or(EqualTo("n", 1), EqualTo("n", 2))), (("message", frozenset({"pool"})),))
    "a = 'x' AND n IN (1, 2) AND has_term(message, 'pool')"
    """
    words = [f"has_term({column}, {literal(word)})" for column, some in tokens for word in sorted(some)]
    told = [] if isinstance(expression, AlwaysTrue) else [_said(expression, And if words else None)]
    return " AND ".join([*told, *words])


def _said(expression: BooleanExpression, around: type[And | Or] | None) -> str:
    """An expression, in parentheses where what joins it with others asks for them."""
    if isinstance(expression, And | Or):
        kind = type(expression)
        parts = list(_flat(expression, kind))
        same = _one_of(parts) if kind is Or else ""
        joined = f" {kind.__name__.upper()} ".join(_said(part, kind) for part in parts)
        return same or (f"({joined})" if around not in {None, kind} else joined)
    return _alone(expression)


def _one_of(parts: list[BooleanExpression]) -> str:
    """Values of one column, as a list; nothing where they are anything else."""
    equal = [part for part in parts if isinstance(part, EqualTo)]
    columns = {_name(part) for part in equal}
    if len(equal) < len(parts) or len(columns) != 1:
        return ""
    return f"{columns.pop()} IN ({', '.join(_value(part.literal) for part in equal)})"


def _alone(expression: BooleanExpression) -> str:
    match expression:
        case StartsWith():
            return f"starts_with({_name(expression)}, {_value(expression.literal)})"
        case LiteralPredicate() if type(expression) in COMPARED:
            return f"{_name(expression)} {COMPARED[type(expression)]} {_value(expression.literal)}"
        case UnaryPredicate() if type(expression) in ALONE:
            return f"{_name(expression)} {ALONE[type(expression)]}"
        case AlwaysTrue() | AlwaysFalse():
            return str(isinstance(expression, AlwaysTrue)).lower()
    return str(expression)


def _flat(expression: BooleanExpression, kind: type[And | Or]) -> Iterator[BooleanExpression]:
    """The parts of a chain, whatever shape its tree has."""
    if isinstance(expression, And | Or) and type(expression) is kind:
        yield from _flat(expression.left, kind)
        yield from _flat(expression.right, kind)
    else:
        yield expression


def _name(predicate: Any) -> str:
    return str(predicate.term.name)


def _value(given: Any) -> str:
    value = given.value
    if isinstance(given, TimestampLiteral):
        return _moment(value)
    if isinstance(given, DateLiteral):
        return _moment(value * DAY_MICROS, "DATE", "%Y-%m-%d")
    return next((said(value) for kind, said in _VALUES if isinstance(value, kind)), str(value))


_VALUES: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (bool, lambda value: str(value).upper()),
    (bytes, lambda value: f"unhex('{value.hex()}')"),
    (str, literal),
    (float, lambda value: str(value) if math.isfinite(value) else f"'{value}'::DOUBLE"),
)


def _moment(micros: int, kind: str = "TIMESTAMP", form: str = "") -> str:
    try:
        at = EPOCH + timedelta(microseconds=micros)
    except OverflowError:  # beyond the years that Python knows
        return f"make_timestamptz({micros})"
    return f"{kind} '{at.strftime(form) if form else at.isoformat(sep=' ').removesuffix(':00')}'"
