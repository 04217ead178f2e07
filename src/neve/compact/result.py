"""The result of a run (work, cost and gain), and the history of results in the state store."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from neve.compact.journal import Entry, Stage
from neve.compact.plan import Executor
from neve.compact.planning.cost_model import CostModel, Measurement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from neve.compact.plan import Plan
    from neve.compact.recovery import RecoveredRun
    from neve.lake.config import PricesConfig
    from neve.state.documents import Documents


@dataclass(frozen=True)
class ExecutorWork:
    """Work of one executor in a run. The next estimates are calibrated by it."""

    executor: str
    groups: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class CompactResult:
    """Result of one run on one table."""

    run_id: str
    table: str
    started: str
    strategy: str
    reason: str
    seconds: float
    health_before: float
    health_after: float
    planned: int
    committed: int
    conflicts: int
    failed: int
    unknown: int
    not_begun: int
    left_alone: int
    cut: int
    files_in: int
    files_out: int
    bytes_in: int
    bytes_out: int
    rows: int
    duplicates: int
    api_calls: int
    dollars: float
    continued: tuple[str, ...] = ()
    published_for_dead: int = 0
    orphans: int = 0
    errors: tuple[str, ...] = ()
    work: tuple[ExecutorWork, ...] = field(default=())

    @property
    def is_whole(self) -> bool:
        """True if no started group failed. A conflict is not a failure: the next run plans the group again."""
        return not self.failed and not self.unknown

    def as_document(self) -> dict[str, Any]:
        """Return the form for the history and `--json`."""
        return (
            asdict(self)
            | {key: list(getattr(self, key)) for key in ("continued", "errors")}
            | {"work": [asdict(work) for work in self.work]}
        )

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> CompactResult:
        """Return the result of a document of the history."""
        lists = {key: tuple(document[key]) for key in ("continued", "errors")}
        return cls(**{**document, **lists, "work": tuple(ExecutorWork(**work) for work in document["work"])})


@dataclass(frozen=True)
class RunFacts:
    """Facts of a run besides its plan and its groups."""

    started: datetime
    seconds: float
    health_after: float
    recovered: tuple[RecoveredRun, ...] = ()


def make_result(plan: Plan, entries: Sequence[Entry], facts: RunFacts, prices: PricesConfig) -> CompactResult:
    """Return the result of a run."""
    work = tuple(one for one in (sum_work(executor, entries) for executor in Executor) if one.groups)
    stages = [entry.stage for entry in entries]
    recovered = facts.recovered
    costs = [_calculate_cost(one, prices) for one in work]
    return CompactResult(
        run_id=plan.id,
        table=plan.table,
        started=facts.started.isoformat(),
        strategy=plan.strategy,
        reason=plan.reason,
        seconds=round(facts.seconds, 3),
        health_before=round(plan.health, 2),
        health_after=round(facts.health_after, 2),
        planned=len(plan.groups),
        committed=stages.count(Stage.COMMITTED),
        conflicts=stages.count(Stage.CONFLICT),
        failed=stages.count(Stage.FAILED),
        unknown=sum(entry.is_pending for entry in entries),
        not_begun=len(plan.groups) - len(entries),
        left_alone=len(plan.left_alone),
        cut=len(plan.cut),
        files_in=sum(one.files_in for one in work),
        files_out=sum(one.files_out for one in work),
        bytes_in=sum(one.bytes_in for one in work),
        bytes_out=sum(one.bytes_out for one in work),
        rows=sum(entry.rewritten.after.rows for entry in select_published(entries) if entry.rewritten),
        duplicates=sum(entry.rewritten.duplicates for entry in select_published(entries) if entry.rewritten),
        api_calls=sum(calls for calls, _dollars in costs),
        dollars=round(sum(dollars for _calls, dollars in costs), 6),
        continued=tuple(one.run_id for one in recovered),
        published_for_dead=sum(one.published_now for one in recovered),
        orphans=sum(one.orphans for one in recovered),
        errors=tuple(f"{entry.group.partition.label}: {entry.error}" for entry in entries if entry.error),
        work=work,
    )


def _calculate_cost(work: ExecutorWork, prices: PricesConfig) -> tuple[int, float]:
    """Return the number of requests, counted as in a plan, and the dollars for requests and time."""
    estimate = CostModel(prices).estimate(
        work.files_in, work.bytes_in, work.files_out, work.bytes_out, Executor(work.executor)
    )
    hours_more = (work.seconds - estimate.seconds) / 3600
    return estimate.api_calls, estimate.dollars + hours_more * prices.compute_per_core_hour


def collect_measurements(results: Sequence[CompactResult]) -> list[Measurement]:
    """Return the measurements that calibrate the next estimates."""
    return [
        Measurement(one.bytes_in, one.bytes_out, one.files_in, one.files_out, one.seconds, Executor(one.executor))
        for result in results
        for one in result.work
    ]


def sum_dollars_since(results: Sequence[CompactResult], since: datetime) -> float:
    """Return the dollars of the runs that began after a time."""
    return sum(result.dollars for result in results if result.started >= since.isoformat())


def sum_work(executor: Executor, entries: Sequence[Entry]) -> ExecutorWork:
    """Return the work of an executor on the published groups."""
    mine = [entry for entry in select_published(entries) if entry.rewritten and entry.rewritten.executor is executor]
    rewritten = [entry.rewritten for entry in mine if entry.rewritten]
    return ExecutorWork(
        executor=executor.value,
        groups=len(mine),
        files_in=sum(len(entry.group.files) for entry in mine),
        files_out=sum(len(one.added) for one in rewritten),
        bytes_in=sum(entry.group.bytes for entry in mine),
        bytes_out=sum(one.bytes for one in rewritten),
        seconds=sum(one.seconds for one in rewritten),
    )


def select_published(entries: Sequence[Entry]) -> list[Entry]:
    """Return the groups that are in the table."""
    return [entry for entry in entries if entry.stage is Stage.COMMITTED]


SPACE = "compact.history"
MAX_RUNS = 1000


@dataclass(frozen=True)
class History:
    """The past runs of all tables, in the state store."""

    documents: Documents

    def add(self, result: CompactResult) -> None:
        """Store a run. Only the newest runs of each table are kept."""
        self.documents.put(SPACE, f"{result.table}/{result.started}/{result.run_id}", result.as_document())
        keys = [key for key, _ in self.documents.entries(SPACE, f"{result.table}/")]
        for key in keys[:-MAX_RUNS]:
            self.documents.delete(SPACE, key)

    def of(self, table: str | None = None) -> list[CompactResult]:
        """Return the runs of a table, or of all, oldest first."""
        prefix = f"{table}/" if table else ""
        found = [CompactResult.of(document) for _, document in self.documents.entries(SPACE, prefix)]
        return sorted(found, key=lambda result: result.started)
