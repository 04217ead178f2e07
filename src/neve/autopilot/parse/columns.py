"""Which columns of a table a statement reads, joins by and sorts by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.autopilot.parse.reading import name_parts, own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.autopilot.parse.reading import Reading
    from neve.autopilot.parse.terms import Terms

CLAUSES = ("prewhere", "group", "having", "qualify", "order")


@dataclass(frozen=True)
class Columns:
    """Reads the columns of the table at the end of a path."""

    terms: Terms

    def read(self) -> tuple[str, ...]:
        """The columns that are read, keys of maps apart; those that `*` means are among them where they are known."""
        wanted: set[str] | None = None  # names that the SELECT above takes of the one below; `None`: all
        found: dict[str, None] = {}
        for at, frame in enumerate(self.terms.path):
            nodes = list(_wanted(frame.reading, wanted))
            is_last = at + 1 == len(self.terms.path)
            if is_last:
                found |= {term.column: None for node in nodes for term in self.terms.mentioned(node, at)}
                if _takes_all(frame.reading, frame.item.alias, wanted):
                    found |= dict.fromkeys(self._all(wanted))
            else:
                wanted = None if _takes_all(frame.reading, frame.item.alias, None) else self._below(nodes, at)
        return tuple(found)

    def join_keys(self) -> tuple[str, ...]:
        """The columns that are compared with those of other items."""
        found: dict[str, None] = {}
        for at, frame in enumerate(self.terms.path):
            for node in _conditions(frame.reading):
                found |= dict.fromkeys(self._keys(node, at))
            for joined in frame.reading.items:
                for name in joined.join.args.get("using") or [] if joined.join is not None else []:
                    term = self.terms.term(exp.column(name.name, table=frame.item.alias), at)
                    found |= {term.column: None} if term is not None and not term.is_opaque else {}
        return tuple(found)

    def order(self) -> tuple[tuple[str, ...], int | None]:
        """The table's columns that the outermost result is sorted by, and how many rows it has."""
        for at, frame in enumerate(self.terms.path):
            reading = frame.reading
            terms = [self.terms.term(node, at) for node in reading.ordered()]
            columns = tuple(term.column for term in terms if term is not None and not term.length)
            is_cut = not reading.is_aggregated and (columns or len(reading.items) == 1)
            limit = _limit(reading) if is_cut else None
            if columns or limit is not None:
                return columns, limit
        return (), None

    def _below(self, nodes: list[exp.Expr], at: int) -> set[str]:
        frame = self.terms.path[at]
        names = set()
        for node in nodes:
            for one in own(node):
                parts = name_parts(one)
                place = frame.reading.resolve(parts) if parts else None
                if place is not None and place[0] is frame.item:
                    names.add(place[1][0].lower())
        renamed = [name.lower() for name in frame.item.renamed]
        below = self.terms.path[at + 1].reading
        if not renamed or below.has_star:
            return names
        given = [one.alias_or_name.lower() for one in below.select.expressions]
        return {given[place] for place, name in enumerate(renamed[: len(given)]) if name in names}

    def _keys(self, node: exp.Expr, at: int) -> Iterator[str]:
        for part in _conjuncts(node):
            sides = _sides(part)
            terms = [self.terms.term(side, at) for side in sides]
            for term, other in zip(terms, reversed(sides), strict=True):
                if term is not None and self.terms.term(other, at) is None and _is_named(other):
                    yield term.column

    def _all(self, wanted: set[str] | None) -> list[str]:
        schema = self.terms.tables.schema(self.terms.path[-1].item.table)
        names = [one.name for one in schema.fields] if schema is not None else sorted(wanted or ())
        return names if wanted is None else [name for name in names if name.lower() in wanted]


def _wanted(reading: Reading, wanted: set[str] | None) -> Iterator[exp.Expr]:
    """The nodes of a SELECT that matter, if only some of its results are taken."""
    for one in reading.select.expressions:
        if wanted is None or one.alias_or_name.lower() in wanted:
            yield one
    yield from (clause for key in CLAUSES if (clause := reading.select.args.get(key)) is not None)
    yield from _conditions(reading)


def _conditions(reading: Reading) -> Iterator[exp.Expr]:
    for item in reading.items:
        if item.join is not None and item.join.args.get("on") is not None:
            yield item.join.args["on"]
    where = reading.select.args.get("where")
    if where is not None:
        yield where.this


def _takes_all(reading: Reading, alias: str, wanted: set[str] | None) -> bool:
    """Whether `*`, of the item or of all, passes columns on that are wanted."""
    if wanted is not None and not wanted - set(reading.aliases):
        return False
    stars = [one for one in reading.select.expressions if one.is_star]
    return any(not isinstance(one, exp.Column) or one.table.lower() == alias.lower() for one in stars)


def _limit(reading: Reading) -> int | None:
    limit = reading.select.args.get("limit")
    if limit is None or limit.expressions:  # LIMIT 1 BY customer, as ClickHouse has it, cuts nothing
        return None
    count = limit.args.get("count") or limit.args.get("expression")
    return int(count.name) if isinstance(count, exp.Literal) and count.name.isdigit() else None


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    inner = node.unnest()
    if isinstance(inner, exp.And):
        for part in inner.flatten():
            yield from _conjuncts(part)
    else:
        yield inner


def _sides(node: exp.Expr) -> list[exp.Expr]:
    """What is compared: two columns, or a column and the only result of a query."""
    if isinstance(node, exp.EQ | exp.NullSafeEQ):
        return [node.this, node.expression]
    query = node.args.get("query") if isinstance(node, exp.In) else None
    inner = query.unnest() if query is not None else None
    return [node.this, inner.expressions[0]] if isinstance(inner, exp.Select) and len(inner.expressions) == 1 else []


def _is_named(node: exp.Expr) -> bool:
    return any(isinstance(one, exp.Column) for one in own(node))
