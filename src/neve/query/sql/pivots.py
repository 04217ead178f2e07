"""PIVOT without values: `PIVOT t ON column USING …` has a column for each value of `column`.

DuckDB runs such a PIVOT as two statements, and so does Neve: the first reads the distinct values (`values_statement`),
and the second is the PIVOT with these values as literals (`fill_pivots`). Both read the same snapshot. A value is a
literal of the tree, never text of a statement, and the number and length of values are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.errors import QueryError
from neve.query.sql.dialect import call, integer, is_null
from neve.query.sql.duckdb_statement import DEFINED
from neve.query.sql.size_limits import LONGEST, check_expanded_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neve.query.sql.statement import Statement

MAX_COLUMNS = 100  # of all values of one PIVOT together
MAX_OPEN = 8  # ON expressions without values in one statement; each is a statement of its own
VALUE = "neve_value"
IS_EMPTY = "is_empty"  # marks an expression for which no values were found; a user's own IN (NULL) gives a column


@dataclass(frozen=True)
class OpenPivot:
    """An expression after ON that has no values yet. `pivot` and `item` are its places in the tree."""

    pivot: int
    item: int
    text: str


def find_open_pivots(tree: exp.Expr) -> list[OpenPivot]:
    """Return the expressions whose values have to be read first. Raises `QueryError` for too many of them."""
    found = [
        OpenPivot(place, number, item.sql("duckdb", comments=False))
        for place, pivot in enumerate(tree.find_all(exp.Pivot))
        for number, item in _open_items(pivot)
    ]
    if len(found) > MAX_OPEN:
        raise QueryError(f"the statement has {len(found)} PIVOT columns without values, at most {MAX_OPEN} are read")
    return found


def values_statement(statement: Statement, open_pivot: OpenPivot) -> Statement | None:
    """Return the statement that reads the values, or `None` if its own source has a PIVOT that must be filled first."""
    pivot = _find(statement.tree, open_pivot)
    source = pivot.this.copy()
    definitions = list(_needed_definitions(statement.tree, source))
    if any(_open_items(inner) for part in (source, *definitions) for inner in part.find_all(exp.Pivot)):
        return None
    text = exp.cast(pivot.expressions[open_pivot.item].copy(), exp.DType.TEXT)
    value = call("left", text, integer(LONGEST + 1))
    tree = exp.Select(
        expressions=[exp.alias_(value, VALUE, quoted=True)],
        distinct=exp.Distinct(),
        from_=exp.From(this=source),
        where=exp.Where(this=exp.Not(this=is_null(text))),
        order=exp.Order(expressions=[exp.Ordered(this=integer(1), nulls_first=False)]),
        limit=exp.Limit(expression=integer(MAX_COLUMNS + 1)),
    )
    if definitions:
        is_recursive = any(part.args.get("recursive") for part in statement.tree.find_all(exp.With))
        tree.set("with_", exp.With(expressions=[part.copy() for part in definitions], recursive=is_recursive))
    return replace(statement, tree=tree, explain="")


def fill_pivots(statement: Statement, values: Mapping[OpenPivot, Sequence[str]]) -> Statement:
    """Return the statement with values for some of its open pivots.

    Raises `QueryError` for too many or too long values.
    """
    tree: exp.Expression = statement.tree.copy()
    pivots = list(tree.find_all(exp.Pivot))
    for one, found in values.items():
        _check_values(one, found)
        item = pivots[one.pivot].expressions[one.item]
        listed = [exp.Literal.string(value) for value in found]
        filled = exp.In(this=item.copy(), expressions=listed or [exp.Null()])
        filled.meta[IS_EMPTY] = not found
        item.replace(filled)
    for pivot in pivots:
        tree = _finish(tree, pivot)
    check_expanded_size(tree)
    return replace(statement, tree=tree)


def _check_values(one: OpenPivot, values: Sequence[str]) -> None:
    if len(values) > MAX_COLUMNS:
        raise QueryError(
            f"PIVOT ON {one.text} has more than {MAX_COLUMNS} values",
            hint="narrow the rows with WHERE, or name the values: ON column IN ('a', 'b')",
        )
    if any(len(value) > LONGEST or "\0" in value for value in values):
        raise QueryError(
            f"PIVOT ON {one.text} has a value that can't be the name of a column",
            hint=f"names have at most {LONGEST:,} characters; shorten them with left(…)",
        )


def _finish(tree: exp.Expression, pivot: exp.Pivot) -> exp.Expression:
    """Check the number of columns of a pivot that has all values. One without any value gives its groups alone."""
    items = pivot.expressions
    if pivot.args.get("unpivot") or pivot.args.get("fields") or _open_items(pivot):
        return tree
    if any(item.meta.get(IS_EMPTY) for item in items):
        groups = _groups_alone(pivot)
        pivot.replace(groups)
        return groups if tree is pivot else tree
    columns = prod(len(item.expressions) for item in items)
    if len(items) > 1 and columns > MAX_COLUMNS:
        raise QueryError(
            f"the PIVOT has {columns:,} combinations of values, at most {MAX_COLUMNS} are allowed",
            hint="narrow the rows with WHERE, or name the values: ON column IN ('a', 'b')",
        )
    return tree


def _groups_alone(pivot: exp.Pivot) -> exp.Select:
    group = pivot.args.get("group")
    used = {column.name: None for key in ("expressions", "using") for column in _columns(pivot.args.get(key))}
    star = exp.Star(except_=[exp.to_identifier(name, quoted=True) for name in used])
    return exp.Select(
        expressions=[item.copy() for item in group.expressions] if group else [star],
        distinct=None if group else exp.Distinct(),
        from_=exp.From(this=pivot.this.copy()),
        group=group.copy() if group else None,
        with_=pivot.args.get("with_"),
    )


def _columns(parts: Sequence[exp.Expr] | None) -> Iterator[exp.Column]:
    for part in parts or ():
        yield from part.find_all(exp.Column)


def _open_items(pivot: exp.Pivot) -> list[tuple[int, exp.Expr]]:
    if pivot.args.get("unpivot") or pivot.args.get("fields"):
        return []
    return [(number, item) for number, item in enumerate(pivot.expressions) if not isinstance(item, exp.In)]


def _find(tree: exp.Expr, one: OpenPivot) -> exp.Pivot:
    return list(tree.find_all(exp.Pivot))[one.pivot]


def _needed_definitions(tree: exp.Expr, source: exp.Expr) -> Iterator[exp.CTE]:
    """Yield the WITH queries around a source that it reads, each after those that it reads itself.

    Their names are unique in the statement. Those within a source, or within such a query, stay where they are.
    """
    known = {definition.alias: definition for definition in tree.find_all(exp.CTE)}
    done: set[str] = set()
    todo: list[tuple[exp.Expr, bool]] = [(source, False)]
    while todo:
        node, is_done = todo.pop()
        if is_done and isinstance(node, exp.CTE):
            yield node
            continue
        if isinstance(node, exp.CTE):
            todo.append((node, True))
        within = {definition.alias for definition in node.find_all(exp.CTE)}
        names = [table.name for table in node.find_all(exp.Table) if table.name.startswith(DEFINED)]
        for name in names:
            if name in known and name not in done and name not in within:
                done.add(name)
                todo.append((known[name], False))
