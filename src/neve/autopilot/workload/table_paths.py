"""Paths from a statement to each table that it reads, through WITH, subqueries, views and branches of a UNION."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.autopilot.workload.sql_statement import DerivedBody, FromItem, SelectScope, UnreadableSql, parse_queries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neve.autopilot.workload.tables import SearchPath, Tables, View

MAX_FRAMES = 5_000  # a chain of WITH can name each part twice, and then has exponentially many paths
MAX_VIEWS = 16  # views within views


@dataclass(frozen=True)
class PathFrame:
    """A step of a path: a SELECT, and the item of it that the path goes through."""

    reading: SelectScope
    item: FromItem


TablePath = tuple[PathFrame, ...]


class TablePathFinder:
    """Finder of the paths of one statement.

    Raises `UnreadableSql` if there are too many.
    """

    def __init__(self, tables: Tables, home: SearchPath) -> None:
        self._tables = tables
        self._home = home
        self._frames = 0
        self.left_out: set[str] = set()

    def paths(self, query: exp.Expr) -> Iterator[TablePath]:
        """Yield all paths to tables of the lake."""
        body = self._body(query, {})
        for branch in body.branches:
            yield from self._walk(branch, body, (), frozenset())

    def _walk(
        self, select: exp.Select, body: DerivedBody, way: TablePath, outer: frozenset[str]
    ) -> Iterator[TablePath]:
        definitions = self._definitions(select, body.definitions)
        reading = SelectScope(select, tuple(self._items(select, definitions)), body.is_barred, outer)
        self._frames += 1
        if self._frames > MAX_FRAMES:
            raise UnreadableSql(f"it reads tables in more than {MAX_FRAMES:,} ways")
        for item in reading.items:
            here = (*way, PathFrame(reading, item))
            if item.table:
                yield here
            elif item.body is not None:
                for branch in item.body.branches:
                    yield from self._walk(branch, item.body, here, outer)
        seen = outer | {item.alias.lower() for item in reading.items}
        for query in _inner_queries(select):
            inner = self._body(query, definitions)
            for branch in inner.branches:
                yield from self._walk(branch, inner, (), seen)

    def _items(self, select: exp.Select, definitions: Mapping[str, DerivedBody]) -> Iterator[FromItem]:
        start = select.args.get("from_")
        if start is not None:
            yield from self._item(start.this, None, definitions)
        for join in select.args.get("joins") or []:
            yield from self._item(join.this, join, definitions)
        for lateral in select.args.get("laterals") or []:
            yield FromItem(lateral.alias_or_name, columns=frozenset(_identifiers(lateral.args.get("alias"))))

    def _item(
        self, node: exp.Expr, join: exp.Join | None, definitions: Mapping[str, DerivedBody]
    ) -> Iterator[FromItem]:
        alias = node.args.get("alias")
        renamed = tuple(one.name for one in alias.columns) if isinstance(alias, exp.TableAlias) else ()
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier | exp.Dot):
            yield self._table(node, renamed, join, definitions)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery):
            for item in self._item(node.this, join, definitions):  # brackets around a join
                yield replace(item, is_bracketed=True)
        elif isinstance(node, exp.Final):  # ClickHouse
            yield from self._item(node.this, join, definitions)
        elif isinstance(node, exp.Subquery) or (isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery)):
            body = self._body(node if isinstance(node, exp.Subquery) else node.this, definitions)
            yield FromItem(node.alias, body=body, columns=self._names(body, renamed), renamed=renamed, join=join)
        else:
            yield FromItem(node.alias_or_name, columns=frozenset(one.lower() for one in renamed) or None, join=join)
        for inner in node.args.get("joins") or []:
            yield from self._item(inner.this, inner, definitions)

    def _table(
        self, node: exp.Table, renamed: tuple[str, ...], join: exp.Join | None, definitions: Mapping[str, DerivedBody]
    ) -> FromItem:
        written = tuple(part.name for part in node.parts)
        defined = definitions.get(written[0].lower()) if len(written) == 1 else None
        if defined is not None:
            names = renamed or defined.renamed
            return FromItem(node.alias_or_name, written, "", defined, self._names(defined, names), names, join)
        table = self._tables.resolve(written, self._home)
        view = self._tables.view(table) if table else None
        if view is not None:
            body = self._view_body(view)
            return FromItem(node.alias_or_name, written, "", body, self._names(body, renamed), renamed, join)
        if table is None:
            self.left_out.add(".".join(written))
        columns = self._tables.columns(table) if table and not renamed else None
        return FromItem(node.alias_or_name, written, table or "", None, columns, (), join)

    def _view_body(self, view: View) -> DerivedBody:
        self._frames += MAX_FRAMES // MAX_VIEWS
        queries = parse_queries(view.text, view.dialect)
        if len(queries) != 1 or self._frames > MAX_FRAMES:
            raise UnreadableSql("can't parse a view")
        return self._body(queries[0], {})

    def _body(self, node: exp.Expr, definitions: Mapping[str, DerivedBody]) -> DerivedBody:
        """Return the SELECTs of a query; no condition may be pushed into a query that has a limit as a whole."""
        known = self._definitions(node, definitions)
        barred = not isinstance(node, exp.Select) and any(node.args.get(key) for key in ("limit", "offset"))
        if isinstance(node, exp.Subquery):
            inner = self._body(node.this, known)
            return DerivedBody(inner.branches, inner.definitions, is_barred=barred or inner.is_barred)
        if isinstance(node, exp.SetOperation):
            return self._union(node, known, barred=barred or bool(node.args.get("by_name")))
        return DerivedBody((node,) if isinstance(node, exp.Select) else (), known)

    def _union(self, node: exp.SetOperation, definitions: Mapping[str, DerivedBody], *, barred: bool) -> DerivedBody:
        branches: list[exp.Select] = []
        waiting: list[exp.Expr] = [node]
        while waiting:
            one = waiting.pop()
            if isinstance(one, exp.SetOperation):
                waiting += [one.expression, one.this]
            elif isinstance(one, exp.Subquery) and not one.args.get("with_"):
                waiting.append(one.this)
                barred = barred or bool(one.args.get("limit"))
            elif isinstance(one, exp.Select):
                branches.append(one)
        return DerivedBody(tuple(branches), definitions, is_barred=barred)

    def _definitions(self, node: exp.Expr, definitions: Mapping[str, DerivedBody]) -> Mapping[str, DerivedBody]:
        clause = node.args.get("with_")
        if clause is None:
            return definitions
        known = dict(definitions)
        for part in clause.expressions:
            name = part.alias.lower()
            if clause.args.get("recursive"):
                known[name] = DerivedBody((), known)  # a recursive reference: its rows are unknown
            body = self._body(part.this, dict(known))
            columns = tuple(one.name for one in part.args["alias"].columns)
            recursive = bool(clause.args.get("recursive"))
            known[name] = DerivedBody(body.branches, body.definitions, columns, body.is_barred or recursive)
        return known

    def _names(self, body: DerivedBody, renamed: tuple[str, ...]) -> frozenset[str] | None:
        """Return the columns of a derived item, if all of them have names."""
        if renamed:
            return frozenset(one.lower() for one in renamed)
        if not body.branches:
            return None
        first = body.branches[0]
        if any(one.is_star for one in first.expressions):
            return self._star_columns(first, body)
        return frozenset(one.alias_or_name.lower() for one in first.expressions)

    def _star_columns(self, select: exp.Select, body: DerivedBody) -> frozenset[str] | None:
        """Return the columns of `*`, if the columns of all items are known."""
        definitions = self._definitions(select, body.definitions)
        self._frames += 1
        names = {one.alias_or_name.lower() for one in select.expressions if not one.is_star}
        for item in self._items(select, definitions):
            if item.columns is None or self._frames > MAX_FRAMES:
                return None
            names |= item.columns
        return frozenset(names)


def _inner_queries(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the subqueries in the expressions of a SELECT, except those in its FROM or WITH."""
    for key, value in select.args.items():
        if key in {"from_", "with_"}:
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, exp.Join):
                yield from _find_queries(node.args.get("on"))
            elif key != "laterals":
                yield from _find_queries(node)


def _identifiers(node: exp.Expr | None) -> Iterator[str]:
    if node is not None:
        yield from (one.name.lower() for one in node.find_all(exp.Identifier))


def _find_queries(node: object) -> Iterator[exp.Expr]:
    if not isinstance(node, exp.Expr):
        return
    for one in node.walk(prune=lambda part: isinstance(part, exp.Query)):
        if isinstance(one, exp.Query) and not isinstance(one, exp.Table):
            yield one
