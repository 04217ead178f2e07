"""What a run did, what it cost and what it gained; also what the history keeps of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from neve.compact.cost import CostModel, Measured
from neve.compact.journal import Entry, Stage
from neve.compact.plan import Executor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from neve.compact.plan import Plan
    from neve.compact.settle import Settled
    from neve.lake.prices import PricesConfig


@dataclass(frozen=True)
class Work:
    """What one executor did in a run: what the next estimate learns from."""

    executor: str
    groups: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class CompactResult:
    """One run on one table."""

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
    work: tuple[Work, ...] = field(default=())

    @property
    def is_whole(self) -> bool:
        """Whether nothing that was begun failed; a conflict is no failure, the next run plans it anew."""
        return not self.failed and not self.unknown

    def as_document(self) -> dict[str, Any]:
        """The form that the history keeps and `--json` prints."""
        return (
            asdict(self)
            | {key: list(getattr(self, key)) for key in ("continued", "errors")}
            | {"work": [asdict(work) for work in self.work]}
        )

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> CompactResult:
        """What the history has kept."""
        lists = {key: tuple(document[key]) for key in ("continued", "errors")}
        return cls(**{**document, **lists, "work": tuple(Work(**work) for work in document["work"])})


@dataclass(frozen=True)
class Circumstances:
    """What a run knows of itself besides its plan and its groups."""

    started: datetime
    seconds: float
    health_after: float
    settled: tuple[Settled, ...] = ()
    checked: int = 0


def result_of(
    plan: Plan, entries: Sequence[Entry], circumstances: Circumstances, prices: PricesConfig
) -> CompactResult:
    """What to say of a run."""
    work = tuple(one for one in (work_by(executor, entries) for executor in Executor) if one.groups)
    stages = [entry.stage for entry in entries]
    settled = circumstances.settled
    costs = [_cost(one, prices) for one in work]
    return CompactResult(
        run_id=plan.id,
        table=plan.table,
        started=circumstances.started.isoformat(),
        strategy=plan.strategy,
        reason=plan.reason,
        seconds=round(circumstances.seconds, 3),
        health_before=round(plan.health, 2),
        health_after=round(circumstances.health_after, 2),
        planned=len(plan.groups),
        committed=stages.count(Stage.COMMITTED),
        conflicts=stages.count(Stage.CONFLICT),
        failed=stages.count(Stage.FAILED),
        unknown=sum(entry.is_unsettled for entry in entries),
        not_begun=len(plan.groups) - len(entries),
        left_alone=len(plan.left_alone),
        cut=len(plan.cut),
        files_in=sum(one.files_in for one in work),
        files_out=sum(one.files_out for one in work),
        bytes_in=sum(one.bytes_in for one in work),
        bytes_out=sum(one.bytes_out for one in work),
        rows=sum(entry.rewritten.after.rows for entry in published(entries) if entry.rewritten),
        duplicates=sum(entry.rewritten.duplicates for entry in published(entries) if entry.rewritten),
        api_calls=sum(calls for calls, _dollars in costs),
        dollars=round(sum(dollars for _calls, dollars in costs), 6),
        continued=tuple(one.run_id for one in settled),
        published_for_dead=sum(one.published_now for one in settled),
        orphans=sum(one.orphans for one in settled),
        errors=tuple(f"{entry.group.partition.label}: {entry.error}" for entry in entries if entry.error),
        work=work,
    )


def _cost(work: Work, prices: PricesConfig) -> tuple[int, float]:
    """The requests that the work took, as they are counted for a plan, and the money for them and for the time."""
    estimate = CostModel(prices).estimate(
        work.files_in, work.bytes_in, work.files_out, work.bytes_out, Executor(work.executor)
    )
    hours_more = (work.seconds - estimate.seconds) / 3600
    return estimate.api_calls, estimate.dollars + hours_more * prices.compute_per_core_hour


def measured(results: Sequence[CompactResult]) -> list[Measured]:
    """What the next estimates learn from."""
    return [
        Measured(one.bytes_in, one.bytes_out, one.files_in, one.files_out, one.seconds, Executor(one.executor))
        for result in results
        for one in result.work
    ]


def spent_since(results: Sequence[CompactResult], since: datetime) -> float:
    """The dollars of the runs that began after a time."""
    return sum(result.dollars for result in results if result.started >= since.isoformat())


def work_by(executor: Executor, entries: Sequence[Entry]) -> Work:
    """What an executor did, of the groups that were published."""
    mine = [entry for entry in published(entries) if entry.rewritten and entry.rewritten.executor is executor]
    rewritten = [entry.rewritten for entry in mine if entry.rewritten]
    return Work(
        executor=executor.value,
        groups=len(mine),
        files_in=sum(len(entry.group.files) for entry in mine),
        files_out=sum(len(one.added) for one in rewritten),
        bytes_in=sum(entry.group.bytes for entry in mine),
        bytes_out=sum(one.bytes for one in rewritten),
        seconds=sum(one.seconds for one in rewritten),
    )


def published(entries: Sequence[Entry]) -> list[Entry]:
    """The groups that are in the table."""
    return [entry for entry in entries if entry.stage is Stage.COMMITTED]
