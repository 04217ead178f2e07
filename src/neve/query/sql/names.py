"""Names of result columns: the same from both engines."""

from __future__ import annotations

from sqlglot import exp

from neve.query.sql.dialect import LAKE


def name_columns(tree: exp.Expr) -> exp.Expr:
    """Give each column of the result that has no name the text of its expression.

    >>> from neve.query.sql.dialect import read, write
    >>> write(name_columns(read("SELECT count(*), a FROM t")[0]))
    'SELECT COUNT(*) AS "count(*)", "a" FROM "t"'
    """
    query = tree
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    if isinstance(query, exp.Select):
        query.set("expressions", [_named(item) for item in query.expressions])
    return tree


def _named(item: exp.Expr) -> exp.Expr:
    if isinstance(item, exp.Alias | exp.Aliases | exp.Column | exp.Dot | exp.Explode) or _is_many(item):
        return item
    said = LAKE.generate(item, normalize_functions="lower", comments=False)
    return exp.alias_(item, said.replace("${", "$ {"), quoted=True)  # Spark would put a variable's value there


def _is_many(item: exp.Expr) -> bool:
    return item.is_star or item.find(exp.Columns, exp.Explode) is not None
