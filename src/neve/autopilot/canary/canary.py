"""The canary: hot queries asked of main as it was staged from and of the branch, and compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from neve.autopilot.canary.answer import difference
from neve.autopilot.canary.engine import SparkEngine
from neve.autopilot.canary.report import CanaryReport, CanaryResult, SkippedQuery, judged
from neve.autopilot.canary.statement import Prepared, Unsuited, prepare
from neve.autopilot.canary.views import Views
from neve.autopilot.merge.measure import Measured, measured
from neve.errors import LakeError, QueryError
from neve.lake.branches import snapshot_of, tag_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.autopilot.canary.answer import Answer
    from neve.autopilot.canary.statement import HotQuery
    from neve.autopilot.stage.record import Record
    from neve.autopilot.stage_config import CanaryConfig
    from neve.lake.lake import Lake

Progress = Callable[[int, int], None]
Compared = tuple[tuple[CanaryResult, ...], tuple[SkippedQuery, ...]]


@dataclass(frozen=True)
class Canary:
    """Asks queries of two versions of a table."""

    lake: Lake
    config: CanaryConfig
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def run(self, record: Record, queries: Sequence[HotQuery], progress: Progress | None = None) -> CanaryReport:
        """Compare main at the branch's base with the branch."""
        if snapshot_of(self.lake.table(record.table), record.branch) is None:
            raise LakeError(f"{record.table} has no branch {record.branch}", hint="stage the attempt first")
        results, skipped = self._compare(record, record.base, record.branch, queries, progress)
        return judged(record.id, record.table, results, skipped, self.config)

    def measure_again(self, record: Record, queries: Sequence[HotQuery]) -> Measured:
        """After a merge: what queries read of main now, beside what they read before it."""
        table = self.lake.table(record.table)
        before = snapshot_of(table, tag_name(record.id))
        if before is None:
            raise LakeError(
                f"{record.table} has no tag {tag_name(record.id)}, so there is nothing to measure against",
                hint="it is there from the merge until it is rolled back",
            )
        results, skipped = self._compare(record, before, "main", queries, None)
        return measured(table, before, results, skipped)

    def _compare(
        self, record: Record, main: int, branch: str, queries: Sequence[HotQuery], progress: Progress | None
    ) -> Compared:
        engine = SparkEngine(self.lake, record.table, self.config.most_rows, self.config.allow_literals)
        results: list[CanaryResult] = []
        skipped: list[SkippedQuery] = []
        with Views(engine, main, branch, self.clock(), tuple(record.layout.promoted)) as views:
            for number, query in enumerate(queries):
                found = self._asked(engine, prepare(query, views.sides(query.implied)), first_main=number % 2 == 0)
                (results if isinstance(found, CanaryResult) else skipped).append(found)  # type: ignore[arg-type]
                if progress is not None:
                    progress(number + 1, len(queries))
        return tuple(results), tuple(skipped)

    def _asked(
        self, engine: SparkEngine, prepared: Prepared | Unsuited, *, first_main: bool
    ) -> CanaryResult | SkippedQuery:
        """One query, of both sides; which comes first changes, for the second finds everything warm."""
        query = prepared.query
        if isinstance(prepared, Unsuited):
            tells = prepared.detail and self.config.allow_literals
            return SkippedQuery(query.name, f"{prepared.reason}: {prepared.detail}" if tells else prepared.reason)
        answers: dict[str, Answer] = {}
        for side in ("main", "branch") if first_main else ("branch", "main"):
            try:
                statement = prepared.main if side == "main" else prepared.branch
                answers[side] = engine.ask(statement, aggregates=prepared.aggregates)
            except QueryError as error:
                if side == "main":
                    return SkippedQuery(query.name, error.message)
        main, branch = answers["main"], answers.get("branch")
        return CanaryResult(
            query.name,
            query.weight,
            "it fails on the branch" if branch is None else difference(main, branch, self.config.tolerance),
            main.rows,
            main.planned_bytes,
            branch.planned_bytes if branch else main.planned_bytes,
            main.read_bytes,
            branch.read_bytes if branch else None,
            main.seconds,
            branch.seconds if branch else 0.0,
            prepared.remarks,
        )
