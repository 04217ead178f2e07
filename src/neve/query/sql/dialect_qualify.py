"""QUALIFY for Spark, which has no such clause."""

from __future__ import annotations

from sqlglot import exp

from neve.query.sql.portable import NotPortable

KEPT = "neve_qualified"


def qualified(tree: exp.Expr) -> exp.Expr:
    """QUALIFY is a condition on a query around the query."""
    for select in list(tree.find_all(exp.Select)):
        qualify = select.args.get("qualify")
        if qualify is None:
            continue
        outer = _around(select, qualify.this)
        if select is tree:
            tree = outer
        else:
            select.replace(outer)
    return tree


def _around(select: exp.Select, condition: exp.Expr) -> exp.Select:
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
    inner.append("expressions", exp.alias_(holder, KEPT, quoted=True))
    _check_order(order, names, star=star)
    shown = (
        [exp.Star(except_=[exp.to_identifier(KEPT, quoted=True)])]
        if star
        else [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
    )
    outer = exp.select(*shown).from_(inner.subquery("neve_inner")).where(exp.column(KEPT, quoted=True))
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
