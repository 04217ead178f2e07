"""A statement as the text that an engine runs, with the place of every table filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.errors import QueryError
from neve.query.sql.dialect import LAKE, SPARK, Source, write
from neve.query.sql.dialect_spark import to_spark
from neve.query.sql.identifiers import fold
from neve.query.sql.names import name_columns
from neve.query.sql.phrases import with_phrases
from neve.query.sql.portable import NotPortable
from neve.query.sql.references import SCHEMAS, check_references, marked
from neve.query.sql.sizes import with_checks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.query.sql.kinds import TableKinds
    from neve.query.sql.statement import Statement


def for_duckdb(statement: Statement, sources: Mapping[int, str]) -> str:
    """The statement for DuckDB; `sources` has a subquery in parentheses for each marked table."""
    # Tables are filled in first: what comes after may copy parts that read one.
    tree = with_checks(with_phrases(_filled(name_columns(statement.tree.copy()), sources)))
    check_references(tree)
    return write(tree, LAKE)


def for_spark(statement: Statement, sources: Mapping[int, str]) -> str:
    """The statement for Spark; raise `QueryError` where Spark would give another answer."""
    try:
        tree = to_spark(name_columns(statement.tree.copy()), statement.columns)
    except NotPortable as reason:
        raise QueryError(f"Spark can't answer this as DuckDB does: {reason}") from reason
    tree = _filled(tree, sources)
    check_references(tree)
    return write(tree, SPARK)


def reason_against_spark(tree: exp.Expr, columns: Mapping[str, TableKinds]) -> str:
    """Why Spark can't answer a query in the same way; empty when it can."""
    try:
        write(to_spark(name_columns(tree.copy()), columns), SPARK)
    except NotPortable as reason:
        return str(reason)
    except QueryError as error:
        return error.message
    return ""


def _filled(tree: exp.Expr, sources: Mapping[int, str]) -> exp.Expr:
    for number, table in marked(tree).items():
        if number not in sources:
            raise QueryError(f"there is no source for table {number}, {table.name}")
        _unqualify(tree, table)
        table.set("db", None)
        table.set("this", Source(this=sources[number]))
    return tree


def _unqualify(tree: exp.Expr, table: exp.Table) -> None:
    """Columns may be written `telemetry.spans.x`; the source has the name of the table alone."""
    for column in tree.find_all(exp.Column):
        if fold(column.db) in SCHEMAS and fold(column.table) == fold(table.name):
            column.set("db", None)
            column.set("catalog", None)
