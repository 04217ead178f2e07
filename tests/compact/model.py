"""A table as plain lists: what the index must answer, said a second time and slowly; and what a run makes of it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from neve.compact.config import CompactConfig
from neve.compact.health import Measure
from neve.compact.partition_memory import PartitionMemory, remember
from neve.compact.planning.candidates import FileClassifier, FileKind
from neve.compact.planning.context import KEEP, Context, TableFacts
from neve.compact.planning.cost_model import Calibration, CostModel
from neve.compact.planning.limits import Limits
from neve.compact.planning.plan_builder import make_plan
from neve.compact.strategies import strategy_of
from neve.lake.read.file_index import IndexedFile
from neve.lake.read.partition_stats import (
    DeleteCounts,
    FileCriteria,
    FileTotals,
    PartitionStats,
    TargetSizes,
    format_partition,
    make_partition_id,
    parse_partition_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from neve.compact.plan import Group, Layout, Plan
    from neve.lake.read.partition_stats import PartitionId

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW_US = int(NOW.timestamp() * 1_000_000)
TARGET = 1_000_000
_names = itertools.count()


@dataclass(frozen=True)
class ModelFile:
    """A data file."""

    bytes: int
    rows: int = 100
    sequence: int = 1
    file_sequence: int | None = None
    partition: str = '["a"]'
    spec_id: int = 0
    time_low: int | None = None
    time_high: int | None = None
    format: str = "parquet"
    sort_order_id: int | None = None
    path: str = field(default_factory=lambda: f"f{next(_names)}")

    @property
    def added(self) -> int:
        """The sequence number of the commit that added the file."""
        return self.sequence if self.file_sequence is None else self.file_sequence


@dataclass(frozen=True)
class ModelDelete:
    """A delete file: position, vector or equality; `everywhere` equality deletes come from an unpartitioned spec."""

    kind: str
    rows: int = 1
    sequence: int = 2
    partition: str = '["a"]'
    spec_id: int = 0
    bytes: int = 10
    data_path: str | None = None


@dataclass
class ModelTable:
    """Files and deletes, and how they change."""

    files: list[ModelFile]
    deletes: list[ModelDelete] = field(default_factory=list)
    fields: tuple[str, ...] = ("p",)
    sequence: int = 10

    def applying(self, file: ModelFile, kind: str) -> list[ModelDelete]:
        """The deletes of a kind that apply to a file: position (of its partition), own, or equality."""
        return [delete for delete in self.deletes if _kind(delete) == kind and _applies(delete, file)]

    def indexed(self, file: ModelFile, question: FileCriteria) -> IndexedFile:
        """A file as the index has it."""
        own = self.applying(file, "own")
        laid = question.laid_out.get((file.spec_id, file.partition), -1)
        has_order = question.sort_order_id is not None and file.sort_order_id == question.sort_order_id
        return IndexedFile(
            file.path,
            file.bytes,
            file.rows,
            file.sequence,
            file.format,
            file.sort_order_id,
            file.time_low,
            file.time_high,
            len(self.applying(file, "position")),
            len(own),
            sum(delete.rows for delete in own),
            len(self.applying(file, "equality")),
            question.wants_layout and not has_order and file.sequence > laid,
        )

    def stats(self, question: FileCriteria) -> list[PartitionStats]:
        """The counts of each partition."""
        ids = sorted({(file.spec_id, file.partition) for file in self.files})
        return [self._stats(id_, question) for id_ in ids]

    def _stats(self, id_: PartitionId, question: FileCriteria) -> PartitionStats:
        files = [file for file in self.files if (file.spec_id, file.partition) == id_]
        cold = [file for file in files if not _is_hot(file, question)]
        judge = FileClassifier(question.sizes, question.delete_files, question.delete_ratio)
        kinds = {file.path: judge.kinds(self.indexed(file, question)) for file in cold}

        def some(kind: FileKind) -> list[ModelFile]:
            return [file for file in cold if kinds[file.path] & kind]

        return PartitionStats(
            spec_id=id_[0],
            values=parse_partition_values(id_[1]),
            label=format_partition(self.fields, parse_partition_values(id_[1])),
            text=id_[1],
            files=len(files),
            bytes=sum(file.bytes for file in files),
            rows=sum(file.rows for file in files),
            hot=_share(file for file in files if file not in cold),
            fragments=_share(some(FileKind.FRAGMENTS)),
            undersized=_share(some(FileKind.UNDERSIZED)),
            oversized=_share(some(FileKind.OVERSIZED)),
            smallest=tuple(sorted(file.bytes for file in some(FileKind.UNDERSIZED))[:2]),
            unlaid=_share(some(FileKind.UNLAID)),
            over_deletes=_share(some(FileKind.OVER_DELETES)),
            with_positions=_share(some(FileKind.POSITIONS)),
            with_position_rows=sum(file.rows for file in some(FileKind.POSITIONS)),
            with_equality=_share(some(FileKind.EQUALITIES)),
            with_equality_rows=sum(file.rows for file in some(FileKind.EQUALITIES)),
            oldest_sequence=min(file.sequence for file in files),
            newest_sequence=max(file.sequence for file in files),
            time_low=min((file.time_low for file in files if file.time_low is not None), default=None),
            time_high=max((file.time_high for file in files if file.time_high is not None), default=None),
            deletes=self._deletes(id_, cold),
        )

    def _deletes(self, id_: PartitionId, cold: Sequence[ModelFile]) -> DeleteCounts:
        own = [d for d in self.deletes if d.kind == "everywhere" or (d.spec_id, d.partition) == id_]
        files = [file for file in self.files if (file.spec_id, file.partition) == id_]
        position = [d for d in own if d.kind == "position"]
        equality = [d for d in own if d.kind in ("equality", "everywhere")]
        live = [d for d in equality if any(_applies(d, file) for file in cold)]
        return DeleteCounts(
            position_files=len(position),
            position_rows=sum(d.rows for d in position),
            equality_files=len(equality),
            equality_rows=sum(d.rows for d in equality),
            vectors=sum(1 for d in own if d.kind == "vector"),
            bytes=sum(d.bytes for d in own),
            live_position_rows=sum(
                d.rows for d in position if d.data_path is None and any(_applies(d, file) for file in cold)
            ),
            live_equality_files=len(live),
            live_equality_rows=sum(d.rows for d in live),
            dangling=sum(1 for d in own if not any(_applies(d, file) for file in files)),
        )

    def candidates(
        self, question: FileCriteria, wanted: Mapping[PartitionId, bool], most: int
    ) -> dict[PartitionId, list[IndexedFile]]:
        """The files that a rewrite may want."""
        found: dict[PartitionId, list[IndexedFile]] = {id_: [] for id_ in wanted}
        judge = FileClassifier(question.sizes, question.delete_files, question.delete_ratio)
        for file in sorted(self.files, key=lambda f: (f.time_low is None, f.time_low or 0, f.sequence, f.path)):
            id_ = (file.spec_id, file.partition)
            indexed = self.indexed(file, question)
            deletes = indexed.position_files + indexed.own_files + indexed.equality_files
            is_wanted = id_ in wanted and (
                wanted[id_] or deletes or judge.kinds(indexed) & (FileKind.SIZES | FileKind.UNLAID)
            )
            if is_wanted and not _is_hot(file, question) and len(found[id_]) < most:
                found[id_].append(indexed)
        return found

    def apply(self, plan: Plan, ratio: float = 1.0, target: int = TARGET) -> None:
        """Carry a plan out: outputs as many as it says; a writer begins another file when one gets too large."""
        self.sequence += 1
        for group in plan.groups:
            self._rewrite(group, plan, ratio, target)

    def _rewrite(self, group: Group, plan: Plan, ratio: float, target: int) -> None:
        gone = {file.path for file in group.files}
        old = [file for file in self.files if file.path in gone]
        assert len(old) == len(gone) == len(group.files)
        self.files = [file for file in self.files if file.path not in gone]
        times = [time for file in old for time in (file.time_low, file.time_high) if time is not None]
        total, count = round(group.estimate.output_bytes * ratio), group.estimate.output_files
        while total // count > TargetSizes(target).large:
            count += 1
        for _number in range(count):
            self.files.append(
                ModelFile(
                    bytes=total // count,
                    rows=max(1, group.rows // count),
                    sequence=plan.sequence,
                    file_sequence=self.sequence,
                    partition=old[0].partition,
                    time_low=min(times, default=None),
                    time_high=max(times, default=None),
                    sort_order_id=1 if group.layout.kind == "sort" else None,
                )
            )


def _kind(delete: ModelDelete) -> str:
    if delete.kind in ("equality", "everywhere"):
        return "equality"
    return "own" if delete.data_path else "position"


def _applies(delete: ModelDelete, file: ModelFile) -> bool:
    same = (delete.spec_id, delete.partition) == (file.spec_id, file.partition)
    match _kind(delete):
        case "own":
            return delete.data_path == file.path and delete.sequence >= file.added
        case "position":
            return same and delete.sequence >= file.added
    return (same or delete.kind == "everywhere") and delete.sequence > file.sequence


def _is_hot(file: ModelFile, question: FileCriteria) -> bool:
    return question.hot_from_us is not None and file.time_high is not None and file.time_high >= question.hot_from_us


def _share(files: Iterable[ModelFile]) -> FileTotals:
    found = list(files)
    return FileTotals(len(found), sum(file.bytes for file in found))


@dataclass
class Tended:
    """A model table with what is remembered of it, planned for and rewritten again and again."""

    table: ModelTable
    strategy: str = "adaptive"
    config: CompactConfig = field(default_factory=CompactConfig)
    facts: TableFacts = field(default_factory=lambda: TableFacts("db.t", "u", TargetSizes(TARGET), snapshot_id=1))
    ratio: float = 1.0
    memories: dict[str, PartitionMemory] = field(default_factory=dict)
    now: datetime = NOW

    @property
    def context(self) -> Context:
        """What a decision knows."""
        return Context(
            table=replace(self.facts, sequence=self.table.sequence),
            now=self.now,
            config=self.config,
            cost=CostModel(calibration=Calibration(ratio=self.ratio)),
            memories=self.memories,
        )

    @property
    def question(self) -> FileCriteria:
        """How files are told apart."""
        facts, config = self.facts, self.config
        heeds = self.strategy == "time_series" or (self.strategy == "adaptive" and facts.time_column)
        keys = {
            (f.spec_id, f.partition): make_partition_id(f.spec_id, parse_partition_values(f.partition))
            for f in self.table.files
        }
        laid = {
            id_: self.memories[key].sequence
            for id_, key in keys.items()
            if self.memories.get(key, PartitionMemory()).layout == str(facts.layout)
        }
        return FileCriteria(
            sizes=facts.sizes,
            hot_from_us=NOW_US - config.hot_seconds * 1_000_000 if heeds else None,
            delete_files=config.delete_files,
            delete_ratio=config.delete_ratio,
            wants_layout=facts.layout.kind != "keep",
            sort_order_id=facts.sort_order_id if facts.layout.kind == "sort" else None,
            laid_out=laid,
        )

    def plan(self) -> Plan:
        """What there is to do."""
        question = self.question
        measures = [Measure(stats, self.facts.sizes) for stats in self.table.stats(question)]

        def fetch(wanted: Mapping[PartitionId, bool], most: int) -> dict[PartitionId, list[IndexedFile]]:
            return self.table.candidates(question, wanted, most)

        return make_plan(self.context, strategy_of(self.strategy), measures, fetch, Limits.of(self.config))

    def working(self) -> list[str]:
        """The reasons of partitions that are said to need work, whether files can be found for it or not."""
        measures = [Measure(stats, self.facts.sizes) for stats in self.table.stats(self.question)]
        verdicts = [strategy_of(self.strategy).score(measure, self.context) for measure in measures]
        return [verdict.reason for verdict in verdicts if verdict.has_work]

    def run(self, ratio: float = 1.0) -> Plan:
        """Plan, and carry it out."""
        plan = self.plan()
        self.table.apply(plan, ratio, self.facts.sizes.target)
        self.memories |= remember(plan, [group.id for group in plan.groups], self.memories, self.now)
        return plan


def facts(target: int = TARGET, layout: Layout = KEEP, time_column: str | None = None) -> TableFacts:
    """The facts of a table with a layout; a sorted one has the sort order 1."""
    is_sorted = layout.kind == "sort"
    return TableFacts(
        "db.t",
        "u",
        TargetSizes(target),
        snapshot_id=1,
        sorting=layout if is_sorted else KEEP,
        sort_order_id=1 if is_sorted else None,
        layout=layout,
        arrow_columns=frozenset({"a", "b", "ts"}),
        time_column=time_column,
    )
