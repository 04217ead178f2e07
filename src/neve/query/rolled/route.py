"""Questions about points that rollups can answer: which ones, and from which table.

A SELECT that aggregates `value` over `metrics` is answered from `metrics_1d`, `metrics_1h`, `metrics_5m` and
`metrics_1m` as far as their windows lie in the time that it asks for and are up to date, the longest windows first;
what is left (ragged ends, windows that are open or about to be computed anew) is read from points. All is one
statement. The answer is the same, but for the order in which floats are added up, where

- the SELECT reads `metrics` alone, and fixes `metric_name` and `metric_type`: to gauges, or to sums that are not
  monotonic (of monotonic ones rollups have the growth, whatever the points said);
- all else in it is about what the rollups of these metrics keep apart, about time by buckets of whole windows, and
  about sum, min, max, avg and count of `value`.

Rollups are about records and values, and so are answers from them: a record that came twice counts once, and points
without a value, NaN and infinite ones count as not there. Points are read with the same view of values, so that an
answer does not depend on how much of it came from rollups; of records that came twice, one that is still among the
points counts twice until its window is rolled up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, cast

from sqlglot import exp

from neve.query.request import TimeRange
from neve.query.rolled.question import is_about_points, question_of
from neve.query.rolled.scratch import columns_of
from neve.query.rolled.source import keep_names, read_from
from neve.query.rolled.time import FOREVER, both, micros_of, whole_windows, without
from neve.query.sql.names import name_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.query.rolled.question import Question
    from neve.query.rolled.time import Range
    from neve.query.sql.statement import Statement

MICROS = 1_000_000
ANY_TIME = TimeRange()


@dataclass(frozen=True)
class Coverage:
    """One level: the time whose windows are final and up to date with the points, and what it keeps of series.

    `keeps` is asked for a metric, `attributes` or `resource_attrs`, and a key.
    """

    table: str
    seconds: int
    ranges: tuple[tuple[int, int], ...]
    keeps: Callable[[str, str, str], bool]

    @property
    def micros(self) -> int:
        """How long its windows are."""
        return self.seconds * MICROS

    def suits(self, question: Question) -> bool:
        """Whether its rows tell apart all that a question tells apart."""
        terms = question.terms
        keys_kept = all(self.keeps(metric, *key) for metric in question.metrics for key in terms.keys)
        return keys_kept and all(bucket % self.micros == 0 for bucket in terms.buckets)


def route(statement: Statement, coverages: Sequence[Coverage], time: TimeRange = ANY_TIME) -> tuple[Statement, str]:
    """The statement that reads from rollups what they can answer, and the names of their tables; else as it was.

    `time` is what the request bounds every table to.
    """
    bounds = micros_of(time.since, -FOREVER), micros_of(time.until, FOREVER)
    tree = name_columns(statement.tree.copy())  # names come of the text as it was written
    numbers = count(1 + max((table.meta.get("scan", -1) for table in tree.find_all(exp.Table)), default=-1))
    used: dict[str, None] = {}
    for select in list(tree.find_all(exp.Select))[::-1]:  # the inner ones first
        found = _routed(select, coverages, bounds, numbers) if is_about_points(select) else None
        if found is None:
            continue
        routed, tables = found
        used |= dict.fromkeys(tables)
        if select is tree:
            tree = routed
        else:
            select.replace(routed)
    return (replace(statement, tree=cast("exp.Expression", tree)), ", ".join(used)) if used else (statement, "")


def _routed(
    select: exp.Select, coverages: Sequence[Coverage], bounds: Range, numbers: Iterator[int]
) -> tuple[exp.Select, list[str]] | None:
    """A SELECT that reads from rollups, and their tables; `None` where it has to stay as it is."""
    question = question_of(select.copy())
    if question is None:
        return None
    parts, rest = _shared(question, coverages, both(question.asked, bounds))
    before = columns_of(question.select) if parts else None
    if before is None:
        return None
    keep_names(question.select, [name for name, _type in before])
    read_from(question, parts, rest, numbers)
    return (question.select, list(parts)) if columns_of(question.select) == before else None


def _shared(
    question: Question, coverages: Sequence[Coverage], asked: Range
) -> tuple[dict[str, list[Range]], list[Range]]:
    """Which time is read from which rollup, and what is left for points."""
    parts: dict[str, list[Range]] = {}
    rest = [asked] if asked[0] < asked[1] else []
    suitable = [coverage for coverage in coverages if coverage.suits(question)]
    for coverage in sorted(suitable, key=lambda one: -one.seconds):
        taken = whole_windows(rest, coverage.ranges, coverage.micros)
        if taken:
            parts[coverage.table] = taken
            rest = without(rest, taken)
    return parts, rest
