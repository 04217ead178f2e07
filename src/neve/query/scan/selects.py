"""One SELECT: what it reads, what names mean in it, and which of its columns are plain columns of what it reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.identifiers import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Columns = Callable[[exp.Expr], frozenset[str] | None]

READ_PARTS = frozenset({"with_", "from_", "joins", "laterals", "where", "group", "having"})
RESULT_PARTS = frozenset({"expressions", "distinct", "qualify", "windows", "order", "limit", "offset"})
KNOWN_JOIN_PARTS = frozenset({"this", "on", "using", "method", "side", "kind"})
CUTTING = ("limit", "offset", "qualify", "windows")
HIDING = ("SEMI", "ANTI")


@dataclass(frozen=True, eq=False)
class Item:
    """One item of FROM: how it is called, its columns (`None`: not known), and how it was joined to those before."""

    node: exp.Expr
    name: str
    columns: frozenset[str] | None
    join: exp.Join | None = None

    @property
    def method(self) -> str:
        """NATURAL, ASOF or nothing."""
        return str(self.join.args.get("method") or "").upper() if self.join else ""

    @property
    def side(self) -> str:
        """LEFT, RIGHT, FULL or nothing."""
        return str(self.join.args.get("side") or "").upper() if self.join else ""

    @property
    def kind(self) -> str:
        """INNER, OUTER, CROSS, SEMI, ANTI or nothing."""
        return str(self.join.args.get("kind") or "").upper() if self.join else ""

    @property
    def is_hidden(self) -> bool:
        """Whether only its own ON sees its columns."""
        return self.kind in HIDING

    @property
    def is_known(self) -> bool:
        """Whether the join is one whose meaning is clear here."""
        parts = {key for key, value in self.join.args.items() if value} if self.join else set()
        return (
            parts <= KNOWN_JOIN_PARTS
            and self.method in {"", "NATURAL", "ASOF"}
            and self.side in {"", "LEFT", "RIGHT", "FULL"}
            and self.kind in {"", "INNER", "OUTER", "CROSS", *HIDING}
        )


Place = tuple[Item, str]


class Reading:
    """A SELECT, looked at; `columns` says which columns an item of FROM has."""

    def __init__(self, select: exp.Select, columns: Columns) -> None:
        self.select = select
        self.items = tuple(_items(select, columns))

    @cached_property
    def is_clear(self) -> bool:
        """Whether conditions mean here what they say; a sample, say, is taken before WHERE."""
        parts = {key for key, value in self.select.args.items() if value}
        return parts <= READ_PARTS | RESULT_PARTS and all(item.is_known for item in self.items)

    @cached_property
    def has_outer_joins(self) -> bool:
        """Whether a row that is missing may turn up as nulls."""
        return any(item.side for item in self.items)

    @cached_property
    def shown(self) -> tuple[Item, ...]:
        """The items that WHERE and the list of columns see."""
        return tuple(item for item in self.items if not item.is_hidden)

    def seen_by(self, item: Item) -> tuple[Item, ...]:
        """The items that the ON of a join sees."""
        place = self.items.index(item)
        return (*(other for other in self.items[:place] if not other.is_hidden), item)

    def resolve(self, column: exp.Column, seen: Sequence[Item] | None = None) -> Place | None:
        """What a column means; `None` where that is not certain, or where it belongs to a query around this one."""
        items = self.shown if seen is None else seen
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
    def outputs(self) -> dict[str, Place | None]:
        """The columns of the result by name, each with the plain column that it is, if it is one."""
        found: dict[str, Place | None] = {}
        for projection in self.select.expressions:
            for name, place in self._projected(projection):
                found[name] = None if name in found else place
        return found

    def _projected(self, node: exp.Expr) -> Iterator[tuple[str, Place | None]]:
        star = _star(node)
        if star is not None:
            owner = fold(node.table) if isinstance(node, exp.Column) else ""
            yield from self._starred(star, owner)
            return
        column = node.unalias()
        if isinstance(column, exp.Column):
            yield fold(node.alias_or_name), self.resolve(column)
        elif node.output_name:
            yield fold(node.output_name), None

    def _starred(self, star: exp.Star, owner: str) -> Iterator[tuple[str, Place | None]]:
        left_out = {fold(column.name) for column in star.args.get("except_") or ()}
        changed = {fold(part.alias_or_name) for key in ("replace", "rename") for part in star.args.get(key) or ()}
        for item in self.shown:
            for name in item.columns or ():
                if name not in left_out and owner in {"", item.name}:
                    yield name, None if changed else (item, name)

    @cached_property
    def names(self) -> frozenset[str] | None:
        """The names of the result's columns, if they are known."""
        return None if any(map(self._is_open, self.select.expressions)) else frozenset(self.outputs)

    def _is_open(self, node: exp.Expr) -> bool:
        """Whether a projection gives columns whose names are not known."""
        star = _star(node)
        if star is None:
            return isinstance(node.unalias(), exp.Columns)
        return bool(star.args.get("rename")) or any(item.columns is None for item in self.shown)

    @cached_property
    def passed(self) -> dict[str, Place]:
        """Columns of the result that may be asked for before the rest of the query happens instead of after it."""
        if not self.is_clear or any(self.select.args.get(part) for part in CUTTING) or self.names is None:
            return {}
        distinct = self.select.args.get("distinct")
        has_windows = any(node.find(exp.Window) for node in self.select.expressions)
        if has_windows or (distinct is not None and distinct.args.get("on")):
            return {}
        plain = {name: place for name, place in self.outputs.items() if place is not None}
        return plain if self.select.args.get("group") is None else self._keys(plain)

    def _keys(self, plain: dict[str, Place]) -> dict[str, Place]:
        """Those that rows are grouped by."""
        group = self.select.args["group"]
        if {key for key, value in group.args.items() if value} - {"expressions", "all"}:
            return {}
        if group.args.get("all"):
            return plain
        keys = {place for place in map(self._key, group.expressions) if place is not None}
        return {name: place for name, place in plain.items() if place in keys}

    def _key(self, node: exp.Expr) -> Place | None:
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.name) - 1
            node = self.select.expressions[place] if 0 <= place < len(self.select.expressions) else node
            node = node.unalias()
        if not isinstance(node, exp.Column):
            return None
        return self.resolve(node) or (None if node.table else self.outputs.get(fold(node.name)))


def _star(node: exp.Expr) -> exp.Star | None:
    """The star of `*` and of `t.*`."""
    star = node.this if isinstance(node, exp.Column) else node
    return star if isinstance(star, exp.Star) else None


def _items(select: exp.Select, columns: Columns) -> Iterator[Item]:
    start = select.args.get("from_")
    if start is not None:
        yield Item(start.this, fold(start.this.alias_or_name), columns(start.this))
    for join in select.args.get("joins") or ():
        yield Item(join.this, fold(join.this.alias_or_name), columns(join.this), join)
    for lateral in select.args.get("laterals") or ():
        yield Item(lateral, fold(lateral.alias_or_name), None)
