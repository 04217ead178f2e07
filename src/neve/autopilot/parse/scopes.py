"""Every way from a statement's surface down to a table: through WITH, sub-queries, views and branches of a UNION."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.autopilot.parse.reading import Body, Item, Reading
from neve.autopilot.parse.statement import Unreadable, queries_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neve.autopilot.parse.tables import Home, Tables, View

MOST_FRAMES = 5_000  # a chain of WITH can name each part twice, and so have more ways than anyone can walk
MOST_VIEWS = 16  # views within views


@dataclass(frozen=True)
class Frame:
    """A step of the way: a SELECT, and the item of it that the way goes through."""

    reading: Reading
    item: Item


Path = tuple[Frame, ...]


class Scopes:
    """The ways of one statement; raises `Unreadable` where there are too many."""

    def __init__(self, tables: Tables, home: Home) -> None:
        self._tables = tables
        self._home = home
        self._frames = 0
        self.left_out: set[str] = set()

    def paths(self, query: exp.Expr) -> Iterator[Path]:
        """All ways down to tables of the lake."""
        body = self._body(query, {})
        for branch in body.branches:
            yield from self._walk(branch, body, (), frozenset())

    def _walk(self, select: exp.Select, body: Body, way: Path, outer: frozenset[str]) -> Iterator[Path]:
        definitions = self._defined(select, body.definitions)
        reading = Reading(select, tuple(self._items(select, definitions)), body.is_barred, outer)
        self._frames += 1
        if self._frames > MOST_FRAMES:
            raise Unreadable(f"it reads tables in more than {MOST_FRAMES:,} ways")
        for item in reading.items:
            here = (*way, Frame(reading, item))
            if item.table:
                yield here
            elif item.body is not None:
                for branch in item.body.branches:
                    yield from self._walk(branch, item.body, here, outer)
        seen = outer | {item.alias.lower() for item in reading.items}
        for query in _inner(select):
            inner = self._body(query, definitions)
            for branch in inner.branches:
                yield from self._walk(branch, inner, (), seen)

    def _items(self, select: exp.Select, definitions: Mapping[str, Body]) -> Iterator[Item]:
        start = select.args.get("from_")
        if start is not None:
            yield from self._item(start.this, None, definitions)
        for join in select.args.get("joins") or []:
            yield from self._item(join.this, join, definitions)
        for lateral in select.args.get("laterals") or []:
            yield Item(lateral.alias_or_name, columns=frozenset(_identifiers(lateral.args.get("alias"))))

    def _item(self, node: exp.Expr, join: exp.Join | None, definitions: Mapping[str, Body]) -> Iterator[Item]:
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
            yield Item(node.alias, body=body, columns=self._names(body, renamed), renamed=renamed, join=join)
        else:
            yield Item(node.alias_or_name, columns=frozenset(one.lower() for one in renamed) or None, join=join)
        for inner in node.args.get("joins") or []:
            yield from self._item(inner.this, inner, definitions)

    def _table(
        self, node: exp.Table, renamed: tuple[str, ...], join: exp.Join | None, definitions: Mapping[str, Body]
    ) -> Item:
        written = tuple(part.name for part in node.parts)
        defined = definitions.get(written[0].lower()) if len(written) == 1 else None
        if defined is not None:
            names = renamed or defined.renamed
            return Item(node.alias_or_name, written, "", defined, self._names(defined, names), names, join)
        table = self._tables.named(written, self._home)
        view = self._tables.view(table) if table else None
        if view is not None:
            body = self._viewed(view)
            return Item(node.alias_or_name, written, "", body, self._names(body, renamed), renamed, join)
        if table is None:
            self.left_out.add(".".join(written))
        columns = self._tables.columns(table) if table and not renamed else None
        return Item(node.alias_or_name, written, table or "", None, columns, (), join)

    def _viewed(self, view: View) -> Body:
        self._frames += MOST_FRAMES // MOST_VIEWS
        queries = queries_of(view.text, view.dialect)
        if len(queries) != 1 or self._frames > MOST_FRAMES:
            raise Unreadable("a view can't be read")
        return self._body(queries[0], {})

    def _body(self, node: exp.Expr, definitions: Mapping[str, Body]) -> Body:
        """The SELECTs of a query; what is cut or sorted as a whole lets nothing in."""
        known = self._defined(node, definitions)
        barred = not isinstance(node, exp.Select) and any(node.args.get(key) for key in ("limit", "offset"))
        if isinstance(node, exp.Subquery):
            inner = self._body(node.this, known)
            return Body(inner.branches, inner.definitions, is_barred=barred or inner.is_barred)
        if isinstance(node, exp.SetOperation):
            return self._union(node, known, barred=barred or bool(node.args.get("by_name")))
        return Body((node,) if isinstance(node, exp.Select) else (), known)

    def _union(self, node: exp.SetOperation, definitions: Mapping[str, Body], *, barred: bool) -> Body:
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
        return Body(tuple(branches), definitions, is_barred=barred)

    def _defined(self, node: exp.Expr, definitions: Mapping[str, Body]) -> Mapping[str, Body]:
        clause = node.args.get("with_")
        if clause is None:
            return definitions
        known = dict(definitions)
        for part in clause.expressions:
            name = part.alias.lower()
            if clause.args.get("recursive"):
                known[name] = Body((), known)  # itself, within itself: nobody can tell its rows
            body = self._body(part.this, dict(known))
            columns = tuple(one.name for one in part.args["alias"].columns)
            recursive = bool(clause.args.get("recursive"))
            known[name] = Body(body.branches, body.definitions, columns, body.is_barred or recursive)
        return known

    def _names(self, body: Body, renamed: tuple[str, ...]) -> frozenset[str] | None:
        """The columns of something derived, if all of them have names."""
        if renamed:
            return frozenset(one.lower() for one in renamed)
        if not body.branches:
            return None
        first = body.branches[0]
        if any(one.is_star for one in first.expressions):
            return self._passed(first, body)
        return frozenset(one.alias_or_name.lower() for one in first.expressions)

    def _passed(self, select: exp.Select, body: Body) -> frozenset[str] | None:
        """The columns behind `*`, if it is over items whose columns are known."""
        definitions = self._defined(select, body.definitions)
        self._frames += 1
        names = {one.alias_or_name.lower() for one in select.expressions if not one.is_star}
        for item in self._items(select, definitions):
            if item.columns is None or self._frames > MOST_FRAMES:
                return None
            names |= item.columns
        return frozenset(names)


def _inner(select: exp.Select) -> Iterator[exp.Expr]:
    """Queries in the expressions of a SELECT, but for those that are items of its FROM or parts of its WITH."""
    for key, value in select.args.items():
        if key in {"from_", "with_"}:
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, exp.Join):
                yield from _queries(node.args.get("on"))
            elif key != "laterals":
                yield from _queries(node)


def _identifiers(node: exp.Expr | None) -> Iterator[str]:
    if node is not None:
        yield from (one.name.lower() for one in node.find_all(exp.Identifier))


def _queries(node: object) -> Iterator[exp.Expr]:
    if not isinstance(node, exp.Expr):
        return
    for one in node.walk(prune=lambda part: isinstance(part, exp.Query)):
        if isinstance(one, exp.Query) and not isinstance(one, exp.Table):
            yield one
