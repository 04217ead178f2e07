"""Queries of a canary: select hot queries and the user's own, and prepare them for main and the branch.

A query is prepared so that both sides return the same answer if they have the same rows.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from neve.autopilot.logs.records import LoggedQuery
from neve.autopilot.patterns import DIALECTS
from neve.autopilot.rollout.statement_allowlist import ENGINE, find_refusal, is_defined_by_with
from neve.autopilot.table_layout import parse_map_key
from neve.autopilot.workload.privacy import fingerprint_query, redact_query
from neve.autopilot.workload.queries import Query
from neve.autopilot.workload.query_parser import CANARY_MARK, IgnoredQuery, UnparsedQuery, parse_query
from neve.autopilot.workload.tables import Tables
from neve.predicate.filters import Test

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from neve.autopilot.layout import Promoted


NAME_DIGITS = 12
# Expressions whose result differs at each run, or depends on the order of rows.
NONDETERMINISTIC = (
    exp.Rand,
    exp.Randn,
    exp.Uuid,
    exp.AnyValue,
    exp.First,
    exp.Last,
    exp.ArrayAgg,
    exp.GroupConcat,
    exp.ApproxQuantile,
    exp.RowNumber,
    exp.TableSample,
)


@dataclass(frozen=True)
class CanaryQuery:
    """A frequent query; `weight` is its frequency, in any unit."""

    text: str
    weight: float = 1.0
    dialect: str = ENGINE
    implied: tuple[Test, ...] = ()  # conditions beside the text: the organization of the query's author

    @property
    def name(self) -> str:
        """The name in reports, which contain no literals."""
        whole = f"{self.text}\n{self.implied}" if self.implied else self.text
        return hashlib.sha256(whole.encode()).hexdigest()[:NAME_DIGITS]


@dataclass(frozen=True)
class PreparedQuery:
    """Statements for Spark; `aggregates` is true if sums of numbers may depend on the order of rows."""

    query: CanaryQuery
    main: str
    branch: str
    aggregates: bool
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnsuitableQuery:
    """A query that can't compare two layouts, and the reason."""

    query: CanaryQuery
    reason: str
    detail: str = ""  # the parser's message, which may contain values of the query


@dataclass(frozen=True)
class QuerySides:
    """The views of a table on main and on a branch, and the other inputs that make a statement repeatable."""

    catalog: str
    table: tuple[str, ...]
    main: str
    branch: str
    now: datetime
    promoted: Sequence[Promoted] = ()
    other: Callable[[str], str | None] = lambda _table: None  # the view of another table, if it has one


def prepare_query(query: CanaryQuery, sides: QuerySides) -> PreparedQuery | UnsuitableQuery:
    """Return the query for both sides, or the reason why it can't run on them."""
    try:
        return _prepare_bounded(query, sides)
    except RecursionError:
        return UnsuitableQuery(query, "it is nested too deeply")


def _prepare_bounded(query: CanaryQuery, sides: QuerySides) -> PreparedQuery | UnsuitableQuery:
    tree = _parse_text(query)
    if isinstance(tree, UnsuitableQuery):
        return tree
    undetermined = tree.find(*NONDETERMINISTIC)
    if undetermined is not None:
        return UnsuitableQuery(query, f"its result is not deterministic: it has {undetermined.key}")
    remarks = []
    for hint in list(tree.find_all(exp.Hint)):
        hint.pop()
        remarks = ["run without its hints, which do not change the result"]
    if tree.args.get("limit") or tree.args.get("offset"):
        tree.set("limit", None)
        tree.set("offset", None)
        remarks.append("run without its limit, because the order of equal rows is undefined")
    if tree.find(exp.Limit, exp.Offset, exp.Fetch) is not None:
        return UnsuitableQuery(query, "its result is not deterministic: a subquery has a limit")
    if not any(_is_table(one, sides) for one in _find_tables(tree)):
        return UnsuitableQuery(query, f"it does not read {'.'.join(sides.table)}")
    fixed = tree.transform(lambda node: _fix_time(node, sides.now))
    views: set[str] = set()
    main = _render_side(fixed.copy(), sides, sides.main, (), views)
    branch = _render_side(fixed.copy(), sides, sides.branch, sides.promoted, views)
    refusal = find_refusal(main, views, sides.catalog) or find_refusal(branch, views, sides.catalog)
    if refusal:
        return UnsuitableQuery(query, f"not allowed in a canary: {refusal}")
    return PreparedQuery(query, main, branch, fixed.find(exp.AggFunc) is not None, tuple(remarks))


def _parse_text(query: CanaryQuery) -> exp.Query | UnsuitableQuery:
    try:
        tree = sqlglot.parse_one(query.text, read=query.dialect)
    except SqlglotError as error:
        return UnsuitableQuery(query, f"it can't be parsed as {query.dialect}", str(error).splitlines()[0])
    return tree if isinstance(tree, exp.Query) else UnsuitableQuery(query, f"it is a {tree.key}, expected a query")


def _render_side(tree: exp.Expr, sides: QuerySides, view: str, promoted: Sequence[Promoted], views: set[str]) -> str:
    """Return the statement for one side, and add the views that it reads to the known ones."""
    for one in _find_tables(tree):
        _rename_table(one, sides, view, views)
    for column in tree.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)
    keys = {parse_map_key(one): one.name for one in promoted}
    changed = tree.transform(lambda node: _use_promoted_column(node, keys)) if keys else tree
    return f"/* {CANARY_MARK} */ {changed.sql(dialect=ENGINE, comments=False)}"


def _find_tables(tree: exp.Expr) -> list[exp.Table]:
    """Return the tables that are read, without names that a WITH defines and results of table functions."""
    return [
        one for one in tree.find_all(exp.Table) if isinstance(one.this, exp.Identifier) and not is_defined_by_with(one)
    ]


def _is_table(node: exp.Table, sides: QuerySides) -> bool:
    *space, name = sides.table
    return node.name.lower() == name.lower() and node.db.lower() in ("", ".".join(space).lower())


def _rename_table(node: exp.Table, sides: QuerySides, view: str, views: set[str]) -> None:
    """Replace our table by its view, under the query's alias; other tables by their view, or in the lake's catalog."""
    if not node.alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
    space = node.db or sides.table[-2]
    seen = view if _is_table(node, sides) else sides.other(f"{space}.{node.name}")
    if seen is not None:
        views.add(seen)
        node.set("this", exp.to_identifier(seen, quoted=True))
        node.set("db", None)
        node.set("catalog", None)
        return
    if not node.db:
        node.set("db", exp.to_identifier(space, quoted=True))
    node.set("catalog", exp.to_identifier(sides.catalog, quoted=True))


def _fix_time(node: exp.Expr, now: datetime) -> exp.Expr:
    """Replace the current time by the time of the canary, and a quantile of two arguments by Spark's function."""
    if isinstance(node, exp.CurrentTimestamp | exp.CurrentDatetime):
        return exp.cast(exp.Literal.string(now.strftime("%Y-%m-%d %H:%M:%S.%f")), "timestamp")
    if isinstance(node, exp.CurrentDate):
        return exp.cast(exp.Literal.string(now.strftime("%Y-%m-%d")), "date")
    if isinstance(node, exp.PercentileCont) and node.expression:
        return exp.func("percentile", node.this, node.expression, dialect=ENGINE)
    return node


def _use_promoted_column(node: exp.Expr, keys: dict[tuple[str, str], str]) -> exp.Expr:
    """Replace the key of a map by the new column."""
    if not isinstance(node, exp.Bracket) or len(node.expressions) != 1 or not isinstance(node.this, exp.Column):
        return node
    name = keys.get((node.this.name, node.expressions[0].name))
    return exp.column(name, table=node.this.table or None, quoted=True) if name else node


QueryKinds = dict[tuple[str, str], list[Query]]
QueryText = tuple[str, tuple[Test, ...]]  # a text, and the conditions that it implies: the organization


def select_hot_queries(table: str, queries: Iterable[Query], most: int) -> list[CanaryQuery]:
    """Return some queries of each kind, the newest first; their weights add up to the frequency of the kind.

    A scan report has no text to run and is skipped.
    """
    kinds: QueryKinds = defaultdict(list)
    for query in sorted(queries, key=lambda one: (one.at, one.query_id), reverse=True):
        if query.text and any(use.table == table for use in query.uses):
            kinds[query.engine, fingerprint_query(query.text, DIALECTS[query.engine])].append(query)
    heaviest = dict(sorted(kinds.items(), key=lambda one: (-len(one[1]), one[0]))[:most])
    chosen = _choose_texts(heaviest, most)
    return [
        CanaryQuery(text, len(queries_of_kind) / len(chosen[kind]), DIALECTS[kind[0]], implied)
        for kind, queries_of_kind in heaviest.items()
        for text, implied in chosen[kind]
    ]


def _choose_texts(kinds: QueryKinds, most: int) -> dict[tuple[str, str], list[QueryText]]:
    """Return one text of each kind, then a second of each kind that has one, and so on up to the limit."""
    texts = {
        kind: list(dict.fromkeys((query.text, query.implied) for query in queries_of_kind))
        for kind, queries_of_kind in kinds.items()
    }
    taken = dict.fromkeys(texts, 0)
    left = most
    while left and any(taken[kind] < len(found) for kind, found in texts.items()):
        for kind, found in texts.items():
            if left and taken[kind] < len(found):
                taken[kind], left = taken[kind] + 1, left - 1
    return {kind: found[: taken[kind]] for kind, found in texts.items()}


def select_own_queries(table: str, texts: Sequence[str], now: datetime) -> list[CanaryQuery]:
    """Return the user's queries that read a table.

    A query that can't be parsed is kept, because the canary reports why it doesn't run it.
    """
    return [
        CanaryQuery(text)
        for text in texts
        if not isinstance(found := _parse_own_query(table, text, now, Tables()), Query)
        or any(use.table == table for use in found.uses)
    ]


def parse_own_queries(table: str, texts: Sequence[str], now: datetime, tables: Tables) -> list[Query]:
    """Parse the user's queries, with the types of the tables; a query that can't be parsed has no known filter."""
    every = (_parse_own_query(table, text, now, tables) for text in texts)
    return [one for one in every if isinstance(one, Query)]


def _parse_own_query(table: str, text: str, now: datetime, tables: Tables) -> Query | IgnoredQuery | UnparsedQuery:
    namespace = table.rpartition(".")[0]
    return parse_query(LoggedQuery("", "spark", now, text, ENGINE, schema=namespace), tables)


def format_query(query: CanaryQuery, *, allow_literals: bool) -> str:
    """Format a query for reports."""
    return query.text if allow_literals else redact_query(query.text, query.dialect)
