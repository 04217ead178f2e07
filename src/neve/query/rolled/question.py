"""What a SELECT asks of points, where rows of a rollup could answer it as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.model.tables import METRICS
from neve.query.rolled.scratch import function_name, moment_of
from neve.query.rolled.terms import AGGREGATES, TIME, VALUE, Terms
from neve.query.rolled.time import ALWAYS, FOREVER, both
from neve.query.sql.identifiers import fold

if TYPE_CHECKING:
    from neve.query.rolled.time import Range

CLAUSES = frozenset({"expressions", "from_", "where", "group", "having", "qualify", "order", "limit", "offset"})
HARMLESS = frozenset({"with_", "distinct"})
COMPARISONS: dict[type[exp.Expr], str] = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.EQ: "="}
MIRRORED = str.maketrans("<>", "><")
GAUGE, SUM = "gauge", "sum"


@dataclass(frozen=True)
class Question:
    """A SELECT over points alone: of which metrics, of which time, on which further conditions."""

    select: exp.Select
    table: exp.Table
    metrics: frozenset[str]
    asked: Range
    conditions: tuple[exp.Expr, ...]
    terms: Terms
    columns: frozenset[str]  # that the SELECT reads beside those of its WHERE


def is_about_points(select: exp.Select) -> bool:
    """Whether points are all that a SELECT reads."""
    return _points(select) is not None


def question_of(select: exp.Select) -> Question | None:
    """What a SELECT asks; `None` where rollups can't be known to answer the same."""
    table = _points(select)
    if table is None or not _is_plain(select):
        return None
    terms = Terms(fold(table.alias_or_name), _aliases(select))
    if not _aggregates(select, terms):
        return None
    columns = frozenset(terms.columns)
    where = select.args.get("where")
    asked, conditions = ALWAYS, []
    for condition in _conjuncts(where.this) if where else []:
        time = _time(condition, terms)
        if time is not None:
            asked = both(asked, time)
        elif terms.fits(condition):
            conditions.append(condition)
        else:
            return None
    metrics = _fixed(conditions, "metric_name", terms)
    if not metrics or not _keeps_values(conditions, terms) or asked[0] >= asked[1]:
        return None
    return Question(select, table, metrics, asked, tuple(conditions), terms, columns)


def _points(select: exp.Select) -> exp.Table | None:
    """The table of points, if it is all that a SELECT reads."""
    source = select.args.get("from_")
    table = source.this if source else None
    if not isinstance(table, exp.Table) or "scan" not in table.meta or fold(table.name) != METRICS.name:
        return None
    given = {name for name, value in table.args.items() if value}
    alias = table.args.get("alias")
    return table if given <= {"this", "db", "catalog", "alias"} and not (alias and alias.columns) else None


def _is_plain(select: exp.Select) -> bool:
    distinct = select.args.get("distinct")
    given = {name for name, value in select.args.items() if value}
    return given <= CLAUSES | HARMLESS and not (distinct and distinct.args.get("on"))


def _aliases(select: exp.Select) -> frozenset[str]:
    return frozenset(fold(part.alias) for part in select.expressions if isinstance(part, exp.Alias))


def _aggregates(select: exp.Select, terms: Terms) -> bool:
    """Whether a SELECT is about aggregates of values and about what rollups keep, in all its clauses but WHERE."""
    group = select.args.get("group")
    if group and not terms.fits_groups(group):
        return False
    if any(fold(part.alias) == VALUE and not _has_aggregate(part) for part in select.expressions):
        return False  # whether value is the column or this name would be a guess
    clauses = [select.args.get(name) for name in ("having", "qualify", "order", "limit", "offset")]
    parts = [*select.expressions, *(clause for clause in clauses if clause)]
    return all(terms.fits(part, grouped=True) for part in parts) and bool(terms.aggregates)


def _has_aggregate(node: exp.Expr) -> bool:
    return any(function_name(part) in AGGREGATES for part in node.walk())


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    plain = node.unnest()
    if not isinstance(plain, exp.And):
        return [plain]
    return [*_conjuncts(plain.this), *_conjuncts(plain.expression)]


def _time(node: exp.Expr, terms: Terms) -> Range | None:
    """The time that a condition leaves; `None` where it does not compare the time with constants."""
    if isinstance(node, exp.Between) and terms.is_column(node.this, TIME) and not node.args.get("symmetric"):
        low, high = (moment_of(node.args[side]) for side in ("low", "high"))
        return None if low is None or high is None else (low, high + 1)
    comparison = COMPARISONS.get(type(node))
    if comparison is None or not isinstance(node, exp.Binary):
        return None
    if terms.is_column(node.this, TIME):
        at = moment_of(node.expression)
    elif terms.is_column(node.expression, TIME):
        comparison, at = comparison.translate(MIRRORED), moment_of(node.this)
    else:
        return None
    return None if at is None else _compared(comparison, at)


def _compared(comparison: str, at: int) -> Range:
    """The time that compares so with a moment; what comes right after the moment is a microsecond later."""
    start = {">": at + 1, ">=": at, "=": at}.get(comparison, -FOREVER)
    end = {"<": at, "<=": at + 1, "=": at + 1}.get(comparison, FOREVER)
    return start, end


def _fixed(conditions: list[exp.Expr], name: str, terms: Terms) -> frozenset[str]:
    """The texts to one of which a column is fixed; none where it is not."""
    for condition in conditions:
        values = _texts(condition)
        if values and terms.is_column(condition.this, name):
            return frozenset(values)
    return frozenset()


def _texts(condition: exp.Expr) -> list[str]:
    """The texts on the right side of `=` or `IN`."""
    if isinstance(condition, exp.EQ):
        given = [condition.expression]
    elif isinstance(condition, exp.In) and not condition.args.get("query"):
        given = condition.expressions
    else:
        return []
    return [part.name for part in given] if all(part.is_string for part in given) else []


def _keeps_values(conditions: list[exp.Expr], terms: Terms) -> bool:
    """Whether the conditions leave only points whose values are what rollups add up.

    Those are gauges and sums that are not monotonic. Of a monotonic sum, rollups add up what it grew by, and rows do
    not tell delta points from cumulative ones.
    """
    kinds = _fixed(conditions, "metric_type", terms)
    is_level = any(_says_not_monotonic(condition, terms) for condition in conditions)
    return kinds == {GAUGE} or (bool(kinds) and kinds <= {GAUGE, SUM} and is_level)


def _says_not_monotonic(condition: exp.Expr, terms: Terms) -> bool:
    inner = condition.this.unnest() if isinstance(condition, exp.Not) else condition
    if isinstance(condition, exp.Not) and terms.is_column(inner, "is_monotonic"):
        return True
    if not isinstance(inner, (exp.EQ, exp.Is)) or not isinstance(inner.expression, exp.Boolean):
        return False
    expected = isinstance(condition, exp.Not)
    return terms.is_column(inner.this, "is_monotonic") and bool(inner.expression.this) is expected
