"""The incremental consumers of a table behind one interface, and histories of the table that they consume."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

import pyarrow.parquet as pq

from neve.lake.calendar import micros_of
from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.read.incremental import never_frozen
from neve.lake.tables import init_tables
from neve.lake.time_columns import to_moments
from neve.lake.time_ranges import EVERYTHING, floor
from neve.lake.write.table_writer import Target
from neve.model.decision_tables import OPEN_TRACES
from neve.model.levels import LEVELS
from neve.model.tables import SEARCH_INDEX, SPANS, SPANS_SAMPLE, TABLES
from neve.reservoir.config import LakeSampling
from neve.reservoir.tables.plan import Scope
from neve.reservoir.tables.run_context import RESERVOIR, RunContext
from neve.reservoir.tables.run_context import Position as SamplePosition
from neve.rollup.config import RollupConfig
from neve.rollup.definition import Definition
from neve.rollup.planner import LevelRun
from neve.rollup.position import ROLLUP
from neve.rollup.position import Position as LevelPosition
from neve.search.plan import live_files, load_index_files, plan_build
from neve.search.tasks import IndexTask, TaskRunner
from neve.tail.checkpoint import Checkpoint
from neve.tail.cycle_files import commit_open
from neve.tail.new_files import find_new_files
from tests.query.deleting import delete_rows, rewrite_files
from tests.tail.lakes import START, Span, put

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pyiceberg.table import Table

MINUTE = 60_000_000
OWNERS = ("acme", "globex")
LEVEL = next(table for table in TABLES if table.name == LEVELS[0].table)
CLOSED = micros_of(START + timedelta(days=36_500))
CONFIG = LakeSampling(k=4, window_seconds=60)
_numbers = itertools.count()

Windows = dict[str, set[int]]  # starts of minutes, by organization


def source(lake: Lake) -> Table:
    """The table that all consume."""
    return lake.table(SPANS.name)


class Consumer(Protocol):
    """A consumer that stores where it is, and finds what came since."""

    def advance(self, lake: Lake) -> None:
        """Store that everything so far was consumed."""

    def pending(self, lake: Lake) -> Windows | None:
        """The windows to consume, or `None` for all of them."""


class RollupConsumer:
    """The first level of rollups, with windows that are long closed."""

    def advance(self, lake: Lake) -> None:
        """Commit a position, as a run that changed no row does."""
        position = self._run(lake).position
        assert isinstance(position, LevelPosition)
        _commit(lake, LEVELS[0].table, position.to_summary(ROLLUP))

    def pending(self, lake: Lake) -> Windows | None:
        """The windows that the next run computes."""
        wanted = self._run(lake).windows
        if wanted.everyone == EVERYTHING:
            return None
        return {owner: wanted.touched.of(owner).starts(MINUTE) for owner in OWNERS}

    @staticmethod
    def _run(lake: Lake) -> LevelRun:
        config = RollupConfig()
        return LevelRun(
            level=LEVELS[0],
            source=source(lake),
            target=lake.table(LEVELS[0].table),
            config=config,
            definition=Definition.of(config),
            now=CLOSED,
            since=None,
            frozen=never_frozen,
        )


class ReservoirConsumer:
    """A sample of spans."""

    def advance(self, lake: Lake) -> None:
        """Commit a position, as a run that changed no row does."""
        position = self._run(lake).position
        assert isinstance(position, SamplePosition)
        _commit(lake, SPANS_SAMPLE.name, position.to_summary(RESERVOIR))

    def pending(self, lake: Lake) -> Windows | None:
        """The windows that the next run samples."""
        changed = self._run(lake).windows.changed
        return None if changed is None else {owner: set(starts) for owner, starts in changed.items()}

    @staticmethod
    def _run(lake: Lake) -> RunContext:
        return RunContext(source(lake), lake.table(SPANS_SAMPLE.name), CONFIG, Scope(), CLOSED, never_frozen)


class TailConsumer:
    """A selector, which reads files of new spans."""

    def advance(self, lake: Lake) -> None:
        """Commit a checkpoint, as a cycle without open traces does."""
        table, last = lake.table(OPEN_TRACES.name), self._checkpoint(lake)
        snapshot = source(lake).metadata.current_snapshot_id
        cycle = last.cycle + 1 if last else 1
        commit_open(table, [], "tail", Checkpoint(cycle, SPANS.name, snapshot, cycle, cycle, "", ""))

    def pending(self, lake: Lake) -> Windows | None:
        """The windows of the files that the next cycle reads."""
        table, last = source(lake), self._checkpoint(lake)
        news = find_new_files(table, last.snapshot_id if last else None, known=last is not None)
        return None if news.whole else _windows_of_files(table, [file.path for file in news.files])

    @staticmethod
    def _checkpoint(lake: Lake) -> Checkpoint | None:
        return Checkpoint.of(lake.table(OPEN_TRACES.name), "tail")


class SearchConsumer:
    """The index of one column of spans. Its position is the set of files that it has rows of."""

    columns = ("operation_name",)

    def advance(self, lake: Lake) -> None:
        """Index the files that are missing."""
        index = lake.table(SEARCH_INDEX.name)
        run = TaskRunner(Target.of(source(lake)), Target.of(index), SPANS.name, 0.01, 1, START)
        added = [str(file["file-path"]) for task in self._tasks(lake) for file in run(task).added]
        if added:
            index.add_files(added)

    def pending(self, lake: Lake) -> Windows | None:
        """The windows of the files that the next build indexes."""
        return _windows_of_files(source(lake), [path for task in self._tasks(lake) for path, _columns in task.files])

    def _tasks(self, lake: Lake) -> list[IndexTask]:
        held = load_index_files(lake.table(SEARCH_INDEX.name), SPANS.name)
        plan = plan_build(live_files(source(lake)), held, self.columns)
        return [task for task in plan.tasks if isinstance(task, IndexTask)]


CONSUMERS: Mapping[str, Consumer] = {
    "rollup": RollupConsumer(),
    "reservoir": ReservoirConsumer(),
    "tail": TailConsumer(),
    "search": SearchConsumer(),
}
OF_ROWS = ("rollup", "reservoir", "tail")  # those that know their position by a snapshot


@dataclass
class History:
    """A lake whose table changes, and the snapshots of it that a model of the test knows."""

    lake: Lake
    line: list[int] = field(default_factory=list)
    expired: set[int] = field(default_factory=set)

    @classmethod
    def begin(cls, folder: Path) -> History:
        """A lake with an empty table and its consumers."""
        lake = Lake(LakeConfig(warehouse=str(folder / "warehouse")), CatalogConfig(path=str(folder / "catalog.db")))
        init_tables(lake, (SPANS, SPANS_SAMPLE, OPEN_TRACES, SEARCH_INDEX, LEVEL))
        return cls(lake)

    def append(self, *minutes: int, owner: str = OWNERS[0]) -> None:
        """Commit one span for each minute."""
        put(self.lake, [Span(1, next(_numbers), at=60.0 * minute, organization=owner) for minute in minutes])
        self._note()

    def compact(self) -> None:
        """Move all rows to other files."""
        if self.line:
            rewrite_files(source(self.lake))
            self._note()

    def delete(self) -> None:
        """Delete the first row of the first file that has one."""
        table = source(self.lake)
        found = next((task.file for task in table.scan().plan_files() if not task.delete_files), None)
        if found is not None:
            delete_rows(table, found, [0])
            self._note()

    def expire(self, number: int) -> None:
        """Expire a snapshot before the current one."""
        known = [one for one in self.line[:-1] if one not in self.expired]
        if known:
            gone = known[number % len(known)]
            source(self.lake).maintenance.expire_snapshots().by_id(gone).commit()
            self.expired.add(gone)

    def roll_back(self) -> None:
        """Set the table to the snapshot before the current one."""
        if len(self.line) > 1 and self.line[-2] not in self.expired:
            source(self.lake).manage_snapshots().rollback_to_snapshot(snapshot_id=self.line[-2]).commit()
            self.line.pop()

    def advance(self) -> int:
        """Let all consumers consume everything; the number of snapshots at that time."""
        for consumer in CONSUMERS.values():
            consumer.advance(self.lake)
        return len(self.line)

    def has_gap(self, position: int | None) -> bool:
        """Whether what came since a snapshot can't be known from the snapshots."""
        if position is None:
            return any(one in self.expired for one in self.line)
        since = self.line[self.line.index(position) :] if position in self.line else []
        return not since or any(one in self.expired for one in since)

    def rows(self) -> dict[tuple[str, int], frozenset[bytes]]:
        """The ids of the rows of each minute and organization."""
        found: defaultdict[tuple[str, int], set[bytes]] = defaultdict(set)
        for row in source(self.lake).scan().to_arrow().to_pylist():
            found[row["organization_id"], floor(micros_of(row["timestamp"]), MINUTE)].add(bytes(row["record_id"]))
        return {key: frozenset(ids) for key, ids in found.items()}

    def _note(self) -> None:
        self.line.append(int(source(self.lake).metadata.current_snapshot_id or 0))


def _commit(lake: Lake, table: str, summary: dict[str, str]) -> None:
    append_once(lake.table(table), [], batch_id=f"run {next(_numbers)}", operation="test", summary=summary)


def _windows_of_files(table: Table, paths: Iterable[str]) -> Windows:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for path in paths:
        with table.io.new_input(path).open() as opened:
            rows = pq.read_table(opened, columns=["organization_id", "timestamp"])
        moments = to_moments(rows.column("timestamp")).tolist()
        for owner, moment in zip(rows.column("organization_id").to_pylist(), moments, strict=True):
            found[owner].add(floor(moment, MINUTE))
    return dict(found)
