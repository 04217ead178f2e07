"""What a statement asks of each table: an expression that all rows satisfy that it can use, and words they hold.

It is always safe to know less. Rows that a scan leaves out must not be able to change the result; the property tests
hold this against DuckDB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from neve.query.scan.conditions import Conditions
from neve.query.scan.expressions import all_of, rejects_null
from neve.query.scan.predicates import implied
from neve.query.scan.search_words import required_words
from neve.query.sql.identifiers import fold
from neve.query.sql.references import marked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField
    from sqlglot import exp

    from neve.query.scan.conditions import Condition
    from neve.query.scan.predicates import Resolve
    from neve.query.scan.selects import Item
    from neve.query.sql.statement import Statement

Tokens = tuple[tuple[str, frozenset[str]], ...]


@dataclass(frozen=True)
class Scan:
    """One reference to a lake table: what rows must satisfy, and words that must be in the texts of columns."""

    number: int
    table: str
    predicate: BooleanExpression
    tokens: Tokens = ()


def scans_of(statement: Statement, schemas: Mapping[str, Schema]) -> tuple[Scan, ...]:
    """The scans of a statement, in the order of their numbers."""
    fields = {name: _fields(schema) for name, schema in schemas.items()}
    conditions = Conditions(statement.tree, {name: frozenset(of) for name, of in fields.items()})
    return tuple(
        _scan(number, table, conditions, fields.get(table.name, {})) for number, table in marked(statement.tree).items()
    )


def _scan(number: int, table: exp.Table, conditions: Conditions, fields: Mapping[str, NestedField]) -> Scan:
    found = conditions.about(table)
    if found is None:
        return Scan(number, table.name, AlwaysTrue())
    item, some = found
    parts, words = [], dict[str, frozenset[str]]()
    for condition in some:
        resolve = _resolver(condition, item, fields)
        expression = implied(condition.node, resolve)
        if not condition.strict or rejects_null(expression):
            parts.append(expression)
        for column, more in required_words(condition.node, resolve):
            words[column] = words.get(column, frozenset()) | more
    return Scan(number, table.name, all_of(parts), tuple(sorted(words.items())))


def _resolver(condition: Condition, item: Item, fields: Mapping[str, NestedField]) -> Resolve:
    """The fields of one table alone."""

    def resolve(column: exp.Column) -> NestedField | None:
        found = condition.place(column)
        return fields.get(found[1]) if found is not None and found[0] is item else None

    return resolve


def _fields(schema: Schema) -> dict[str, NestedField]:
    """The columns by their names in lower case, as SQL knows them."""
    return {fold(field.name): field for field in schema.fields}
