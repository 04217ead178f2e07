"""A logged query as what it asks of each table, or the reason why that can't be told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from neve.autopilot.parse.columns import Columns
from neve.autopilot.parse.conditions import filter_on
from neve.autopilot.parse.constants import Constants
from neve.autopilot.parse.retyped import retyped
from neve.autopilot.parse.scopes import Scopes
from neve.autopilot.parse.statement import Unreadable, queries_of
from neve.autopilot.parse.tables import Home
from neve.autopilot.parse.terms import Budget, Terms
from neve.autopilot.parse.trees import NEVER, all_of, any_of, leaves_of
from neve.autopilot.workload import AllOf, Query, TableUse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.autopilot.parse.tables import Tables
    from neve.autopilot.sources.record import LoggedQuery, TableRead

CANARY_MARK = "neve:autopilot"  # in a comment of every query that the autopilot asks itself
MOST_COLUMNS = 500


@dataclass(frozen=True)
class LeftOut:
    """A query that no layout can help, and why."""

    reason: str


@dataclass(frozen=True)
class Unparsed:
    """A query that nobody understood, and why."""

    reason: str


def parsed(logged: LoggedQuery, tables: Tables) -> Query | LeftOut | Unparsed:
    """What a logged query asks; it never raises, whatever the text is."""
    reason = "it failed" if not logged.finished else logged.left_out
    if CANARY_MARK in logged.text:
        reason = "a canary of the autopilot"
    if reason:
        return LeftOut(reason)
    uses = _understood(logged, tables)
    if isinstance(uses, LeftOut | Unparsed):
        return uses
    return Query(logged.query_id, logged.engine, logged.at, logged.text, logged.seconds, uses, logged.implied)


def _understood(logged: LoggedQuery, tables: Tables) -> tuple[TableUse, ...] | LeftOut | Unparsed:
    try:
        return _given(logged, tables) if logged.uses else _uses(logged, tables)
    except Unreadable as error:
        return Unparsed(str(error))
    except RecursionError:
        return Unparsed("it is nested too deeply")
    except Exception as error:  # a shape of tree that nobody thought of: one query, not the whole log
        return Unparsed(f"it can't be followed ({type(error).__name__})")


def _uses(logged: LoggedQuery, tables: Tables) -> tuple[TableUse, ...] | LeftOut:
    queries = queries_of(logged.text, logged.dialect)
    if not queries:
        return LeftOut("no query")
    scopes = Scopes(tables, Home(logged.schema, logged.catalog, logged.only_catalog))
    by_table: dict[str, list[TableUse]] = {}
    budget = Budget()
    for path in chain.from_iterable(map(scopes.paths, queries)):
        use = _use(Terms(path, tables, logged.dialect, budget), logged)
        by_table.setdefault(use.table, []).append(use)
    if not by_table:
        return LeftOut("only metadata, or tables of other catalogs" if scopes.left_out else "no table")
    reads = {name: read for read in logged.reads if (name := _name(read, tables, logged))}
    alone = logged.bytes_read if len(by_table) == 1 and not scopes.left_out else None
    merged = [_merged(uses) for uses in by_table.values()]
    uses = tuple(_measured(use, reads.get(use.table), alone) for use in merged if use.filter != NEVER)
    return uses or LeftOut("it reads no rows")


def _use(terms: Terms, logged: LoggedQuery) -> TableUse:
    """One way on which a table is read."""
    table = terms.path[-1].item.table
    found = all_of([_implied(logged, table, terms.tables), filter_on(terms, Constants(logged.at))])
    columns = Columns(terms)
    order_by, limit = columns.order()
    filtered = [test.column for test in leaves_of(found)] if found is not None else []
    return TableUse(
        table=table,
        filter=found if found is not None else AllOf(),
        columns=_distinct([*columns.read(), *filtered]),
        join_keys=columns.join_keys(),
        order_by=order_by,
        limit=limit,
    )


def _implied(logged: LoggedQuery, table: str, tables: Tables) -> AllOf | None:
    """Conditions that are not in the text, where the table has their columns."""
    columns = tables.columns(table)
    kept = tuple(test for test in logged.implied if columns is not None and test.column.lower() in columns)
    return AllOf(kept) if kept else None


def _merged(uses: list[TableUse]) -> TableUse:
    """Several ways to one table as one: what any of them reads is read."""
    if len(uses) == 1:
        return uses[0]
    whole = any(use.filter == AllOf() for use in uses)
    found = AllOf() if whole else any_of(use.filter for use in uses)
    limits = [use.limit for use in uses]
    return TableUse(
        table=uses[0].table,
        filter=found if found is not None else AllOf(),
        columns=_distinct(column for use in uses for column in use.columns),
        join_keys=_distinct(key for use in uses for key in use.join_keys),
        order_by=next((use.order_by for use in uses if use.order_by), ()),
        limit=max((limit for limit in limits if limit is not None), default=None) if None not in limits else None,
    )


def _measured(use: TableUse, read: TableRead | None, alone: int | None) -> TableUse:
    """A use with what the engine counted; the only table of a query has read all of its bytes."""
    if read is None:
        return replace(use, bytes_read=alone)
    columns = _distinct([*use.columns, *(one for one in read.columns if _is_new(one, use.columns))])
    return replace(use, bytes_read=read.bytes if read.bytes is not None else alone, columns=columns)


def _is_new(column: str, known: tuple[str, ...]) -> bool:
    """Whether the engine names a column that the text does not, not even by one of its keys or fields."""
    return not any(one.lower() == column.lower() or one.startswith((f"{column}[", f"{column}.")) for one in known)


def _given(logged: LoggedQuery, tables: Tables) -> tuple[TableUse, ...] | LeftOut:
    """Uses that the log itself tells, under the names and in the types that we know tables by."""
    home = Home(logged.schema, logged.catalog, logged.only_catalog)
    kept = []
    for use in logged.uses:
        name = tables.named((use.table,), home)
        if name is not None:
            kept.append(replace(use, table=name, filter=retyped(use.filter, name, tables)))
    return tuple(kept) or LeftOut("only metadata, or tables of other catalogs")


def _name(read: TableRead, tables: Tables, logged: LoggedQuery) -> str | None:
    return tables.named(read.table, Home(logged.schema, logged.catalog, logged.only_catalog))


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))[:MOST_COLUMNS]
