"""The column side of a condition: which column of the table it is, and what is done to it before it is compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.types import MapType
from sqlglot import exp

from neve.autopilot.parse.reading import name_parts, own
from neve.autopilot.parse.statement import Unreadable
from neve.autopilot.parse.tables import key_of
from neve.autopilot.parse.term import Term, inside_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.autopilot.parse.scopes import Path
    from neve.autopilot.parse.tables import Tables

MOST_LOOKS = 50_000
MOST_STEPS = 64  # names that stand for names
LISTED = {"element_at", "map_extract"}  # DuckDB gives a list of one


class Budget:
    """How often one statement may be looked at: a few hundred joins of everything with everything are too many."""

    def __init__(self, most: int = MOST_LOOKS) -> None:
        self._left = most

    def spend(self) -> None:
        """Look once more; raises `Unreadable`."""
        self._left -= 1
        if self._left < 0:
            raise Unreadable("it takes too long to follow")


@dataclass(frozen=True)
class Terms:
    """Finds columns of the table at the end of a path."""

    path: Path
    tables: Tables
    dialect: str
    budget: Budget

    def term(self, node: exp.Expr, at: int) -> Term | None:
        """What a node of the SELECT at a place on the path is; `None` where it is no column of the table alone."""
        return self._term(node, at, MOST_STEPS)

    def mentioned(self, node: exp.Expr, at: int) -> Iterator[Term]:
        """The columns of the table in a node, queries in it left out."""
        skipped: set[int] = set()
        for one in own(node):
            if id(one) in skipped or not isinstance(one, exp.Column | exp.Dot | exp.Bracket):
                continue
            found = self.term(one, at)
            if found is not None:
                skipped |= {id(part) for part in own(one)}
                yield found

    def is_shared(self, node: exp.Expr, at: int) -> bool:
        """Whether a node has a query in it, or columns of other items."""
        return any(
            isinstance(one, exp.Query) or (isinstance(one, exp.Column) and self._is_foreign(one, at))
            for one in own(node)
        )

    def _is_foreign(self, column: exp.Column, at: int) -> bool:
        """Whether it is another item's, or that of a query around this one."""
        parts, reading = name_parts(column), self.path[at].reading
        found = reading.resolve(parts) if parts else None
        if found is None:
            return bool(parts) and column.name.lower() not in reading.computed
        return found[0] is not self.path[at].item

    def _term(self, node: exp.Expr, at: int, steps: int) -> Term | None:
        self.budget.spend()
        if steps <= 0:
            return None
        node = node.unnest()
        parts = name_parts(node)
        if parts is not None:
            return self._named(parts, at, steps - 1)
        if isinstance(node, exp.Bracket):
            return self._key(node, at, steps - 1)
        inner = self._term(inside, at, steps - 1) if (inside := inside_of(node)) is not None else None
        return wrapped(inner, node) if inner is not None else None

    def _named(self, parts: tuple[str, ...], at: int, steps: int) -> Term | None:
        frame = self.path[at]
        found = frame.reading.resolve(parts)
        if found is None:
            alias = frame.reading.computed.get(parts[0].lower()) if len(parts) == 1 else None
            return self._term(alias, at, steps) if alias is not None else None
        item, rest = found
        if item is not frame.item:
            return None
        if at + 1 == len(self.path):
            return self._column(rest)
        return self._deeper(rest, at, steps)

    def _column(self, parts: tuple[str, ...]) -> Term:
        """A column of the table, a field in it, or, as Spark lets it be written, a key of a map."""
        table = self.path[-1].item.table
        spelled, kind = self.tables.path(table, parts)
        before, of = self.tables.path(table, parts[:-1]) if len(parts) > 1 else (spelled, None)
        if not isinstance(of, MapType):
            return Term(".".join(spelled), kind)
        if self.dialect == "spark":
            return Term(key_of(".".join(before), parts[-1]), of.value_type, is_key=True)
        return Term(".".join(before), of, is_opaque=True)

    def _deeper(self, rest: tuple[str, ...], at: int, steps: int) -> Term | None:
        """A column of something derived: what stands behind it, in the SELECT below."""
        item, below = self.path[at].item, self.path[at + 1].reading
        names = [name.lower() for name in item.renamed]
        body = item.body
        if rest[0].lower() in names:
            place: int | None = names.index(rest[0].lower())
        elif body is not None and len(body.branches) > 1 and body.branches[0] is not below.select:
            place = _place(body.branches[0], rest[0])
        else:
            place = None
        node = below.output(rest[0], place)
        found = self._term(node, at + 1, steps) if node is not None else None
        if found is None:
            return None
        if below.is_closed or not below.passes(node if node is not None else exp.Null()):
            found = replace(found, is_opaque=True)
        if len(rest) == 1:
            return found
        if found.function or found.is_opaque or found.is_key:
            return replace(found, is_opaque=True)
        return self._column((*found.column.split("."), *rest[1:]))

    def _key(self, node: exp.Bracket, at: int, steps: int) -> Term | None:
        """A key of a map: `attributes['k']`, `element_at(attributes, 'k')`."""
        of, keys = node.this, node.expressions
        if isinstance(of, exp.Anonymous) and of.name.lower() in LISTED and len(of.expressions) == 2:
            of, keys = of.expressions[0], of.expressions[1:]
        inner = self._term(of, at, steps)
        if inner is None or len(keys) != 1:
            return None
        plain = not inner.function and not inner.is_opaque and not inner.is_key
        if plain and keys[0].is_string and (inner.type is None or isinstance(inner.type, MapType)):
            kind = inner.type.value_type if isinstance(inner.type, MapType) else None
            return Term(key_of(inner.column, keys[0].name), kind, is_key=True)
        return replace(inner, is_opaque=True, function=inner.function or "element_at")


def _place(select: exp.Select, name: str) -> int | None:
    names = [one.alias_or_name.lower() for one in select.expressions]
    return names.index(name.lower()) if name.lower() in names and "*" not in names else None
