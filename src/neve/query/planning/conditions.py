"""The conditions of a statement that apply to one item of FROM, from its own SELECT and from those around it.

A condition applies to an item where leaving out the item's rows that fail it changes no result. Where a join fills in
nulls for missing rows, the condition must also fail for nulls: it is `strict` then.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.predicate.conditions import may_filter
from neve.predicate.names import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Columns = Callable[[exp.Expr], frozenset[str] | None]

SCAN = "scan"


class WithQueries:
    """The named queries of WITH clauses, with all references to each."""

    def __init__(self, tree: exp.Expr) -> None:
        self._meant: dict[int, exp.CTE] = {}
        self._uses: dict[int, list[exp.Table]] = defaultdict(list)
        named = {definition.alias: definition for definition in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            definition = None if SCAN in table.meta else named.get(table.name)
            if definition is not None:
                self._meant[id(table)] = definition
                self._uses[id(definition)].append(table)

    def body(self, table: exp.Table) -> exp.Expr | None:
        """Return the query of a table in FROM, if the table is a name of a WITH and keeps the query's columns."""
        definition = self._meant.get(id(table))
        return None if definition is None or _renames_columns(definition) else definition.this

    def only_use(self, definition: exp.CTE) -> exp.Table | None:
        """Return the only reference to a query, or `None` if there are several or it is recursive."""
        uses = self._uses[id(definition)]
        if len(uses) != 1 or _renames_columns(definition) or _is_within(uses[0], definition):
            return None
        return uses[0]


def _renames_columns(definition: exp.CTE) -> bool:
    return bool(definition.args["alias"].columns)


def _is_within(node: exp.Expr, other: exp.Expr) -> bool:
    while node.parent is not None and node is not other:
        node = node.parent
    return node is other


READ_PARTS = frozenset({"with_", "from_", "joins", "laterals", "where", "group", "having"})
RESULT_PARTS = frozenset({"expressions", "distinct", "qualify", "windows", "order", "limit", "offset"})
KNOWN_JOIN_PARTS = frozenset({"this", "on", "using", "method", "side", "kind"})
CUTTING = ("limit", "offset", "qualify", "windows")
HIDING = ("SEMI", "ANTI")


@dataclass(frozen=True, eq=False)
class FromItem:
    """One item of FROM: its name, its columns (`None`: unknown), and its join to the items before."""

    node: exp.Expr
    name: str
    columns: frozenset[str] | None
    join: exp.Join | None = None

    @property
    def method(self) -> str:
        """Return NATURAL, ASOF or nothing."""
        return str(self.join.args.get("method") or "").upper() if self.join else ""

    @property
    def side(self) -> str:
        """Return LEFT, RIGHT, FULL or nothing."""
        return str(self.join.args.get("side") or "").upper() if self.join else ""

    @property
    def kind(self) -> str:
        """Return INNER, OUTER, CROSS, SEMI, ANTI or nothing."""
        return str(self.join.args.get("kind") or "").upper() if self.join else ""

    @property
    def is_hidden(self) -> bool:
        """Return whether its columns are visible in its own ON only."""
        return self.kind in HIDING

    @property
    def is_known(self) -> bool:
        """Return whether the semantics of the join are known here."""
        parts = {key for key, value in self.join.args.items() if value} if self.join else set()
        return (
            parts <= KNOWN_JOIN_PARTS
            and self.method in {"", "NATURAL", "ASOF"}
            and self.side in {"", "LEFT", "RIGHT", "FULL"}
            and self.kind in {"", "INNER", "OUTER", "CROSS", *HIDING}
        )


ColumnSource = tuple[FromItem, str]


class SelectScope:
    """An analyzed SELECT. `columns` returns the columns of an item of FROM."""

    def __init__(self, select: exp.Select, columns: Columns) -> None:
        self.select = select
        self.items = tuple(_items(select, columns))

    @cached_property
    def is_clear(self) -> bool:
        """Return whether conditions have their usual meaning here. A sample, for example, is taken before WHERE."""
        parts = {key for key, value in self.select.args.items() if value}
        return parts <= READ_PARTS | RESULT_PARTS and all(item.is_known for item in self.items)

    @cached_property
    def has_outer_joins(self) -> bool:
        """Return whether a missing row may appear as nulls."""
        return any(item.side for item in self.items)

    @cached_property
    def visible_items(self) -> tuple[FromItem, ...]:
        """Return the items that are visible in WHERE and in the list of columns."""
        return tuple(item for item in self.items if not item.is_hidden)

    def seen_by(self, item: FromItem) -> tuple[FromItem, ...]:
        """Return the items that are visible in the ON of a join."""
        place = self.items.index(item)
        return (*(other for other in self.items[:place] if not other.is_hidden), item)

    def resolve(self, column: exp.Column, seen: Sequence[FromItem] | None = None) -> ColumnSource | None:
        """Return the source of a column, or `None` if it is ambiguous or belongs to an outer query."""
        items = self.visible_items if seen is None else seen
        name = fold(column.name)
        if column.args.get("db") or isinstance(column.this, exp.Star):
            return None
        if column.table:
            owners = [item for item in items if item.name == fold(column.table)]
        else:
            owners = [item for item in items if item.columns is None or name in item.columns]
        if len(owners) != 1 or name not in (owners[0].columns or ()):
            return None
        return owners[0], name

    @cached_property
    def outputs(self) -> dict[str, ColumnSource | None]:
        """Return the columns of the result by name, each with its plain source column, if it has one."""
        found: dict[str, ColumnSource | None] = {}
        for projection in self.select.expressions:
            for name, place in self._list_outputs(projection):
                found[name] = None if name in found else place
        return found

    def _list_outputs(self, node: exp.Expr) -> Iterator[tuple[str, ColumnSource | None]]:
        star = _star(node)
        if star is not None:
            owner = fold(node.table) if isinstance(node, exp.Column) else ""
            yield from self._expand_star(star, owner)
            return
        column = node.unalias()
        if isinstance(column, exp.Column):
            yield fold(node.alias_or_name), self.resolve(column)
        elif node.output_name:
            yield fold(node.output_name), None

    def _expand_star(self, star: exp.Star, owner: str) -> Iterator[tuple[str, ColumnSource | None]]:
        left_out = {fold(column.name) for column in star.args.get("except_") or ()}
        changed = {fold(part.alias_or_name) for key in ("replace", "rename") for part in star.args.get(key) or ()}
        for item in self.visible_items:
            for name in item.columns or ():
                if name not in left_out and owner in {"", item.name}:
                    yield name, None if changed else (item, name)

    @cached_property
    def names(self) -> frozenset[str] | None:
        """Return the names of the result's columns, if they are known."""
        return None if any(map(self._is_open, self.select.expressions)) else frozenset(self.outputs)

    def _is_open(self, node: exp.Expr) -> bool:
        """Return whether a projection gives columns with unknown names."""
        star = _star(node)
        if star is None:
            return isinstance(node.unalias(), exp.Columns)
        return bool(star.args.get("rename")) or any(item.columns is None for item in self.visible_items)

    @cached_property
    def filter_columns(self) -> dict[str, ColumnSource]:
        """Return result columns on which a filter gives the same result before the rest of the query as after it."""
        if not self.is_clear or any(self.select.args.get(part) for part in CUTTING) or self.names is None:
            return {}
        distinct = self.select.args.get("distinct")
        has_windows = any(node.find(exp.Window) for node in self.select.expressions)
        if has_windows or (distinct is not None and distinct.args.get("on")):
            return {}
        plain = {name: place for name, place in self.outputs.items() if place is not None}
        return plain if self.select.args.get("group") is None else self._keys(plain)

    def _keys(self, plain: dict[str, ColumnSource]) -> dict[str, ColumnSource]:
        """Return the columns by which rows are grouped."""
        group = self.select.args["group"]
        if {key for key, value in group.args.items() if value} - {"expressions", "all"}:
            return {}
        if group.args.get("all"):
            return plain
        keys = {place for place in map(self._key, group.expressions) if place is not None}
        return {name: place for name, place in plain.items() if place in keys}

    def _key(self, node: exp.Expr) -> ColumnSource | None:
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.name) - 1
            node = self.select.expressions[place] if 0 <= place < len(self.select.expressions) else node
            node = node.unalias()
        if not isinstance(node, exp.Column):
            return None
        return self.resolve(node) or (None if node.table else self.outputs.get(fold(node.name)))


def _star(node: exp.Expr) -> exp.Star | None:
    """Return the star of `*` and of `t.*`."""
    star = node.this if isinstance(node, exp.Column) else node
    return star if isinstance(star, exp.Star) else None


def _items(select: exp.Select, columns: Columns) -> Iterator[FromItem]:
    start = select.args.get("from_")
    if start is not None:
        yield FromItem(start.this, fold(start.this.alias_or_name), columns(start.this))
    for join in select.args.get("joins") or ():
        yield FromItem(join.this, fold(join.this.alias_or_name), columns(join.this), join)
    for lateral in select.args.get("laterals") or ():
        yield FromItem(lateral, fold(lateral.alias_or_name), None)


# A condition applies to an item if removing the item's rows that fail it changes no result. Where a join fills in nulls
# for missing rows, the condition must also fail for nulls: it is `strict` then.

TABLE_PARTS = frozenset({"this", "db", "alias"})
SUBQUERY_PARTS = frozenset({"this", "alias"})


@dataclass(frozen=True)
class Condition:
    """A condition, the meaning of its columns, and whether it only applies if it fails for nulls."""

    node: exp.Expr
    place: Callable[[exp.Column], ColumnSource | None]
    strict: bool


class Conditions:
    """All conditions of a statement. `columns` are the columns of the lake's tables, in lower case."""

    def __init__(self, tree: exp.Expr, columns: Mapping[str, frozenset[str]]) -> None:
        self._columns = columns
        self._definitions = WithQueries(tree)
        self._readings: dict[int, SelectScope] = {}

    def about(self, node: exp.Expr) -> tuple[FromItem, list[Condition]] | None:
        """Return an item of FROM and the conditions that apply to it, or `None` if the node is no item of a SELECT."""
        holder = node.parent
        select = holder.parent if isinstance(holder, exp.From | exp.Join) else None
        if not isinstance(select, exp.Select) or node.arg_key != "this":
            return None
        reading = self._reading(select)
        item = next((item for item in reading.items if item.node is node), None)
        if item is None or item.columns is None:
            return None
        return item, list(self._for(reading, item)) if reading.is_clear and item.method != "ASOF" else []

    def owner(self, column: exp.Column, select: exp.Select) -> exp.Expr | None:
        """Return the item of FROM that has a column, or `None` if it is ambiguous or not an item of this SELECT."""
        found = self._reading(select).resolve(column)
        return found[0].node if found is not None else None

    def _for(self, reading: SelectScope, item: FromItem) -> Iterator[Condition]:
        strict = reading.has_outer_joins
        for joined in reading.items:
            if joined.join is None:
                continue
            on = joined.join.args.get("on")
            seen = reading.seen_by(joined)
            if on is not None and item in seen and may_filter(joined.join, is_joined=item is joined):
                yield Condition(on, _resolver(reading, seen), strict)
        if item.is_hidden:
            return
        where = reading.select.args.get("where")
        if where is not None:
            yield Condition(where.this, reading.resolve, strict)
        yield from self._from_around(reading)

    def _from_around(self, reading: SelectScope) -> Iterator[Condition]:
        """Yield the conditions on the result of a SELECT that can be pushed down to its input."""
        use = self._use(reading.select)
        found = self.about(use) if use is not None else None
        if found is None:
            return
        item, conditions = found
        for outer in conditions:
            yield Condition(outer.node, _follow(outer, item, reading), outer.strict or reading.has_outer_joins)

    def _use(self, select: exp.Select) -> exp.Expr | None:
        """Return the only item of FROM that reads the result of a SELECT."""
        parent = select.parent
        if isinstance(parent, exp.CTE):
            return self._definitions.only_use(parent)
        return parent if isinstance(parent, exp.Subquery) and _is_bare(parent, SUBQUERY_PARTS) else None

    def _reading(self, select: exp.Select) -> SelectScope:
        if id(select) not in self._readings:
            self._readings[id(select)] = SelectScope(select, self._names)
        return self._readings[id(select)]

    def _names(self, node: exp.Expr) -> frozenset[str] | None:
        """Return the columns of an item of FROM, if they are known."""
        body: exp.Expr | None = None
        if isinstance(node, exp.Table) and _is_bare(node, TABLE_PARTS):
            if SCAN in node.meta:
                return self._columns.get(node.name)
            body = self._definitions.body(node)
        elif isinstance(node, exp.Subquery) and _is_bare(node, SUBQUERY_PARTS):
            body = node.this
        return self._reading(body).names if isinstance(body, exp.Select) else None


def _is_bare(node: exp.Expr, parts: frozenset[str]) -> bool:
    """Return whether an item of FROM has no modifier except a name."""
    alias = node.args.get("alias")
    return {key for key, value in node.args.items() if value} <= parts and not (alias and alias.columns)


def _resolver(reading: SelectScope, seen: tuple[FromItem, ...]) -> Callable[[exp.Column], ColumnSource | None]:
    return lambda column: reading.resolve(column, seen)


def _follow(outer: Condition, item: FromItem, reading: SelectScope) -> Callable[[exp.Column], ColumnSource | None]:
    """Return the function that maps a column of an outer condition to its source within a SELECT."""

    def place(column: exp.Column) -> ColumnSource | None:
        found = outer.place(column)
        return reading.filter_columns.get(found[1]) if found is not None and found[0] is item else None

    return place
