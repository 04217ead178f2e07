"""Canary: run hot queries on main and on the branch, compare answers and bytes, and judge the layout.

After a merge the same queries measure what it delivered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from neve.autopilot.estimate.confidence_interval import Interval
from neve.autopilot.outcome import QueryMeasurement, compute_delivered_pct
from neve.autopilot.rollout.canary_engine import SparkEngine, compare_answers
from neve.autopilot.rollout.canary_queries import PreparedQuery, QuerySides, UnsuitableQuery, prepare_query
from neve.autopilot.rollout.stage_files import list_data_files
from neve.errors import LakeError, QueryError, TableMissing
from neve.lake.commit.branches import MAIN_BRANCH, find_ref_snapshot, tag_name
from neve.lake.lake import parse_table_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from neve.autopilot.attempt import StagedBranch
    from neve.autopilot.config import CanaryConfig
    from neve.autopilot.layout import Promoted
    from neve.autopilot.rollout.canary_engine import Answer
    from neve.autopilot.rollout.canary_queries import CanaryQuery
    from neve.lake.lake import Lake
    from neve.predicate.filters import Test


RESAMPLES = 2_000
SEED = 20_240_601


@dataclass(frozen=True)
class CanaryResult:
    """One hot query on both sides; `difference` is empty if the answers are equal."""

    name: str
    weight: float
    difference: str
    rows: int
    planned_main: int
    planned_branch: int
    read_main: int | None
    read_branch: int | None
    seconds_main: float
    seconds_branch: float
    remarks: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Return whether the answers are equal."""
        return not self.difference


@dataclass(frozen=True)
class SkippedQuery:
    """A hot query that was not compared, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class CanaryReport:
    """The verdict, with every query; it contains no query literals."""

    attempt_id: str
    table: str
    passed: bool
    reduction: Interval | None  # of planned bytes; None if nothing is planned on main
    results: tuple[CanaryResult, ...]
    skipped: tuple[SkippedQuery, ...]
    reasons: tuple[str, ...]

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
        return {
            **asdict(self),
            "reduction": self.reduction.as_document() if self.reduction else None,
            "results": [{**asdict(one), "equal": one.equal} for one in self.results],
        }


def judge_canary(
    attempt_id: str,
    table: str,
    results: Sequence[CanaryResult],
    skipped: Sequence[SkippedQuery],
    config: CanaryConfig,
) -> CanaryReport:
    """Judge the results of a canary.

    It passes if all answers are equal and the lower bound of the reduction reaches the threshold.
    """
    reduction = estimate_reduction(results, config.confidence)
    different = [one for one in results if not one.equal]
    reasons = [f"{one.name} differs: {one.difference}" for one in different]
    if not results:
        reasons.append("no query could be compared")
    if reduction is None:
        reasons.append("no query reads bytes of main, so there is nothing to reduce")
    low = 100 * reduction.low if reduction else 0.0
    enough = reduction is not None and low >= config.threshold_pct
    if reduction is not None:
        reasons.append(
            f"planned bytes decrease by {100 * reduction.estimate:.1f} %, at least {low:.1f} %; "
            f"the threshold is {config.threshold_pct:g} %"
        )
    passed = bool(results) and not different and enough
    return CanaryReport(attempt_id, table, passed, reduction, tuple(results), tuple(skipped), tuple(reasons))


def estimate_reduction(results: Sequence[CanaryResult], confidence: float) -> Interval | None:
    """Estimate the weighted reduction of planned bytes.

    The bounds show the variation over other queries of the kind.
    """
    weights = np.array([one.weight for one in results], dtype=np.float64)
    main = weights * np.array([one.planned_main for one in results], dtype=np.float64)
    branch = weights * np.array([one.planned_branch for one in results], dtype=np.float64)
    if not main.sum():
        return None
    picked = np.random.default_rng(SEED).integers(0, len(results), (RESAMPLES, len(results)))
    totals = main[picked].sum(axis=1)
    drawn = 1 - branch[picked].sum(axis=1)[totals > 0] / totals[totals > 0]
    tail = (1 - confidence) / 2
    return Interval(
        float(np.quantile(drawn, tail)), float(1 - branch.sum() / main.sum()), float(np.quantile(drawn, 1 - tail))
    )


@dataclass(frozen=True)
class MergeMeasurement:
    """Hot queries before and after a merge, in bytes per row of the table, because main may have grown.

    Answers differ if rows were added or removed since. The canary compares them, not this measurement.
    """

    table: str
    delivered_pct: float | None  # None if nothing was planned before
    rows_before: int  # of the whole table
    rows_after: int
    lines: tuple[QueryMeasurement, ...]
    skipped: tuple[SkippedQuery, ...]

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
        return asdict(self)


def measure_merge(
    table: Table, before: int, results: Sequence[CanaryResult], skipped: Sequence[SkippedQuery]
) -> MergeMeasurement:
    """Return the delivered reduction, from the planned bytes on both sides."""
    main = find_ref_snapshot(table, MAIN_BRANCH)
    old, new = (sum(file.rows for file in list_data_files(table, one or before).values()) for one in (before, main))
    lines = tuple(
        QueryMeasurement(one.weight, one.planned_main / max(1, old), one.planned_branch / max(1, new))
        for one in results
    )
    return MergeMeasurement(".".join(table.name()), compute_delivered_pct(lines), old, new, lines, tuple(skipped))


ImpliedTests = tuple["Test", ...]


@dataclass
class CanaryViews:
    """Views of one comparison; they are dropped at its end."""

    engine: SparkEngine
    main: int
    branch: str
    now: datetime
    promoted: tuple[Promoted, ...]
    _sides: dict[ImpliedTests, QuerySides] = field(default_factory=dict, init=False)
    _others: dict[tuple[str, ImpliedTests], str | None] = field(default_factory=dict, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        for one in self._sides.values():
            self.engine.drop(one.main)
            self.engine.drop(one.branch)
        for view in self._others.values():
            if view is not None:
                self.engine.drop(view)

    def sides(self, implied: ImpliedTests) -> QuerySides:
        """Return the views of main and of the branch, with only the rows that satisfy the implied tests."""
        if implied not in self._sides:
            lake, table = self.engine.lake, self.engine.table
            self._sides[implied] = QuerySides(
                lake.catalog_config.name,
                parse_table_name(table),
                self.engine.view(self.main, implied),
                self.engine.view(self.branch, implied, branch=True),
                self.now,
                self.promoted,
                partial(self._view_other_table, implied),
            )
        return self._sides[implied]

    def _view_other_table(self, implied: ImpliedTests, table: str) -> str | None:
        """Return a view of another table of the lake, or None if nothing is implied or the table doesn't exist."""
        if not implied:
            return None
        if (table, implied) not in self._others:
            self._others[table, implied] = self._create_view(implied, table)
        return self._others[table, implied]

    def _create_view(self, implied: ImpliedTests, table: str) -> str | None:
        try:
            self.engine.lake.table(table)
        except TableMissing:  # Spark reports this itself
            return None
        return self.engine.create_view_of(table, implied)


Progress = Callable[[int, int], None]
Comparison = tuple[tuple[CanaryResult, ...], tuple[SkippedQuery, ...]]


@dataclass(frozen=True)
class Canary:
    """Comparison of queries on two versions of a table."""

    lake: Lake
    config: CanaryConfig
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def run(
        self, record: StagedBranch, queries: Sequence[CanaryQuery], progress: Progress | None = None
    ) -> CanaryReport:
        """Compare main at the branch's base with the branch."""
        if find_ref_snapshot(self.lake.table(record.table), record.branch) is None:
            raise LakeError(f"{record.table} has no branch {record.branch}", hint="stage the attempt first")
        results, skipped = self._compare(record, record.base, record.branch, queries, progress)
        return judge_canary(record.id, record.table, results, skipped, self.config)

    def measure_again(self, record: StagedBranch, queries: Sequence[CanaryQuery]) -> MergeMeasurement:
        """Measure after a merge what queries read of main now, beside what they read before it."""
        table = self.lake.table(record.table)
        before = find_ref_snapshot(table, tag_name(record.id))
        if before is None:
            raise LakeError(
                f"{record.table} has no tag {tag_name(record.id)}, so there is nothing to compare with",
                hint="the tag exists from the merge until a rollback",
            )
        results, skipped = self._compare(record, before, "main", queries, None)
        return measure_merge(table, before, results, skipped)

    def _compare(
        self, record: StagedBranch, main: int, branch: str, queries: Sequence[CanaryQuery], progress: Progress | None
    ) -> Comparison:
        engine = SparkEngine(self.lake, record.table, self.config.most_rows, self.config.allow_literals)
        results: list[CanaryResult] = []
        skipped: list[SkippedQuery] = []
        with CanaryViews(engine, main, branch, self.clock(), tuple(record.layout.promoted)) as views:
            for number, query in enumerate(queries):
                found = self._compare_query(
                    engine, prepare_query(query, views.sides(query.implied)), first_main=number % 2 == 0
                )
                (results if isinstance(found, CanaryResult) else skipped).append(found)  # type: ignore[arg-type]
                if progress is not None:
                    progress(number + 1, len(queries))
        return tuple(results), tuple(skipped)

    def _compare_query(
        self, engine: SparkEngine, prepared: PreparedQuery | UnsuitableQuery, *, first_main: bool
    ) -> CanaryResult | SkippedQuery:
        """Run one query on both sides.

        The order of the sides alternates, because the second one finds warm caches.
        """
        query = prepared.query
        if isinstance(prepared, UnsuitableQuery):
            shows_detail = prepared.detail and self.config.allow_literals
            return SkippedQuery(
                query.name, f"{prepared.reason}: {prepared.detail}" if shows_detail else prepared.reason
            )
        answers: dict[str, Answer] = {}
        for side in ("main", "branch") if first_main else ("branch", "main"):
            try:
                statement = prepared.main if side == "main" else prepared.branch
                answers[side] = engine.run(statement, aggregates=prepared.aggregates)
            except QueryError as error:
                if side == "main":
                    return SkippedQuery(query.name, error.message)
        main, branch = answers["main"], answers.get("branch")
        return CanaryResult(
            query.name,
            query.weight,
            "the query fails on the branch" if branch is None else compare_answers(main, branch, self.config.tolerance),
            main.rows,
            main.planned_bytes,
            branch.planned_bytes if branch else main.planned_bytes,
            main.read_bytes,
            branch.read_bytes if branch else None,
            main.seconds,
            branch.seconds if branch else 0.0,
            prepared.remarks,
        )
