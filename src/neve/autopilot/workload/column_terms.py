"""Conditions of a logged query on one table, and its columns in them: through aliases, derived items and keys of maps.

A condition counts if removing the rows of a FROM item that fail it changes no result. Where a join may replace the
item's rows by nulls, the condition must also fail for nulls: then it is strict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.types import MapType
from sqlglot import exp

from neve.autopilot.workload.sql_statement import UnreadableSql, split_name, walk_without_subqueries
from neve.autopilot.workload.tables import format_map_key
from neve.predicate.comparisons import Rules
from neve.predicate.conditions import ConditionReader, may_filter
from neve.predicate.filters import Test, all_of, is_strict
from neve.predicate.terms import Term, find_argument, function_name, wrap_term

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.autopilot.workload.sql_statement import FromItem, SelectScope
    from neve.autopilot.workload.table_paths import TablePath
    from neve.autopilot.workload.tables import Tables
    from neve.predicate.constants import ConstantEvaluator
    from neve.predicate.filters import Filter


MAX_LOOKUPS = 50_000
MAX_ALIAS_STEPS = 64  # aliases of aliases
LIST_FUNCTIONS = {"element_at", "map_extract"}  # DuckDB returns a list of one


class LookupBudget:
    """Limit of lookups in one statement: a few hundred joins of everything with everything are too many."""

    def __init__(self, most: int = MAX_LOOKUPS) -> None:
        self._left = most

    def spend(self) -> None:
        """Count one lookup.

        Raises `UnreadableSql` if the limit is exceeded.
        """
        self._left -= 1
        if self._left < 0:
            raise UnreadableSql("it is too complex to analyze")


@dataclass(frozen=True)
class TermFinder:
    """Finder of columns of the table at the end of a path."""

    path: TablePath
    tables: Tables
    dialect: str
    budget: LookupBudget

    def term(self, node: exp.Expr, at: int) -> Term | None:
        """Return the term of a node in the SELECT at a position on the path.

        Return `None` if it is not a column of the table alone.
        """
        return self._term(node, at, MAX_ALIAS_STEPS)

    def find_terms(self, node: exp.Expr, at: int) -> Iterator[Term]:
        """Yield the columns of the table in a node, without its subqueries."""
        skipped: set[int] = set()
        for one in walk_without_subqueries(node):
            if id(one) in skipped or not isinstance(one, exp.Column | exp.Dot | exp.Bracket):
                continue
            found = self.term(one, at)
            if found is not None:
                skipped |= {id(part) for part in walk_without_subqueries(one)}
                yield found

    def is_shared(self, node: exp.Expr, at: int) -> bool:
        """Return whether a node contains a subquery or columns of other items."""
        return any(
            isinstance(one, exp.Query) or (isinstance(one, exp.Column) and self._is_foreign(one, at))
            for one in walk_without_subqueries(node)
        )

    def _is_foreign(self, column: exp.Column, at: int) -> bool:
        """Return whether a column belongs to another item, or to an outer query."""
        parts, reading = split_name(column), self.path[at].reading
        found = reading.resolve(parts) if parts else None
        if found is None:
            return bool(parts) and column.name.lower() not in reading.computed_aliases
        return found[0] is not self.path[at].item

    def _term(self, node: exp.Expr, at: int, steps: int) -> Term | None:
        self.budget.spend()
        if steps <= 0:
            return None
        node = node.unnest()
        parts = split_name(node)
        if parts is not None:
            return self._resolve_name(parts, at, steps - 1)
        if isinstance(node, exp.Bracket):
            return self._key(node, at, steps - 1)
        inner = self._term(inside, at, steps - 1) if (inside := find_argument(node)) is not None else None
        return wrap_term(inner, node) if inner is not None else None

    def _resolve_name(self, parts: tuple[str, ...], at: int, steps: int) -> Term | None:
        frame = self.path[at]
        found = frame.reading.resolve(parts)
        if found is None:
            alias = frame.reading.computed_aliases.get(parts[0].lower()) if len(parts) == 1 else None
            return self._term(alias, at, steps) if alias is not None else None
        item, rest = found
        if item is not frame.item:
            return None
        if at + 1 == len(self.path):
            return self._column(rest)
        return self._resolve_derived(rest, at, steps)

    def _column(self, parts: tuple[str, ...]) -> Term:
        """Return a column of the table, a field in it, or a key of a map in Spark's dot notation."""
        table = self.path[-1].item.table
        spelled, kind = self.tables.path(table, parts)
        before, of = self.tables.path(table, parts[:-1]) if len(parts) > 1 else (spelled, None)
        if not isinstance(of, MapType):
            return Term(".".join(spelled), kind)
        if self.dialect == "spark":
            return Term(format_map_key(".".join(before), parts[-1]), of.value_type, is_key=True)
        return Term(".".join(before), of, is_opaque=True)

    def _resolve_derived(self, rest: tuple[str, ...], at: int, steps: int) -> Term | None:
        """Resolve a column of a derived item to its expression in the SELECT below."""
        item, below = self.path[at].item, self.path[at + 1].reading
        names = [name.lower() for name in item.renamed]
        body = item.body
        if rest[0].lower() in names:
            place: int | None = names.index(rest[0].lower())
        elif body is not None and len(body.branches) > 1 and body.branches[0] is not below.select:
            place = _column_position(body.branches[0], rest[0])
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
        """Return a key of a map: `attributes['k']`, `element_at(attributes, 'k')`."""
        of, keys = node.this, node.expressions
        if isinstance(of, exp.Anonymous) and of.name.lower() in LIST_FUNCTIONS and len(of.expressions) == 2:
            of, keys = of.expressions[0], of.expressions[1:]
        inner = self._term(of, at, steps)
        if inner is None or len(keys) != 1:
            return None
        plain = not inner.function and not inner.is_opaque and not inner.is_key
        if plain and keys[0].is_string and (inner.type is None or isinstance(inner.type, MapType)):
            kind = inner.type.value_type if isinstance(inner.type, MapType) else None
            return Term(format_map_key(inner.column, keys[0].name), kind, is_key=True)
        return replace(inner, is_opaque=True, function=inner.function or "element_at")


def _column_position(select: exp.Select, name: str) -> int | None:
    names = [one.alias_or_name.lower() for one in select.expressions]
    return names.index(name.lower()) if name.lower() in names and "*" not in names else None


@dataclass(frozen=True)
class ScopeTerms:
    """Finder of the table's columns in the SELECT at a position on the path."""

    finder: TermFinder
    at: int

    def term(self, node: exp.Expr) -> Term | None:
        """Return the term of a node; `None` if it is not a column of the table alone."""
        return self.finder.term(node, self.at)

    def other(self, node: exp.Expr) -> Filter | None:
        """Return tests of kind `other` for the columns in an unknown expression.

        If the expression also depends on other items, it doesn't restrict the table.
        """
        terms = {term.column: term for term in self.finder.find_terms(node, self.at)}
        if self.finder.is_shared(node, self.at):
            return None
        name = function_name(node)
        return all_of([Test(term.column, "other", function=term.function or name) for term in terms.values()])


@dataclass(frozen=True)
class Condition:
    """A condition, and whether it counts only if it fails for nulls."""

    node: exp.Expr
    strict: bool


def build_filter(terms: TermFinder, constants: ConstantEvaluator) -> Filter | None:
    """Return the filter of a statement on the table at the end of a path; `None` if it reads everything."""
    return all_of(_iter_filters(terms, constants))


def find_conditions(reading: SelectScope, item: FromItem) -> Iterator[Condition]:
    """Yield the conditions of a SELECT that restrict an item."""
    for joined in reading.items:
        on = joined.join.args.get("on") if joined.join is not None else None
        if on is not None and _restricts_item(reading, joined, item):
            yield Condition(on, reading.may_be_null_row(item, but=joined.join))
    for clause in ("prewhere", "where"):
        where = reading.select.args.get(clause)
        if where is not None:
            yield Condition(where.this, reading.may_be_null_row(item))


def _iter_filters(terms: TermFinder, constants: ConstantEvaluator) -> Iterator[Filter | None]:
    filled_below, rules = False, Rules(terms.dialect)
    for at in reversed(range(len(terms.path))):
        frame = terms.path[at]
        for condition in find_conditions(frame.reading, frame.item):
            found = ConditionReader(ScopeTerms(terms, at), constants, rules).filter(condition.node)
            if found is not None and (is_strict(found) or not (condition.strict or filled_below)):
                yield found
        filled_below = filled_below or frame.reading.may_be_null_row(frame.item)


def _restricts_item(reading: SelectScope, joined: FromItem, item: FromItem) -> bool:
    """Return whether the ON of a join may remove rows of an item."""
    is_joined = item is joined
    if not is_joined and (reading.place(item) > reading.place(joined) or item.is_bracketed or joined.is_bracketed):
        return False
    return joined.join is not None and may_filter(joined.join, is_joined=is_joined)
