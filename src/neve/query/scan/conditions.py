"""The conditions of a statement that are about one item of FROM, from its own SELECT and from those around it.

A condition counts for an item where leaving out the item's rows that fail it changes no result. Where a join fills in
nulls for rows that are missing, the condition must also fail for nulls: it is `strict` then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.scan.definitions import SCAN, Definitions
from neve.query.scan.selects import Item, Place, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TABLE_PARTS = frozenset({"this", "db", "alias"})
SUBQUERY_PARTS = frozenset({"this", "alias"})


@dataclass(frozen=True)
class Condition:
    """A condition, what its columns mean, and whether it only counts where it fails for nulls."""

    node: exp.Expr
    place: Callable[[exp.Column], Place | None]
    strict: bool


class Conditions:
    """All conditions of a statement; `columns` are those of the tables of the lake, in lower case."""

    def __init__(self, tree: exp.Expr, columns: Mapping[str, frozenset[str]]) -> None:
        self._columns = columns
        self._definitions = Definitions(tree)
        self._readings: dict[int, Reading] = {}

    def about(self, node: exp.Expr) -> tuple[Item, list[Condition]] | None:
        """An item of FROM and the conditions that count for it; `None` where it is no item of a SELECT."""
        holder = node.parent
        select = holder.parent if isinstance(holder, exp.From | exp.Join) else None
        if not isinstance(select, exp.Select) or node.arg_key != "this":
            return None
        reading = self._reading(select)
        item = next((item for item in reading.items if item.node is node), None)
        if item is None or item.columns is None:
            return None
        return item, list(self._for(reading, item)) if reading.is_clear and item.method != "ASOF" else []

    def _for(self, reading: Reading, item: Item) -> Iterator[Condition]:
        strict = reading.has_outer_joins
        for joined in reading.items:
            on = joined.join.args.get("on") if joined.join else None
            seen = reading.seen_by(joined)
            if on is not None and item in seen and _counts(joined, item):
                yield Condition(on, _resolver(reading, seen), strict)
        if item.is_hidden:
            return
        where = reading.select.args.get("where")
        if where is not None:
            yield Condition(where.this, reading.resolve, strict)
        yield from self._from_around(reading)

    def _from_around(self, reading: Reading) -> Iterator[Condition]:
        """Conditions on the result of a SELECT that are as good on what it reads."""
        use = self._use(reading.select)
        found = self.about(use) if use is not None else None
        if found is None:
            return
        item, conditions = found
        for outer in conditions:
            yield Condition(outer.node, _follow(outer, item, reading), outer.strict or reading.has_outer_joins)

    def _use(self, select: exp.Select) -> exp.Expr | None:
        """The one item of FROM that a SELECT is the result of."""
        parent = select.parent
        if isinstance(parent, exp.CTE):
            return self._definitions.only_use(parent)
        return parent if isinstance(parent, exp.Subquery) and _is_bare(parent, SUBQUERY_PARTS) else None

    def _reading(self, select: exp.Select) -> Reading:
        if id(select) not in self._readings:
            self._readings[id(select)] = Reading(select, self._names)
        return self._readings[id(select)]

    def _names(self, node: exp.Expr) -> frozenset[str] | None:
        """The columns of an item of FROM, if they are known."""
        body: exp.Expr | None = None
        if isinstance(node, exp.Table) and _is_bare(node, TABLE_PARTS):
            if SCAN in node.meta:
                return self._columns.get(node.name)
            body = self._definitions.body(node)
        elif isinstance(node, exp.Subquery) and _is_bare(node, SUBQUERY_PARTS):
            body = node.this
        return self._reading(body).names if isinstance(body, exp.Select) else None


def _is_bare(node: exp.Expr, parts: frozenset[str]) -> bool:
    """Whether nothing is done to an item of FROM but giving it a name."""
    alias = node.args.get("alias")
    return {key for key, value in node.args.items() if value} <= parts and not (alias and alias.columns)


def _counts(joined: Item, item: Item) -> bool:
    """Whether the ON of a join may leave out rows of an item: those that it has to match, not those that it keeps."""
    if joined.method == "ASOF":
        return False
    if joined.kind == "ANTI" or joined.side == "LEFT":
        return item is joined
    if joined.side == "RIGHT":
        return item is not joined
    return joined.side != "FULL"


def _resolver(reading: Reading, seen: tuple[Item, ...]) -> Callable[[exp.Column], Place | None]:
    return lambda column: reading.resolve(column, seen)


def _follow(outer: Condition, item: Item, reading: Reading) -> Callable[[exp.Column], Place | None]:
    """What a column of a condition around a SELECT is in it."""

    def place(column: exp.Column) -> Place | None:
        found = outer.place(column)
        return reading.passed.get(found[1]) if found is not None and found[0] is item else None

    return place
