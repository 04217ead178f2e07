"""Iceberg's expressions about a column, by the column's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotNull,
    Or,
    Reference,
    StartsWith,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.expressions import BooleanExpression, LiteralPredicate

NOTHING = AlwaysTrue()  # what is said where nothing is known
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SAID: dict[str, type[LiteralPredicate]] = {
    "=": EqualTo,
    "<>": NotEqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}


def said(name: str, operator: str, value: Any) -> BooleanExpression:
    """A column compared with a value."""
    return _SAID[operator](term=Reference(name), value=value)


def starts_with(name: str, prefix: str) -> BooleanExpression:
    """A text that begins in some way."""
    return StartsWith(term=Reference(name), value=prefix)


def is_null(name: str) -> BooleanExpression:
    """A column without a value."""
    return IsNull(term=Reference(name))


def not_null(name: str) -> BooleanExpression:
    """A column with any value."""
    return NotNull(term=Reference(name))


def is_nan(name: str) -> BooleanExpression:
    """A column with a value that is no number."""
    return IsNaN(term=Reference(name))


def all_of(parts: Sequence[BooleanExpression]) -> BooleanExpression:
    """All of some expressions, in a tree that is no deeper than it must be."""
    if len(parts) < 2:
        return parts[0] if parts else AlwaysTrue()
    half = len(parts) // 2
    return And(all_of(parts[:half]), all_of(parts[half:]))


def any_of(parts: Sequence[BooleanExpression]) -> BooleanExpression:
    """Any of some expressions, in a tree that is no deeper than it must be."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return Or(any_of(parts[:half]), any_of(parts[half:]))


def rejects_null(expression: BooleanExpression) -> bool:
    """Whether an expression can't hold for a row in which every column is null, as SQL sees it."""
    match expression:
        case And():
            return rejects_null(expression.left) or rejects_null(expression.right)
        case Or():
            return rejects_null(expression.left) and rejects_null(expression.right)
    return not isinstance(expression, AlwaysTrue | IsNull)
