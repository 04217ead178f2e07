"""Translate the tree of a statement, clause by clause and node by node, to a Spark tree that gives the same result.

Raises `NotPortable` if there is none. Spark has no QUALIFY: it becomes a condition on an outer query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.dialect import integer
from neve.query.sql.references import SCAN
from neve.query.sql.spark.functions import rebuild_call
from neve.query.sql.spark.operators import RULES
from neve.query.sql.syntax_rules import FUNCTIONS
from neve.query.sql.type_inference import KIND, NotPortable, annotate, arguments_of, kind, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from neve.query.sql.type_inference import TableKinds


QUALIFIED_COLUMN = "neve_qualified"


def rewrite_qualify(tree: exp.Expr) -> exp.Expr:
    """Replace QUALIFY by a condition on an outer query."""
    for select in list(tree.find_all(exp.Select)):
        qualify = select.args.get("qualify")
        if qualify is None:
            continue
        outer = _wrap_select(select, qualify.this)
        if select is tree:
            tree = outer
        else:
            select.replace(outer)
    return tree


def _wrap_select(select: exp.Select, condition: exp.Expr) -> exp.Select:
    inner = select.copy()
    inner.set("qualify", None)
    star = any(item.is_star for item in inner.expressions)
    names = [item.alias_or_name for item in inner.expressions]
    if not star and (not all(names) or len(set(names)) < len(names)):
        raise NotPortable("QUALIFY over columns without names of their own")
    given = {item.alias.lower(): item.this for item in inner.expressions if isinstance(item, exp.Alias)}
    test = condition.copy()
    holder = exp.Paren(this=test)
    for column in list(holder.find_all(exp.Column)):
        if not column.table and column.name.lower() in given:
            column.replace(exp.Paren(this=given[column.name.lower()].copy()))
    order, limit, offset = (inner.args.get(key) for key in ("order", "limit", "offset"))
    for key in ("order", "limit", "offset"):
        inner.set(key, None)
    inner.append("expressions", exp.alias_(holder, QUALIFIED_COLUMN, quoted=True))
    _check_order(order, names, star=star)
    shown = (
        [exp.Star(except_=[exp.to_identifier(QUALIFIED_COLUMN, quoted=True)])]
        if star
        else [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
    )
    outer = exp.select(*shown).from_(inner.subquery("neve_inner")).where(exp.column(QUALIFIED_COLUMN, quoted=True))
    for key, value in (("order", order), ("limit", limit), ("offset", offset)):
        outer.set(key, value)
    definitions = inner.args.get("with_")
    if definitions is not None:
        inner.set("with_", None)
        outer.set("with_", definitions)
    return outer


def _check_order(order: exp.Expr | None, names: list[str], *, star: bool) -> None:
    for item in order.expressions if order is not None else []:
        plain = isinstance(item.this, exp.Literal) or (isinstance(item.this, exp.Column) and not item.this.table)
        if not plain or (not star and isinstance(item.this, exp.Column) and item.this.name not in names):
            raise NotPortable("QUALIFY with ORDER BY something that is not a column of the result")


def _check_supported(tree: exp.Expr, _: Mapping[str, TableKinds]) -> exp.Expr:
    """Reject syntax that Spark lacks."""
    for node in tree.walk():
        reason = next((reason for of, test, reason in _UNSUPPORTED_CLAUSES if isinstance(node, of) and test(node)), "")
        if reason:
            raise NotPortable(reason)
    return tree


def _is_star_over_using(node: exp.Expr) -> bool:
    stars = any(item.is_star for item in node.expressions)
    joins = node.args.get("joins") or []
    return stars and any(join.args.get("using") or join.args.get("method") == "NATURAL" for join in joins)


def _changes_star(node: exp.Expr) -> bool:
    return bool(node.args.get("replace") or node.args.get("rename"))


_UNSUPPORTED_CLAUSES: tuple[tuple[type | tuple[type, ...], Callable[[exp.Expr], bool], str], ...] = (
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


def _check_whole_rows(tree: exp.Expr, _: Mapping[str, TableKinds]) -> exp.Expr:
    """Reject a table's name as a value, which refers to its whole row."""
    tables = {node.alias_or_name.lower() for node in tree.find_all(exp.Table, exp.Subquery)}
    for column in tree.find_all(exp.Column):
        if not column.table and column.name.lower() in tables and not kind(column):
            raise NotPortable(f"{column.name}, which may be a whole row")
    return tree


def _remove_hints(tree: exp.Expr, _: Mapping[str, TableKinds]) -> exp.Expr:
    for node in tree.find_all(exp.CTE):
        node.set("materialized", None)
    return tree


def _check_values(tree: exp.Expr, _: Mapping[str, TableKinds]) -> exp.Expr:
    """Require names for columns of VALUES: their default names differ."""
    for node in tree.find_all(exp.Values):
        holder = node if node.args.get("alias") else node.parent
        alias = holder.args.get("alias") if holder is not None else None
        if not (isinstance(alias, exp.TableAlias) and alias.columns):
            raise NotPortable("VALUES without names for the columns")
    return tree


def _rewrite_series(tree: exp.Expr, _: Mapping[str, TableKinds]) -> exp.Expr:
    """Translate `range` and `generate_series` of integers. Spark has the first."""
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


def _rewrite_unnest(tree: exp.Expr, _: Mapping[str, TableKinds]) -> exp.Expr:
    """Translate UNNEST: a named list in FROM becomes a LATERAL VIEW, one in SELECT becomes explode."""
    for node in list(tree.find_all(exp.Unnest)):
        alias = node.args.get("alias")
        join = node.parent if isinstance(node.parent, exp.Join) else None
        plain = join is not None and not join.args.get("side") and _is_always_true(join.args.get("on"))
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


def _is_always_true(condition: exp.Expr | None) -> bool:
    return condition is None or (isinstance(condition, exp.Boolean) and bool(condition.this))


def _check_explode(node: exp.Expr) -> None:
    place = node.parent if isinstance(node.parent, exp.Alias) else node
    select = place.parent
    alone = isinstance(select, exp.Select) and len(list(select.find_all(exp.Explode))) == 1
    if not alone or node.expressions or not kind(node.this).startswith("list<"):
        raise NotPortable("unnest that is not alone in SELECT, or of a value of an unknown type")


def _expand_aliases(tree: exp.Expr, columns: Mapping[str, TableKinds]) -> exp.Expr:
    """Replace aliases that a SELECT uses in its own WHERE by their expressions, as Spark requires."""
    for select in list(tree.find_all(exp.Select)):
        given = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
        where = select.args.get("where")
        for column in list(where.find_all(exp.Column)) if where is not None and given else []:
            name = column.name.lower()
            if column.table or name not in given or _is_column(given[name], name):
                continue
            if column.find_ancestor(exp.Select) is not select or not _is_free(select, name, columns):
                raise NotPortable(f"{column.name}, which may be a column or a name that the query gives")
            column.replace(exp.Paren(this=given[name].copy()))
    return tree


def _is_column(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == name


def _is_free(select: exp.Select, name: str, columns: Mapping[str, TableKinds]) -> bool:
    """Return whether no source has a column of that name for certain."""
    sources = [select.args["from_"].this] if select.args.get("from_") else []
    sources += [join.this for join in select.args.get("joins") or []]
    return all(SCAN in source.meta and name not in columns.get(source.name, {name: ""}) for source in sources)


CLAUSES: tuple[Callable[[exp.Expr, Mapping[str, TableKinds]], exp.Expr], ...] = (
    _check_supported,
    _check_whole_rows,
    _remove_hints,
    _check_values,
    _rewrite_series,
    _rewrite_unnest,
    _expand_aliases,
    lambda tree, _: rewrite_qualify(tree),
)


ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.Neg)
BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot)
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In)
OPERATORS = (*ARITHMETIC, *BITS, *COMPARISONS, exp.Between, exp.Not)
DISTINCT = {"count", "sum", "avg", "mean", "min", "max"}
UNSUPPORTED_NODES: dict[type[exp.Expr], str] = {
    exp.Pivot: "PIVOT",
    exp.Summarize: "SUMMARIZE of a query",
    exp.TableSample: "a sample",
    exp.Columns: "COLUMNS",
    exp.SimilarTo: "SIMILAR TO",
    exp.Any: "ANY",
    exp.All: "ALL of a subquery",
    exp.Slice: "a slice of a list",
    exp.JSONExtract: "JSON",
    exp.JSONExtractScalar: "JSON",
    exp.BitwiseLeftShift: "a shift of bits",
    exp.BitwiseRightShift: "a shift of bits",
    exp.Map: "MAP of lists",
}


def to_spark(tree: exp.Expr, columns: Mapping[str, TableKinds]) -> exp.Expr:
    """Translate the tree in place for Spark. Raises `NotPortable` if the result would differ."""
    annotate(tree, columns)
    for clause in CLAUSES:
        tree = clause(tree, columns)
    annotate(tree, columns)
    for node in reversed(list(tree.walk())):
        new = _rewrite_node(node)
        if new is node:
            continue
        new.meta[KIND] = kind(node)
        if node is tree:
            tree = new
        else:
            node.replace(new)
    _parenthesise(tree)
    return tree


def _parenthesise(tree: exp.Expr) -> None:
    """Add parentheses where Spark's operator precedence differs from DuckDB's. A chain of one operator is unchanged."""
    for node in list(tree.find_all(*OPERATORS)):
        for place in ("this", "expression"):
            operand = node.args.get(place)
            if isinstance(operand, OPERATORS) and not (type(operand) is type(node) and place == "this"):
                operand.replace(exp.Paren(this=operand.copy()))


def _rewrite_node(node: exp.Expr) -> exp.Expr:
    if type(node) in UNSUPPORTED_NODES:
        raise NotPortable(UNSUPPORTED_NODES[type(node)])
    if isinstance(node, exp.Anonymous) and isinstance(node.parent, exp.Table | exp.Lateral):
        return node  # FROM range(…), which is a clause
    if isinstance(node, exp.Identifier) and "${" in node.name:
        raise NotPortable("a name with ${")  # Spark would substitute a variable there
    if isinstance(node, exp.Anonymous) or type(node) in FUNCTIONS:
        return _rewrite_function(node)
    rule = RULES.get(type(node))
    return rule(node) if rule else node


def _rewrite_function(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Explode | exp.StrPosition | exp.CurrentDate | exp.CurrentTimestamp):
        return node
    name = name_of(node)
    if isinstance(node, exp.Min | exp.Max) and node.args.get("count"):
        raise NotPortable(f"{name} of several values")
    if isinstance(node, exp.DateBin | exp.TimestampTrunc | exp.DateTrunc | exp.Extract):
        return rebuild_call(name, _time_arguments(node))
    if isinstance(node, exp.Trim):
        side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
        return rebuild_call(side, [part for part in (node.this, node.args.get("expression")) if part])
    first = node.expressions[0] if isinstance(node, exp.Anonymous) and node.expressions else node.this
    if isinstance(first, exp.IgnoreNulls | exp.RespectNulls):
        return type(first)(
            this=rebuild_call(name, [first.this.copy(), *(item.copy() for item in node.expressions[1:])])
        )
    if not isinstance(first, exp.Distinct):
        return rebuild_call(name, [argument.copy() for argument in arguments_of(node)])
    if name not in DISTINCT or len(first.expressions) != 1:
        raise NotPortable(f"{name} with DISTINCT")
    return rebuild_call(name, [first.copy()])


def _time_arguments(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.DateBin):
        return arguments_of(node)
    if isinstance(node, exp.Extract):
        return [node.this, node.expression]
    return [node.args["unit"], node.this]
