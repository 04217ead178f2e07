"""Clauses for Spark: what DuckDB lets a SELECT say and Spark does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.build import integer
from neve.query.sql.dialect_qualify import qualified
from neve.query.sql.kinds import kind
from neve.query.sql.portable import NotPortable
from neve.query.sql.references import SCAN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from neve.query.sql.kinds import TableKinds


def _refused(tree: exp.Expr, _: Mapping[str, TableKinds]) -> exp.Expr:
    """What Spark has no words for."""
    for node in tree.walk():
        reason = next((reason for of, test, reason in _REASONS if isinstance(node, of) and test(node)), "")
        if reason:
            raise NotPortable(reason)
    return tree


def _is_star_over_using(node: exp.Expr) -> bool:
    stars = any(item.is_star for item in node.expressions)
    joins = node.args.get("joins") or []
    return stars and any(join.args.get("using") or join.args.get("method") == "NATURAL" for join in joins)


def _changes_star(node: exp.Expr) -> bool:
    return bool(node.args.get("replace") or node.args.get("rename"))


_REASONS: tuple[tuple[type | tuple[type, ...], Callable[[exp.Expr], bool], str], ...] = (
    (exp.With, lambda node: bool(node.args.get("recursive")), "a recursive WITH"),
    (exp.SetOperation, lambda node: bool(node.args.get("by_name")), "UNION BY NAME"),
    (exp.Join, lambda node: node.args.get("method") == "ASOF", "an ASOF JOIN"),
    (exp.Select, _is_star_over_using, "* over a join with USING"),
    (exp.Select, lambda node: bool((node.args.get("distinct") or exp.Null()).args.get("on")), "DISTINCT ON"),
    (exp.Select, lambda node: any(kind(item) == "interval" for item in node.expressions), "an interval as a result"),
    (exp.Star, _changes_star, "* with REPLACE or RENAME"),
    (exp.Limit, lambda node: not isinstance(node.expression, exp.Literal), "a LIMIT that is not a number"),
    (exp.LimitOptions, lambda _: True, "a LIMIT in percent"),
    (exp.Comprehension, lambda _: True, "a list comprehension"),
    (exp.Ordered, lambda node: bool(node.args.get("with_fill")), "WITH FILL"),
)


def _rows(tree: exp.Expr, _: Mapping[str, TableKinds]) -> exp.Expr:
    """The name of a table may stand for its whole row."""
    tables = {node.alias_or_name.lower() for node in tree.find_all(exp.Table, exp.Subquery)}
    for column in tree.find_all(exp.Column):
        if not column.table and column.name.lower() in tables and not kind(column):
            raise NotPortable(f"{column.name}, which may be a whole row")
    return tree


def _unhinted(tree: exp.Expr, _: Mapping[str, TableKinds]) -> exp.Expr:
    for node in tree.find_all(exp.CTE):
        node.set("materialized", None)
    return tree


def _values(tree: exp.Expr, _: Mapping[str, TableKinds]) -> exp.Expr:
    """Columns of VALUES are called differently unless they are named."""
    for node in tree.find_all(exp.Values):
        holder = node if node.args.get("alias") else node.parent
        alias = holder.args.get("alias") if holder is not None else None
        if not (isinstance(alias, exp.TableAlias) and alias.columns):
            raise NotPortable("VALUES without names for the columns")
    return tree


def _series(tree: exp.Expr, _: Mapping[str, TableKinds]) -> exp.Expr:
    """`range` and `generate_series` of integers; Spark has the first."""
    for table in list(tree.find_all(exp.Table)):
        function = table.this
        if not isinstance(function, exp.Anonymous):
            continue
        name = function.name.lower()
        if name == "unnest" or any(kind(item) != "int" for item in function.expressions):
            raise NotPortable(f"{name} of something else than integers")
        bounds = [item.copy() for item in function.expressions]
        if len(bounds) == 1:
            bounds.insert(0, integer(0))
        if len(bounds) == 3 and not (isinstance(bounds[2], exp.Literal)):
            raise NotPortable(f"{name} with a step that is not a positive literal")
        if name == "generate_series":
            bounds[1] = exp.Add(this=exp.Paren(this=bounds[1]), expression=integer(1))
        table.set("this", exp.Anonymous(this="RANGE", expressions=bounds))
        _name_series(table, name)
    return tree


def _name_series(table: exp.Table, name: str) -> None:
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    if not alias.columns:
        alias.set("columns", [exp.to_identifier(name, quoted=True)])
    table.set("alias", alias)


def _unnested(tree: exp.Expr, _: Mapping[str, TableKinds]) -> exp.Expr:
    """A list in FROM, with a name for its elements, is a LATERAL VIEW; one in SELECT is explode."""
    for node in list(tree.find_all(exp.Unnest)):
        alias = node.args.get("alias")
        join = node.parent if isinstance(node.parent, exp.Join) else None
        plain = join is not None and not join.args.get("side") and _always(join.args.get("on"))
        named = isinstance(alias, exp.TableAlias) and len(alias.columns) == 1
        single = len(node.expressions) == 1 and not node.args.get("offset")
        if join is None or alias is None or not (plain and named and single):
            raise NotPortable("unnest without a name for its elements, or in an outer join")
        select = join.parent
        if not isinstance(select, exp.Select) or join is not (select.args.get("joins") or [None])[-1]:
            raise NotPortable("unnest before another join")
        function = exp.Anonymous(this="EXPLODE", expressions=[node.expressions[0].copy()])
        join.replace(exp.Join(this=exp.Lateral(this=function, alias=alias.copy())))
    for exploded in tree.find_all(exp.Explode):
        _check_explode(exploded)
    return tree


def _always(condition: exp.Expr | None) -> bool:
    return condition is None or (isinstance(condition, exp.Boolean) and bool(condition.this))


def _check_explode(node: exp.Expr) -> None:
    place = node.parent if isinstance(node.parent, exp.Alias) else node
    select = place.parent
    alone = isinstance(select, exp.Select) and len(list(select.find_all(exp.Explode))) == 1
    if not alone or node.expressions or not kind(node.this).startswith("list<"):
        raise NotPortable("unnest that is not alone in SELECT, or of a value whose type can't be told")


def _aliases(tree: exp.Expr, columns: Mapping[str, TableKinds]) -> exp.Expr:
    """Names that a SELECT gives may be used in its own WHERE; for Spark what they stand for is put there."""
    for select in list(tree.find_all(exp.Select)):
        given = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
        where = select.args.get("where")
        for column in list(where.find_all(exp.Column)) if where is not None and given else []:
            name = column.name.lower()
            if column.table or name not in given or _same(given[name], name):
                continue
            if column.find_ancestor(exp.Select) is not select or not _is_free(select, name, columns):
                raise NotPortable(f"{column.name}, which may be a column or a name that the query gives")
            column.replace(exp.Paren(this=given[name].copy()))
    return tree


def _same(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == name


def _is_free(select: exp.Select, name: str, columns: Mapping[str, TableKinds]) -> bool:
    """Whether surely no source has a column of that name."""
    sources = [select.args["from_"].this] if select.args.get("from_") else []
    sources += [join.this for join in select.args.get("joins") or []]
    return all(SCAN in source.meta and name not in columns.get(source.name, {name: ""}) for source in sources)


CLAUSES: tuple[Callable[[exp.Expr, Mapping[str, TableKinds]], exp.Expr], ...] = (
    _refused,
    _rows,
    _unhinted,
    _values,
    _series,
    _unnested,
    _aliases,
    lambda tree, _: qualified(tree),
)
