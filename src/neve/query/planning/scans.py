"""The scans of a statement: for each table a predicate that all useful rows satisfy, and words in their texts.

It is always safe to require less. Rows that a scan removes must not be able to change the result. Property tests
compare this with DuckDB. A scan is formatted as SQL for EXPLAIN and the query log.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
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
from pyiceberg.types import BinaryType, StringType
from sqlglot import exp

from neve.lake.calendar import EPOCH
from neve.lake.duckdb import quote_literal
from neve.lake.tokenizer import is_word_character, tokenize
from neve.predicate.comparisons import Rules
from neve.predicate.conditions import ConditionReader
from neve.predicate.duckdb_constants import DuckDbConstants, is_text
from neve.predicate.expressions import to_expression
from neve.predicate.filters import all_of, is_strict
from neve.predicate.names import fold
from neve.predicate.terms import Term, find_argument, wrap_term
from neve.query.planning.conditions import Conditions
from neve.query.request import UTC_ZONE
from neve.query.sql.references import find_lake_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType, NestedField

    from neve.predicate.filters import Filter
    from neve.query.planning.conditions import Condition, FromItem
    from neve.query.sql.statement import Statement


Resolve = Callable[[exp.Column], "NestedField | None"]
DUCKDB = Rules("duckdb", is_exact=True, max_excluded=200)
SEARCHES = ("has_term", "has_phrase")
WILDCARD = re.compile("[%_]")


def required_words(node: exp.Expr, resolve: Resolve) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield columns, each with words that its text must contain for a condition to be true."""
    node = node.unnest()
    if isinstance(node, exp.And):
        for part in node.flatten():
            yield from required_words(part, resolve)
        return
    found = _searched_words(node)
    if found is None:
        return
    column, words = found
    field = resolve(column)
    if field is not None and isinstance(field.field_type, StringType) and words:
        yield field.name, words


def words_of_pattern(pattern: str) -> frozenset[str]:
    """Return the whole words of a LIKE pattern: those that end within it, or at the end of the text.

    >>> sorted(words_of_pattern("%a pool b%")), sorted(words_of_pattern("pool %"))
    (['pool'], ['pool'])
    """
    parts = WILDCARD.split(pattern)
    whole = []
    for place, part in enumerate(parts):
        start = 0 if place == 0 else _first_gap(part)
        end = len(part) if place == len(parts) - 1 else len(part) - _first_gap(part[::-1])
        whole.append(part[start:end])
    return tokenize(" ".join(whole))


def _first_gap(text: str) -> int:
    """Return the number of characters before the first one that belongs to no word."""
    return next((place for place, character in enumerate(text) if not is_word_character(character)), len(text))


def _searched_words(node: exp.Expr) -> tuple[exp.Column, frozenset[str]] | None:
    sides = [side.unnest() for side in _sides(node)]
    if len(sides) != 2 or node.args.get("negate"):
        return None
    if isinstance(node, exp.EQ) and is_text(sides[0]):
        sides.reverse()
    column, text = sides
    return (column, _words_of_search(node, text.name)) if isinstance(column, exp.Column) and is_text(text) else None


def _sides(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Anonymous) and fold(node.name) in SEARCHES:
        return list(node.expressions)
    return [node.this, node.expression] if isinstance(node, exp.EQ | exp.Like | exp.ILike) else []


def _words_of_search(node: exp.Expr, text: str) -> frozenset[str]:
    if isinstance(node, exp.ILike):
        # Case folding is ambiguous for other characters, but not for ASCII.
        return words_of_pattern(text) if text.isascii() else frozenset()
    return words_of_pattern(text) if isinstance(node, exp.Like) else tokenize(text)


COMPARISON_OPERATORS: dict[type[LiteralPredicate], str] = {
    EqualTo: "=",
    NotEqualTo: "<>",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}
UNARY_OPERATORS: dict[type[UnaryPredicate], str] = {IsNull: "IS NULL", NotNull: "IS NOT NULL", IsNaN: "= 'NaN'"}
DAY_MICROS = 86_400_000_000


def format_predicate(expression: BooleanExpression, tokens: Tokens = ()) -> str:
    """Format all conditions that select files, including the words of an index. Empty if there is none.

    >>> from pyiceberg.expressions import And, EqualTo, Or
    >>> expression = And(EqualTo("a", "x"), Or(EqualTo("n", 1), EqualTo("n", 2)))
    >>> format_predicate(expression, (("message", frozenset({"pool"})),))
    "a = 'x' AND n IN (1, 2) AND has_term(message, 'pool')"
    """
    words = [f"has_term({column}, {quote_literal(word)})" for column, some in tokens for word in sorted(some)]
    told = [] if isinstance(expression, AlwaysTrue) else [_format_expression(expression, And if words else None)]
    return " AND ".join([*told, *words])


def _format_expression(expression: BooleanExpression, around: type[And | Or] | None) -> str:
    """Format an expression, in parentheses if the enclosing operator requires them."""
    if isinstance(expression, And | Or):
        kind = type(expression)
        parts = list(_flatten(expression, kind))
        same = _format_in_list(parts) if kind is Or else ""
        joined = f" {kind.__name__.upper()} ".join(_format_expression(part, kind) for part in parts)
        return same or (f"({joined})" if around not in {None, kind} else joined)
    return _format_comparison(expression)


def _format_in_list(parts: list[BooleanExpression]) -> str:
    """Format comparisons with values of one column as an IN list. Empty if they are anything else."""
    equal = [part for part in parts if isinstance(part, EqualTo)]
    columns = {_column_name(part) for part in equal}
    if len(equal) < len(parts) or len(columns) != 1:
        return ""
    return f"{columns.pop()} IN ({', '.join(_format_value(part.literal) for part in equal)})"


def _format_comparison(expression: BooleanExpression) -> str:
    match expression:
        case StartsWith():
            return f"starts_with({_column_name(expression)}, {_format_value(expression.literal)})"
        case LiteralPredicate() if type(expression) in COMPARISON_OPERATORS:
            operator = COMPARISON_OPERATORS[type(expression)]
            return f"{_column_name(expression)} {operator} {_format_value(expression.literal)}"
        case UnaryPredicate() if type(expression) in UNARY_OPERATORS:
            return f"{_column_name(expression)} {UNARY_OPERATORS[type(expression)]}"
        case AlwaysTrue() | AlwaysFalse():
            return str(isinstance(expression, AlwaysTrue)).lower()
    return str(expression)


def _flatten(expression: BooleanExpression, kind: type[And | Or]) -> Iterator[BooleanExpression]:
    """Yield the parts of a chain, for any shape of its tree."""
    if isinstance(expression, And | Or) and type(expression) is kind:
        yield from _flatten(expression.left, kind)
        yield from _flatten(expression.right, kind)
    else:
        yield expression


def _column_name(predicate: Any) -> str:
    return str(predicate.term.name)


def _format_value(given: Any) -> str:
    value = given.value
    if isinstance(given, TimestampLiteral):
        return _format_moment(value)
    if isinstance(given, DateLiteral):
        return _format_moment(value * DAY_MICROS, "DATE", "%Y-%m-%d")
    return next((said(value) for kind, said in _VALUE_FORMATS if isinstance(value, kind)), str(value))


_VALUE_FORMATS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (bool, lambda value: str(value).upper()),
    (bytes, lambda value: f"unhex('{value.hex()}')"),
    (str, quote_literal),
    (float, lambda value: str(value) if math.isfinite(value) else f"'{value}'::DOUBLE"),
)


def _format_moment(micros: int, kind: str = "TIMESTAMP", form: str = "") -> str:
    try:
        at = EPOCH + timedelta(microseconds=micros)
    except OverflowError:  # beyond the years that Python supports
        return f"make_timestamptz({micros})"
    return f"{kind} '{at.strftime(form) if form else at.isoformat(sep=' ').removesuffix(':00')}'"


# It is always safe to require less. Rows that a scan removes must not be able to change the result. The property tests
# compare this with DuckDB.

Tokens = tuple[tuple[str, frozenset[str]], ...]


@dataclass(frozen=True)
class Scan:
    """One reference to a lake table: the predicate of its rows, and words that the texts of columns must contain.

    `ids` are the bytes that columns must equal, in hexadecimal digits, which an index has as words too.
    """

    number: int
    table: str
    predicate: BooleanExpression
    tokens: Tokens = ()
    ids: Tokens = ()


def find_scans(statement: Statement, schemas: Mapping[str, Schema], zone: str = UTC_ZONE) -> tuple[Scan, ...]:
    """Return the scans of a statement whose session is in a time zone, in the order of their numbers."""
    fields = {name: _fields(schema) for name, schema in schemas.items()}
    conditions = Conditions(statement.tree, {name: frozenset(of) for name, of in fields.items()})
    return tuple(
        _make_scan(number, table, conditions, fields.get(table.name, {}), zone)
        for number, table in find_lake_tables(statement.tree).items()
    )


def _make_scan(
    number: int, table: exp.Table, conditions: Conditions, fields: Mapping[str, NestedField], zone: str
) -> Scan:
    found = conditions.about(table)
    if found is None:
        return Scan(number, table.name, AlwaysTrue())
    item, some = found
    filters: list[Filter] = []
    words: dict[str, frozenset[str]] = {}
    for condition in some:
        columns = ColumnTerms(condition, item, fields, zone)
        filter_ = ConditionReader(columns, DuckDbConstants(zone), DUCKDB).filter(condition.node)
        if filter_ is not None and (not condition.strict or is_strict(filter_)):
            filters.append(filter_)
        for column, more in required_words(condition.node, columns.resolve):
            words[column] = words.get(column, frozenset()) | more
    types = {field.name: field.field_type for field in fields.values()}
    predicate = to_expression(all_of(filters), types)
    return Scan(number, table.name, predicate, tuple(sorted(words.items())), tuple(_find_ids(predicate, types)))


def _find_ids(predicate: BooleanExpression, types: Mapping[str, IcebergType]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield columns of bytes, each with the value that all rows must have."""
    for part in _flatten(predicate, And):
        if not isinstance(part, EqualTo) or not isinstance(types.get(_column_name(part)), BinaryType):
            continue
        value = part.literal.value
        if isinstance(value, bytes) and value:
            yield _column_name(part), frozenset({value.hex()})


@dataclass(frozen=True)
class ColumnTerms:
    """Finder of the columns of one item of FROM in a condition."""

    condition: Condition
    item: FromItem
    fields: Mapping[str, NestedField]
    zone: str = UTC_ZONE

    def resolve(self, column: exp.Column) -> NestedField | None:
        """Return the field of a column, if it is one of the item."""
        found = self.condition.place(column)
        return self.fields.get(found[1]) if found is not None and found[0] is self.item else None

    def term(self, node: exp.Expr) -> Term | None:
        """Return the term of a node, or `None` if it is not one of a column that DuckDB compares exactly."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            field = self.resolve(node)
            return Term(field.name, field.field_type) if field else None
        if not isinstance(node, exp.Cast | exp.TimestampTrunc | exp.DateBin) or self.zone != UTC_ZONE:
            return None  # days and hours of other zones begin at other times
        inner = self.term(find_argument(node) or exp.Null())
        term = wrap_term(inner, node, exact=True) if inner is not None else None
        return None if term is None or term.is_opaque else term

    def other(self, _node: exp.Expr) -> Filter | None:
        """Return no filter: nothing is known about other expressions."""
        return None


def _fields(schema: Schema) -> dict[str, NestedField]:
    """Return the columns by their names in lower case, as in SQL."""
    return {fold(field.name): field for field in schema.fields}
