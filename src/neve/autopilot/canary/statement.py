"""A hot query made ready to be asked twice: of main and of a branch, with one answer where the rows are the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from neve.autopilot.canary.allowed import ENGINE, find_refusal, is_defined
from neve.autopilot.parse.query import CANARY_MARK
from neve.autopilot.stage.shape import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from neve.autopilot.layout import Promoted
    from neve.autopilot.workload import Test

NAME_DIGITS = 12
# What gives another answer each time, or one that depends on the order in which rows come.
UNDETERMINED = (
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
class HotQuery:
    """A query that is asked often; `weight` is how often, in any unit."""

    text: str
    weight: float = 1.0
    dialect: str = ENGINE
    implied: tuple[Test, ...] = ()  # conditions that held beside the text: the organization that asked

    @property
    def name(self) -> str:
        """What it is called in reports, which show no literal."""
        whole = f"{self.text}\n{self.implied}" if self.implied else self.text
        return hashlib.sha256(whole.encode()).hexdigest()[:NAME_DIGITS]


@dataclass(frozen=True)
class Prepared:
    """Statements for Spark; `aggregates` says whether sums of numbers may depend on the order of rows."""

    query: HotQuery
    main: str
    branch: str
    aggregates: bool
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unsuited:
    """A query that proves nothing about two layouts, and why."""

    query: HotQuery
    reason: str
    detail: str = ""  # in the parser's words, which may have values of the query among them


@dataclass(frozen=True)
class Sides:
    """The views that stand for a table on main and on a branch, and what else a statement needs to be the same."""

    catalog: str
    table: tuple[str, ...]
    main: str
    branch: str
    now: datetime
    promoted: Sequence[Promoted] = ()
    other: Callable[[str], str | None] = lambda _table: None  # the view of another table, where it has one


def prepare(query: HotQuery, sides: Sides) -> Prepared | Unsuited:
    """The query for both sides, or why it can't be asked of them."""
    try:
        return _prepare(query, sides)
    except RecursionError:
        return Unsuited(query, "it is nested too deeply")


def _prepare(query: HotQuery, sides: Sides) -> Prepared | Unsuited:
    tree = _parse(query)
    if isinstance(tree, Unsuited):
        return tree
    undetermined = tree.find(*UNDETERMINED)
    if undetermined is not None:
        return Unsuited(query, f"its answer is not determined by the rows: it has {undetermined.key}")
    remarks = []
    for hint in list(tree.find_all(exp.Hint)):
        hint.pop()
        remarks = ["asked without its hints, which change no answer"]
    if tree.args.get("limit") or tree.args.get("offset"):
        tree.set("limit", None)
        tree.set("offset", None)
        remarks.append("asked without its limit, since the query does not say which rows come first of equal ones")
    if tree.find(exp.Limit, exp.Offset, exp.Fetch) is not None:
        return Unsuited(query, "its answer is not determined by the rows: a subquery has a limit")
    if not any(_is_table(one, sides) for one in _tables(tree)):
        return Unsuited(query, f"it does not read {'.'.join(sides.table)}")
    fixed = tree.transform(lambda node: _fixed(node, sides.now))
    views: set[str] = set()
    main = _said(fixed.copy(), sides, sides.main, (), views)
    branch = _said(fixed.copy(), sides, sides.branch, sides.promoted, views)
    refusal = find_refusal(main, views, sides.catalog) or find_refusal(branch, views, sides.catalog)
    if refusal:
        return Unsuited(query, f"not canaried, because {refusal}")
    return Prepared(query, main, branch, fixed.find(exp.AggFunc) is not None, tuple(remarks))


def _parse(query: HotQuery) -> exp.Query | Unsuited:
    try:
        tree = sqlglot.parse_one(query.text, read=query.dialect)
    except SqlglotError as error:
        return Unsuited(query, f"it can't be parsed as {query.dialect}", str(error).splitlines()[0])
    return tree if isinstance(tree, exp.Query) else Unsuited(query, f"it is a {tree.key}, expected a query")


def _said(tree: exp.Expr, sides: Sides, view: str, promoted: Sequence[Promoted], views: set[str]) -> str:
    """The statement for one side; the views that it reads are added to those that are known."""
    for one in _tables(tree):
        _rename(one, sides, view, views)
    for column in tree.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)
    keys = {key_of(one): one.name for one in promoted}
    changed = tree.transform(lambda node: _promoted(node, keys)) if keys else tree
    return f"/* {CANARY_MARK} */ {changed.sql(dialect=ENGINE, comments=False)}"


def _tables(tree: exp.Expr) -> list[exp.Table]:
    """The tables that are read; a name that a WITH gives is not one, nor is what a function makes."""
    return [one for one in tree.find_all(exp.Table) if isinstance(one.this, exp.Identifier) and not is_defined(one)]


def _is_table(node: exp.Table, sides: Sides) -> bool:
    *space, name = sides.table
    return node.name.lower() == name.lower() and node.db.lower() in ("", ".".join(space).lower())


def _rename(node: exp.Table, sides: Sides, view: str, views: set[str]) -> None:
    """Our table by its view, under the name that the query calls it; any other by its own, or in the lake's catalog."""
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


def _fixed(node: exp.Expr, now: datetime) -> exp.Expr:
    """The time of the canary for the time of asking, and Spark's word for a quantile of two arguments."""
    if isinstance(node, exp.CurrentTimestamp | exp.CurrentDatetime):
        return exp.cast(exp.Literal.string(now.strftime("%Y-%m-%d %H:%M:%S.%f")), "timestamp")
    if isinstance(node, exp.CurrentDate):
        return exp.cast(exp.Literal.string(now.strftime("%Y-%m-%d")), "date")
    if isinstance(node, exp.PercentileCont) and node.expression:
        return exp.func("percentile", node.this, node.expression, dialect=ENGINE)
    return node


def _promoted(node: exp.Expr, keys: dict[tuple[str, str], str]) -> exp.Expr:
    """The new column for the key of a map."""
    if not isinstance(node, exp.Bracket) or len(node.expressions) != 1 or not isinstance(node.this, exp.Column):
        return node
    name = keys.get((node.this.name, node.expressions[0].name))
    return exp.column(name, table=node.this.table or None, quoted=True) if name else node
