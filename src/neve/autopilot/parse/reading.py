"""A SELECT as it is read: the items of its FROM, what its names mean, and what stands behind its results."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BARRED = ("limit", "offset", "qualify", "windows", "match", "connect", "pivots", "sample")
GROUPINGS = ("cube", "rollup", "grouping_sets", "totals")


@dataclass(frozen=True, eq=False)
class Body:
    """What a derived item is made of: one SELECT, or those that a UNION takes together."""

    branches: tuple[exp.Select, ...]
    definitions: Mapping[str, Body]
    renamed: tuple[str, ...] = ()  # the columns, where WITH name (a, b) gives them names
    is_barred: bool = False  # nothing from outside may be taken into it


@dataclass(frozen=True, eq=False)
class Item:
    """One item of FROM: a table of the lake, something derived, or something that nobody knows."""

    alias: str
    written: tuple[str, ...] = ()
    table: str = ""
    body: Body | None = None
    columns: frozenset[str] | None = None  # in lower case, where they are known
    renamed: tuple[str, ...] = ()
    join: exp.Join | None = None
    is_bracketed: bool = False  # joined in brackets of its own, before the others


@dataclass(frozen=True, eq=False)
class Reading:
    """A SELECT and its items."""

    select: exp.Select
    items: tuple[Item, ...]
    is_barred: bool = False
    outer: frozenset[str] = frozenset()  # names of items around it, which a query in an expression can see
    _found: dict[tuple[str, ...], tuple[Item, tuple[str, ...]] | None] = field(default_factory=dict, repr=False)

    def resolve(self, parts: Sequence[str]) -> tuple[Item, tuple[str, ...]] | None:
        """The item that a name belongs to, and the rest of the name: a column and the fields in it."""
        key = tuple(part.lower() for part in parts)
        if key not in self._found:
            self._found[key] = self._qualified(key, parts) or self._plain(parts)
        return self._found[key]

    def _qualified(self, key: tuple[str, ...], parts: Sequence[str]) -> tuple[Item, tuple[str, ...]] | None:
        for count in range(1, len(parts)):
            for item in self.items:
                names = (item.alias,) if count == 1 else item.written[-count:]
                if tuple(name.lower() for name in names) == key[:count]:
                    return item, tuple(parts[count:])
        return None

    def _plain(self, parts: Sequence[str]) -> tuple[Item, tuple[str, ...]] | None:
        name = parts[0].lower()
        having = [item for item in self.items if item.columns is not None and name in item.columns]
        if having:
            return having[0], tuple(parts)
        if len(parts) > 1 and name in self.outer:
            return None
        unknown = [item for item in self.items if item.columns is None]
        if len(unknown) == 1 and name not in self.computed:
            return unknown[0], tuple(parts)
        return None

    @cached_property
    def aliases(self) -> dict[str, exp.Expr]:
        """The expressions of the results by their names in lower case; `*` is none."""
        return {one.alias_or_name.lower(): one.unalias() for one in self.select.expressions if not _is_star(one)}

    @cached_property
    def computed(self) -> dict[str, exp.Expr]:
        """Those that are no column of the same name: other clauses may mean them."""
        return {
            name: node
            for name, node in self.aliases.items()
            if not any(isinstance(one, exp.Column) and one.name.lower() == name for one in own(node))
        }

    @cached_property
    def has_star(self) -> bool:
        """Whether columns are passed on without their names."""
        return any(_is_star(one) for one in self.select.expressions)

    def output(self, name: str, position: int | None) -> exp.Expr | None:
        """The expression of a result, by its name or its position."""
        if position is not None:
            given = self.select.expressions
            return given[position].unalias() if position < len(given) and not self.has_star else None
        found = self.aliases.get(name.lower())
        if found is None and self.has_star:
            return exp.column(name)
        return found

    @cached_property
    def is_closed(self) -> bool:
        """Whether conditions from outside would change what it means: it is cut, or its rows see each other."""
        select = self.select
        if self.is_barred or any(select.args.get(key) for key in BARRED):
            return True
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            return True
        group = select.args.get("group")
        if group is not None and any(group.args.get(key) for key in GROUPINGS):
            return True
        return any(_has(one, exp.Window) for one in select.expressions)

    @cached_property
    def is_aggregated(self) -> bool:
        """Whether a row of the result stands for several that are read."""
        select = self.select
        return bool(select.args.get("group")) or any(_has(one, exp.AggFunc) for one in select.expressions)

    def passes(self, node: exp.Expr) -> bool:
        """Whether an expression is as good before the rows are grouped as after it."""
        if not self.is_aggregated:
            return True
        group = self.select.args.get("group")
        keys = [self._ordinal(key) for key in group.expressions] if group is not None else []
        return node in keys or any(key.name and key.name == node.name for key in keys if isinstance(key, exp.Column))

    def ordered(self) -> list[exp.Expr]:
        """What the result is sorted by."""
        order = self.select.args.get("order")
        nodes = [one.this if isinstance(one, exp.Ordered) else one for one in order.expressions] if order else []
        return [self._ordinal(node) for node in nodes]

    def _ordinal(self, node: exp.Expr) -> exp.Expr:
        """`1` means the first result."""
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            return self.output("", int(node.name) - 1) or node
        return node

    def filled_in(self, item: Item, but: exp.Join | None = None) -> bool:
        """Whether a join, other than `but`, may put nulls in the place of the item's rows."""
        if item.is_bracketed:
            return bool(self._outer_joins)
        place = self.place(item)
        for number, join in self._outer_joins:
            side = join.side.upper() if join is not but else ""
            if side == "FULL" and place <= number:
                return True
            if (side == "LEFT" and number == place) or (side == "RIGHT" and place < number):
                return True
        return False

    def place(self, item: Item) -> int:
        """Where an item stands in FROM."""
        return self._places[id(item)]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id(item): place for place, item in enumerate(self.items)}

    @cached_property
    def _outer_joins(self) -> list[tuple[int, exp.Join]]:
        joins = [(place, item.join) for place, item in enumerate(self.items) if item.join is not None]
        return [(place, join) for place, join in joins if join.side]


def name_parts(node: exp.Expr) -> tuple[str, ...] | None:
    """The parts of a name with dots; `None` for anything else."""
    if isinstance(node, exp.Column):
        return None if isinstance(node.this, exp.Star) else tuple(part.name for part in node.parts)
    if isinstance(node, exp.Dot):
        before = name_parts(node.this)
        return (*before, node.name) if before and isinstance(node.expression, exp.Identifier | exp.Var) else None
    return None


def own(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression, without those of queries in it."""
    return node.walk(prune=lambda one: isinstance(one, exp.Query))


def _has(node: exp.Expr, kind: type[exp.Expr]) -> bool:
    return any(isinstance(one, kind) for one in own(node))


def _is_star(node: exp.Expr) -> bool:
    return node.is_star
