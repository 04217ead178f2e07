"""One table in pages: its partitions, its compaction plan with reasons, file sizes, snapshots and runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from neve.app.lake_reports import describe_partition
from neve.app.reports import PartitionReport, Report
from neve.compact.result import History
from neve.compact.run_proof import RunProofs
from neve.errors import TableMissing
from neve.lake.lake import parse_table_name
from neve.lake.read.history import commit_time, read_summary
from neve.model.commits import OPERATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table.snapshots import Snapshot

    from neve.app.control import Control
    from neve.compact.health import Measure
    from neve.compact.plan import Plan
    from neve.compact.result import CompactResult
    from neve.compact.run_proof import RunProof

PlanPart = Literal["groups", "left_alone", "cut"]


class HealthPartsReport(Report):
    """Points of a table's health, out of 40, 40 and 20."""

    sizes: float
    equality_deletes: float
    position_deletes: float


class PartitionDetail(PartitionReport):
    """One partition, with the parts of its health."""

    parts: HealthPartsReport
    average_bytes: float


class PartitionPage(Report):
    """Partitions, least healthy first."""

    snapshot: str | None = Field(description="snapshot that was measured")
    target_bytes: int
    health: float
    parts: HealthPartsReport
    total: int
    offset: int
    partitions: list[PartitionDetail]


class PlanLine(Report):
    """A group of the plan, or a partition that the plan leaves alone or postpones, with the reason."""

    partition: str
    files: int
    bytes: int
    reason: str
    health: float | None = Field(None, description="of a partition that stays as it is")
    level: str = ""
    layout: str = ""
    executor: str = ""
    executor_reason: str = ""
    limit: str = Field("", description="limit or budget that postponed it")
    seconds: float | None = Field(None, description="estimated, of one core")
    dollars: float | None = Field(None, description="estimated")


class PlanPage(Report):
    """Lines of one part of the current compaction plan."""

    reason: str
    strategy: str
    groups: int
    left_alone: int
    cut: int
    part: str
    total: int
    offset: int
    lines: list[PlanLine]


class SizeClassReport(Report):
    """Files of at least `least` bytes and less than twice as many."""

    least: int
    files: int
    bytes: int
    rows: int


class FileSizesReport(Report):
    """Distribution of file sizes, smallest first."""

    target_bytes: int
    classes: list[SizeClassReport]


class SnapshotLine(Report):
    """One snapshot of a table."""

    id: str
    at: str
    operation: str = Field(description="operation of Neve, or of Iceberg for commits of others")
    is_compaction: bool
    files: int
    bytes: int
    rows: int
    added_files: int
    removed_files: int
    added_rows: int
    removed_rows: int


class SnapshotPage(Report):
    """Snapshots of a table, newest first, as far as the table retains them."""

    total: int
    offset: int
    snapshots: list[SnapshotLine]


class RunLine(Report):
    """One compaction with its proof. Fields that earlier releases did not store are null."""

    id: str
    started: str
    strategy: str
    reason: str
    seconds: float
    dollars: float
    estimated_seconds: float | None
    estimated_dollars: float | None
    calls: int
    health_before: float
    health_after: float
    files_in: int
    files_out: int
    bytes_in: int
    bytes_out: int
    rows_before: int | None
    rows_after: int | None
    hash_before: str | None
    hash_after: str | None
    equal: bool | None = Field(description="whether the same rows were read and written")
    duplicates: int
    planned: int
    committed: int
    conflicts: int
    failed: int
    errors: list[str]
    snapshots: list[str]


class RunPage(Report):
    """Compactions of a table, newest first."""

    total: int
    offset: int
    runs: list[RunLine]


@dataclass(frozen=True)
class TablePages:
    """Pages about the tables of a lake, from metadata and the state store alone."""

    control: Control

    def partitions(self, name: str, offset: int, limit: int) -> PartitionPage:
        """Return a page of partitions, least healthy first; raises `TableMissing`."""
        health = self._read(name, lambda: self.control.reports.measure(name))
        worst = sorted(health.partitions, key=lambda one: (one.health, one.partition.label))
        found = health.snapshot.snapshot_id
        return PartitionPage(
            snapshot=None if found is None else str(found),
            target_bytes=health.target_bytes,
            health=round(health.score, 1),
            parts=HealthPartsReport.model_validate(health.parts),
            total=len(worst),
            offset=offset,
            partitions=[_describe_partition(one) for one in worst[offset : offset + limit]],
        )

    def plan(self, name: str, part: PlanPart, offset: int, limit: int) -> PlanPage:
        """Return a page of the compaction plan; raises `TableMissing`."""
        plan = self._read(name, lambda: self.control.reports.plan(name))
        lines = list_plan(plan, part)
        return PlanPage(
            reason=plan.reason,
            strategy=plan.strategy,
            groups=len(plan.groups),
            left_alone=len(plan.left_alone),
            cut=len(plan.cut),
            part=part,
            total=len(lines),
            offset=offset,
            lines=lines[offset : offset + limit],
        )

    def sizes(self, name: str) -> FileSizesReport:
        """Return the distribution of file sizes; raises `TableMissing`."""
        health = self._read(name, lambda: self.control.reports.measure(name))
        classes = self.control.reports.compactor().size_classes(name)
        return FileSizesReport(
            target_bytes=health.target_bytes, classes=[SizeClassReport.model_validate(one) for one in classes]
        )

    def snapshots(self, name: str, offset: int, limit: int) -> SnapshotPage:
        """Return a page of snapshots; raises `TableMissing`."""
        metadata = self._read(name, lambda: self.control.lake.table(name).metadata)
        newest = sorted(metadata.snapshots, key=lambda one: one.timestamp_ms, reverse=True)
        lines = [describe_snapshot(one) for one in newest[offset : offset + limit]]
        return SnapshotPage(total=len(newest), offset=offset, snapshots=lines)

    def runs(self, name: str, offset: int, limit: int) -> RunPage:
        """Return a page of compactions; raises `TableMissing`."""
        full = self._read(name, lambda: ".".join(parse_table_name(name)))
        found = History(self.control.documents).of(full)[::-1]
        proofs = RunProofs(self.control.documents).of(full)
        lines = [describe_run(one, proofs.get(one.run_id)) for one in found[offset : offset + limit]]
        return RunPage(total=len(found), offset=offset, runs=lines)

    def _read(self, name: str, read: Callable[[], Any]) -> Any:
        if name not in self.control.lake.table_names():
            raise TableMissing(f"there is no table {name[:100]!r} in the lake", hint="`neve tables` lists them")
        return read()


def _describe_partition(one: Measure) -> PartitionDetail:
    return PartitionDetail(
        **dict(describe_partition(one)),
        parts=HealthPartsReport.model_validate(one.parts),
        average_bytes=one.average_bytes,
    )


def list_plan(plan: Plan, part: PlanPart) -> list[PlanLine]:
    """Return the lines of one part of a plan, in its order."""
    if part == "left_alone":
        return [
            PlanLine(
                partition=one.partition.label,
                files=one.files,
                bytes=one.bytes,
                reason=one.reason,
                health=round(one.health, 1),
            )
            for one in plan.left_alone
        ]
    if part == "cut":
        return [
            PlanLine(
                partition=one.partition.label, files=one.files, bytes=one.bytes, reason=one.reason, limit=one.limit
            )
            for one in plan.cut
        ]
    return [
        PlanLine(
            partition=one.partition.label,
            files=len(one.files),
            bytes=one.bytes,
            reason=one.reason,
            level=one.level.value,
            layout=str(one.layout),
            executor=one.executor.value,
            executor_reason=one.executor_reason,
            seconds=one.estimate.seconds,
            dollars=one.estimate.dollars,
        )
        for one in plan.groups
    ]


def describe_snapshot(snapshot: Snapshot) -> SnapshotLine:
    """Describe a snapshot by its summary; counts that its writer left out are 0."""
    summary = read_summary(snapshot)

    def count(key: str) -> int:
        text = summary.get(key, "0")
        return int(text) if text.isdigit() else 0

    own = summary.get(OPERATION, "")
    kind = snapshot.summary.operation.value if snapshot.summary else ""
    return SnapshotLine(
        id=str(snapshot.snapshot_id),
        at=commit_time(snapshot).isoformat(),
        operation=own or kind,
        is_compaction=own == "compact",
        files=count("total-data-files"),
        bytes=count("total-files-size"),
        rows=count("total-records"),
        added_files=count("added-data-files"),
        removed_files=count("deleted-data-files"),
        added_rows=count("added-records"),
        removed_rows=count("deleted-records"),
    )


def describe_run(run: CompactResult, proof: RunProof | None) -> RunLine:
    """Describe a compaction, with its proof if it has one."""
    known = asdict(proof) if proof else {}
    return RunLine(
        id=run.run_id,
        started=run.started,
        strategy=run.strategy,
        reason=run.reason,
        seconds=run.seconds,
        dollars=run.dollars,
        estimated_seconds=known.get("estimated_seconds"),
        estimated_dollars=known.get("estimated_dollars"),
        calls=run.api_calls,
        health_before=run.health_before,
        health_after=run.health_after,
        files_in=run.files_in,
        files_out=run.files_out,
        bytes_in=run.bytes_in,
        bytes_out=run.bytes_out,
        rows_before=known.get("rows_before"),
        rows_after=known.get("rows_after"),
        hash_before=known.get("hash_before"),
        hash_after=known.get("hash_after"),
        equal=proof.is_equal if proof else None,
        duplicates=run.duplicates,
        planned=run.planned,
        committed=run.committed,
        conflicts=run.conflicts,
        failed=run.failed,
        errors=list(run.errors),
        snapshots=list(known.get("snapshots", ())),
    )
