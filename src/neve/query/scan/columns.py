"""Which columns of its tables a statement can see, so that no others have to be looked for in each file.

Names are all that is looked at: a column counts where its name stands anywhere in the statement, whatever it means
there. Where columns are meant without being named, all of them count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.identifiers import fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

# `*`, COLUMNS(…) and pivots mean columns that they do not name.
UNNAMED = (exp.Columns, exp.Pivot, exp.UnpivotColumns)


def named_columns(tree: exp.Expr, known: Collection[str]) -> frozenset[str] | None:
    """The names in a statement, in lower case, and `None` where it may mean columns that it does not name.

    `known` are the columns of all tables that it reads, in lower case. A name that is none of them, and that the
    statement does not give to anything, is most likely a mistake: then all columns count, so that DuckDB can say which
    one was meant.
    """
    nodes = list(tree.walk())
    tables = {fold(node.alias_or_name) for node in nodes if isinstance(node, exp.Table)}
    explained = {*known, *_given(nodes)}
    for node in nodes:
        if isinstance(node, exp.Column):
            name = fold(node.name)
            if name in tables or name not in explained:  # a table's name alone is a whole row of it
                return None
        if _means_more(node):
            return None
    return frozenset(fold(node.name) for node in nodes if isinstance(node, exp.Identifier))


def _given(nodes: list[exp.Expr]) -> Iterator[str]:
    """The names that a statement gives to what it computes."""
    for node in nodes:
        if isinstance(node, exp.Alias):
            yield fold(node.alias)
        elif isinstance(node, exp.TableAlias):
            yield from (fold(column.name) for column in node.columns)
        elif isinstance(node, exp.Lambda):
            yield from (fold(argument.name) for argument in node.expressions)


def _means_more(node: exp.Expr) -> bool:
    """Whether a node means columns, or the order of columns, without names."""
    if isinstance(node, exp.Star):
        return not (isinstance(node.parent, exp.Count) and not any(node.args.values()))
    if isinstance(node, exp.Join):
        return str(node.args.get("method") or "").upper() == "NATURAL"
    return isinstance(node, UNNAMED) or (isinstance(node, exp.Table) and _renames(node))


def _renames(table: exp.Table) -> bool:
    alias = table.args.get("alias")
    return isinstance(alias, exp.TableAlias) and bool(alias.columns)
