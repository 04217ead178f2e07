"""Parser of logged queries: the tables, columns and filters of a query, or why it is not understood."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.autopilot.workload.column_terms import LookupBudget, TermFinder, build_filter
from neve.autopilot.workload.queries import Query, TableUse
from neve.autopilot.workload.sql_statement import UnreadableSql, parse_queries, split_name, walk_without_subqueries
from neve.autopilot.workload.table_paths import TablePathFinder
from neve.autopilot.workload.tables import SearchPath
from neve.predicate.constants import ConstantEvaluator
from neve.predicate.filters import NEVER, AllOf, AnyOf, Test, all_of, any_of, iter_tests
from neve.predicate.values import UnknownValue, convert_to_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.types import IcebergType

    from neve.autopilot.logs.records import LoggedQuery, TableRead
    from neve.autopilot.workload.sql_statement import SelectScope
    from neve.autopilot.workload.tables import Tables
    from neve.predicate.filters import Filter, Value


CLAUSES = ("prewhere", "group", "having", "qualify", "order")


@dataclass(frozen=True)
class ColumnFinder:
    """Finder of the columns that are used of the table at the end of a path."""

    terms: TermFinder

    def read(self) -> tuple[str, ...]:
        """Return the columns that are read, with map keys separately; `*` is expanded if the columns are known."""
        wanted: set[str] | None = None  # names that the SELECT above uses of the one below; `None`: all
        found: dict[str, None] = {}
        for at, frame in enumerate(self.terms.path):
            nodes = list(_used_nodes(frame.reading, wanted))
            is_last = at + 1 == len(self.terms.path)
            if is_last:
                found |= {term.column: None for node in nodes for term in self.terms.find_terms(node, at)}
                if _passes_star(frame.reading, frame.item.alias, wanted):
                    found |= dict.fromkeys(self._all_columns(wanted))
            else:
                wanted = None if _passes_star(frame.reading, frame.item.alias, None) else self._read_below(nodes, at)
        return tuple(found)

    def join_keys(self) -> tuple[str, ...]:
        """Return the columns that are compared with columns of other items."""
        found: dict[str, None] = {}
        for at, frame in enumerate(self.terms.path):
            for node in _all_conditions(frame.reading):
                found |= dict.fromkeys(self._keys(node, at))
            for joined in frame.reading.items:
                for name in joined.join.args.get("using") or [] if joined.join is not None else []:
                    term = self.terms.term(exp.column(name.name, table=frame.item.alias), at)
                    found |= {term.column: None} if term is not None and not term.is_opaque else {}
        return tuple(found)

    def order(self) -> tuple[tuple[str, ...], int | None]:
        """Return the table's columns that the outermost result is sorted by, and its limit of rows."""
        for at, frame in enumerate(self.terms.path):
            reading = frame.reading
            terms = [self.terms.term(node, at) for node in reading.order_expressions()]
            columns = tuple(term.column for term in terms if term is not None and not term.length)
            is_cut = not reading.is_aggregated and (columns or len(reading.items) == 1)
            limit = _find_limit(reading) if is_cut else None
            if columns or limit is not None:
                return columns, limit
        return (), None

    def _read_below(self, nodes: list[exp.Expr], at: int) -> set[str]:
        frame = self.terms.path[at]
        names = set()
        for node in nodes:
            for one in walk_without_subqueries(node):
                parts = split_name(one)
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
        for part in _split_conjuncts(node):
            sides = _comparison_sides(part)
            terms = [self.terms.term(side, at) for side in sides]
            for term, other in zip(terms, reversed(sides), strict=True):
                if term is not None and self.terms.term(other, at) is None and _is_column(other):
                    yield term.column

    def _all_columns(self, wanted: set[str] | None) -> list[str]:
        schema = self.terms.tables.schema(self.terms.path[-1].item.table)
        names = [one.name for one in schema.fields] if schema is not None else sorted(wanted or ())
        return names if wanted is None else [name for name in names if name.lower() in wanted]


def _used_nodes(reading: SelectScope, wanted: set[str] | None) -> Iterator[exp.Expr]:
    """Yield the nodes of a SELECT that matter if only some of its results are used."""
    for one in reading.select.expressions:
        if wanted is None or one.alias_or_name.lower() in wanted:
            yield one
    yield from (clause for key in CLAUSES if (clause := reading.select.args.get(key)) is not None)
    yield from _all_conditions(reading)


def _all_conditions(reading: SelectScope) -> Iterator[exp.Expr]:
    for item in reading.items:
        if item.join is not None and item.join.args.get("on") is not None:
            yield item.join.args["on"]
    where = reading.select.args.get("where")
    if where is not None:
        yield where.this


def _passes_star(reading: SelectScope, alias: str, wanted: set[str] | None) -> bool:
    """Return whether `*`, of the item or of all items, passes on columns that are used."""
    if wanted is not None and not wanted - set(reading.aliases):
        return False
    stars = [one for one in reading.select.expressions if one.is_star]
    return any(not isinstance(one, exp.Column) or one.table.lower() == alias.lower() for one in stars)


def _find_limit(reading: SelectScope) -> int | None:
    limit = reading.select.args.get("limit")
    if limit is None or limit.expressions:  # LIMIT 1 BY customer of ClickHouse doesn't limit the rows
        return None
    count = limit.args.get("count") or limit.args.get("expression")
    return int(count.name) if isinstance(count, exp.Literal) and count.name.isdigit() else None


def _split_conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    inner = node.unnest()
    if isinstance(inner, exp.And):
        for part in inner.flatten():
            yield from _split_conjuncts(part)
    else:
        yield inner


def _comparison_sides(node: exp.Expr) -> list[exp.Expr]:
    """Return the compared expressions: two columns, or a column and the only result of a subquery."""
    if isinstance(node, exp.EQ | exp.NullSafeEQ):
        return [node.this, node.expression]
    query = node.args.get("query") if isinstance(node, exp.In) else None
    inner = query.unnest() if query is not None else None
    return [node.this, inner.expressions[0]] if isinstance(inner, exp.Select) and len(inner.expressions) == 1 else []


def _is_column(node: exp.Expr) -> bool:
    return any(isinstance(one, exp.Column) for one in walk_without_subqueries(node))


def retype_filter(found: Filter, table: str, tables: Tables) -> Filter:
    """Return the filter with typed values; a test whose values don't fit its column gets the kind `other`."""
    if isinstance(found, AllOf):
        return AllOf(tuple(retype_filter(part, table, tables) for part in found.parts))
    if isinstance(found, AnyOf):
        return AnyOf(tuple(retype_filter(part, table, tables) for part in found.parts))
    spelled, of = tables.path(table, found.column.split("."))
    try:
        return _retype_test(replace(found, column=".".join(spelled)), of)
    except UnknownValue:
        return Test(".".join(spelled), "other", function=found.function)


def _retype_test(test: Test, of: IcebergType | None) -> Test:
    def one(value: Value | None) -> Value | None:
        return None if value is None else convert_to_type(value, of)

    values = tuple(convert_to_type(value, of) for value in test.values)
    return replace(test, values=values, low=one(test.low), high=one(test.high))


CANARY_MARK = "neve:autopilot"  # in a comment of every query that the autopilot runs itself
MAX_COLUMNS = 500


@dataclass(frozen=True)
class IgnoredQuery:
    """A query that no layout can help, and the reason."""

    reason: str


@dataclass(frozen=True)
class UnparsedQuery:
    """A query that can't be parsed, and the reason."""

    reason: str


def parse_query(logged: LoggedQuery, tables: Tables) -> Query | IgnoredQuery | UnparsedQuery:
    """Parse a logged query; it never raises an error, whatever the text is."""
    reason = "failed" if not logged.finished else logged.left_out
    if CANARY_MARK in logged.text:
        reason = "a canary of the autopilot"
    if reason:
        return IgnoredQuery(reason)
    uses = _parse_uses(logged, tables)
    if isinstance(uses, IgnoredQuery | UnparsedQuery):
        return uses
    return Query(logged.query_id, logged.engine, logged.at, logged.text, logged.seconds, uses, logged.implied)


def _parse_uses(logged: LoggedQuery, tables: Tables) -> tuple[TableUse, ...] | IgnoredQuery | UnparsedQuery:
    try:
        return _convert_logged_uses(logged, tables) if logged.uses else _find_uses(logged, tables)
    except UnreadableSql as error:
        return UnparsedQuery(str(error))
    except RecursionError:
        return UnparsedQuery("it is nested too deeply")
    except Exception as error:  # an unexpected shape of tree: it fails one query, not the whole log
        return UnparsedQuery(f"it can't be analyzed ({type(error).__name__})")


def _find_uses(logged: LoggedQuery, tables: Tables) -> tuple[TableUse, ...] | IgnoredQuery:
    queries = parse_queries(logged.text, logged.dialect)
    if not queries:
        return IgnoredQuery("not a query")
    scopes = TablePathFinder(tables, SearchPath(logged.schema, logged.catalog, logged.only_catalog))
    by_table: dict[str, list[TableUse]] = {}
    budget = LookupBudget()
    for path in chain.from_iterable(map(scopes.paths, queries)):
        use = _build_use(TermFinder(path, tables, logged.dialect, budget), logged)
        by_table.setdefault(use.table, []).append(use)
    if not by_table:
        return IgnoredQuery("only metadata, or tables of other catalogs" if scopes.left_out else "reads no table")
    reads = {name: read for read in logged.reads if (name := _table_name(read, tables, logged))}
    alone = logged.bytes_read if len(by_table) == 1 and not scopes.left_out else None
    merged = [_merge_uses(uses) for uses in by_table.values()]
    uses = tuple(_add_measurements(use, reads.get(use.table), alone) for use in merged if use.filter != NEVER)
    return uses or IgnoredQuery("reads no rows")


def _build_use(terms: TermFinder, logged: LoggedQuery) -> TableUse:
    """Return the use of a table on one path."""
    table = terms.path[-1].item.table
    found = all_of([_find_implied(logged, table, terms.tables), build_filter(terms, ConstantEvaluator(logged.at))])
    columns = ColumnFinder(terms)
    order_by, limit = columns.order()
    filtered = [test.column for test in iter_tests(found)] if found is not None else []
    return TableUse(
        table=table,
        filter=found if found is not None else AllOf(),
        columns=_remove_duplicates([*columns.read(), *filtered]),
        join_keys=columns.join_keys(),
        order_by=order_by,
        limit=limit,
    )


def _find_implied(logged: LoggedQuery, table: str, tables: Tables) -> AllOf | None:
    """Return the conditions that are not in the text, if the table has their columns."""
    columns = tables.columns(table)
    kept = tuple(test for test in logged.implied if columns is not None and test.column.lower() in columns)
    return AllOf(kept) if kept else None


def _merge_uses(uses: list[TableUse]) -> TableUse:
    """Merge several uses of one table: the result reads what any of them reads."""
    if len(uses) == 1:
        return uses[0]
    whole = any(use.filter == AllOf() for use in uses)
    found = AllOf() if whole else any_of(use.filter for use in uses)
    limits = [use.limit for use in uses]
    return TableUse(
        table=uses[0].table,
        filter=found if found is not None else AllOf(),
        columns=_remove_duplicates(column for use in uses for column in use.columns),
        join_keys=_remove_duplicates(key for use in uses for key in use.join_keys),
        order_by=next((use.order_by for use in uses if use.order_by), ()),
        limit=max((limit for limit in limits if limit is not None), default=None) if None not in limits else None,
    )


def _add_measurements(use: TableUse, read: TableRead | None, alone: int | None) -> TableUse:
    """Add the counts of the engine to a use; the only table of a query has read all of its bytes."""
    if read is None:
        return replace(use, bytes_read=alone)
    columns = _remove_duplicates([*use.columns, *(one for one in read.columns if _is_new(one, use.columns))])
    return replace(use, bytes_read=read.bytes if read.bytes is not None else alone, columns=columns)


def _is_new(column: str, known: tuple[str, ...]) -> bool:
    """Return whether the engine reports a column that the text doesn't name, not even by a key or field of it."""
    return not any(one.lower() == column.lower() or one.startswith((f"{column}[", f"{column}.")) for one in known)


def _convert_logged_uses(logged: LoggedQuery, tables: Tables) -> tuple[TableUse, ...] | IgnoredQuery:
    """Return the uses that the log itself contains, with the table names and column types of the catalog."""
    home = SearchPath(logged.schema, logged.catalog, logged.only_catalog)
    kept = []
    for use in logged.uses:
        name = tables.resolve((use.table,), home)
        if name is not None:
            kept.append(replace(use, table=name, filter=retype_filter(use.filter, name, tables)))
    return tuple(kept) or IgnoredQuery("only metadata, or tables of other catalogs")


def _table_name(read: TableRead, tables: Tables, logged: LoggedQuery) -> str | None:
    return tables.resolve(read.table, SearchPath(logged.schema, logged.catalog, logged.only_catalog))


def _remove_duplicates(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))[:MAX_COLUMNS]
