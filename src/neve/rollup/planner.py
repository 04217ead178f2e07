"""Plan one run of a level: the windows to compute, the tasks that fit into memory, and the rows that they replace."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from neve.lake.commit.java_commit import RowChange
from neve.lake.read.data_file_reader import read_columns
from neve.lake.read.file_values import find_organization, partition_to_json, read_time_bounds
from neve.lake.read.incremental import find_touched_windows
from neve.lake.read.positions import NO_POSITION, find_changes, is_stale
from neve.lake.read.snapshot_files import filter_by_time, scan_files
from neve.lake.time_ranges import BEGINNING, END, EVERYTHING, Ranges, ceiling, floor
from neve.lake.write.data_file_json import make_removal_json
from neve.lake.write.table_writer import Target
from neve.model.levels import LEVELS
from neve.rollup.position import ROLLUP, Position
from neve.rollup.tasks import MarkTask, SliceTask, TaskRunner
from neve.rollup.window_choice import RunTerms, choose_windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

    from neve.lake.read.incremental import Frozen
    from neve.lake.write.data_file_json import DataFileJson
    from neve.model.levels import Level
    from neve.rollup.config import RollupConfig
    from neve.rollup.definition import Definition
    from neve.rollup.tasks import TaskResult
    from neve.rollup.window_choice import WindowsToCompute


@dataclass(frozen=True)
class FileRows:
    """Number of rows of a file and their time range. `number` is the caller's id of the file."""

    number: int
    earliest: int
    latest: int
    rows: int

    def within(self, start: int, end: int) -> float:
        """Return an estimate of its rows in a time range, for an even distribution."""
        overlap = min(end, self.latest + 1) - max(start, self.earliest)
        return self.rows * max(0, overlap) / (self.latest + 1 - self.earliest)


def split_windows(ranges: Ranges, files: Sequence[FileRows], most_rows: int, micros: int) -> list[Ranges]:
    """Split whole windows, in order, into parts of about `most_rows` rows at most. Time without rows is skipped."""
    pieces: list[Ranges] = []
    held: list[tuple[int, int]] = []
    rows = 0.0
    for start, end in _ranges_with_rows(ranges, files, micros):
        for first, last in _split_range(start, end, files, most_rows, micros):
            expected = sum(file.within(first, last) for file in files)
            if held and rows + expected > most_rows:
                pieces.append(Ranges.of(held))
                held, rows = [], 0.0
            held.append((first, last))
            rows += expected
    return [*pieces, Ranges.of(held)] if held else pieces


def files_for(ranges: Ranges, files: Sequence[FileRows], before: int) -> list[int]:
    """Return the files that may have rows of a part, or of so much time before it."""
    needed = ranges.widen(before=before)
    return [file.number for file in files if needed.overlaps(file.earliest, file.latest + 1)]


def _ranges_with_rows(ranges: Ranges, files: Sequence[FileRows], micros: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges, shortened to the windows with rows."""
    if not files:
        return
    earliest, latest = min(file.earliest for file in files), max(file.latest for file in files)
    yield from ranges.within(floor(earliest, micros), ceiling(latest + 1, micros))


def _split_range(
    start: int, end: int, files: Sequence[FileRows], most_rows: int, micros: int
) -> Iterator[tuple[int, int]]:
    """Split a range into as many equal parts as its rows require. Parts begin at window boundaries."""
    expected = sum(file.within(start, end) for file in files)
    parts = max(1, -(-int(expected) // most_rows))
    step = max(micros, ceiling(-(-(end - start) // parts), micros))
    while start < end:
        following = min(end, ceiling(start + step - micros + 1, micros))
        yield start, following
        start = following


MICROS = 1_000_000


@dataclass(frozen=True)
class LevelRun:
    """A level and its source at one point in time."""

    level: Level
    source: Table
    target: Table
    config: RollupConfig
    definition: Definition
    now: int
    since: int | None
    frozen: Frozen

    @property
    def is_raw(self) -> bool:
        """Return whether the source is points."""
        return self.level.source == LEVELS[0].source

    @cached_property
    def previous(self) -> Position | None:
        """Return the current position of the level."""
        return Position.load(self.target, ROLLUP)

    @cached_property
    def position(self) -> Position:
        """Return the position after the run."""
        snapshot = self.source.metadata.current_snapshot_id
        return Position(snapshot, self._closed_until, self.definition.fingerprint, self.config.partial)

    @cached_property
    def windows(self) -> WindowsToCompute:
        """Return the windows to compute."""
        changes = find_changes(self.source, self.previous.snapshot) if self.previous else NO_POSITION
        same = self.previous is not None and self.previous.definition == self.position.definition
        below = next((level.micros for level in LEVELS if level.table == self.level.source), self.level.micros)
        touched = None if changes.gap or not same else find_touched_windows(self.source, changes.snapshots, below)
        after = self.definition.lookback_micros if self.is_raw else 0
        terms = RunTerms(after, self.since, self.frozen, has_rows=self.target.metadata.current_snapshot_id is not None)
        return choose_windows(self.level, self.previous, self.position, touched, terms)

    @property
    def assignment(self) -> TaskRunner:
        """Return the runner of the tasks."""
        return TaskRunner(
            Target.of(self.source),
            Target.of(self.target),
            self.level,
            self.definition,
            self.position.closed_until,
            self.is_raw,
        )

    @property
    def must_commit_position(self) -> bool:
        """Return whether the new position must be written though no row changes."""
        if self.previous is None or self.previous == self.position:
            return False
        return is_stale(self.source, self.previous.snapshot) or self._closes_above(self.previous.closed_until)

    def _closes_above(self, previous: int) -> bool:
        """Return whether the new position closes a window with rows of a coarser level."""
        for above in (level for level in LEVELS if level.seconds > self.level.seconds):
            start = floor(previous, above.micros)
            crossed = self.position.closed_until >= start + above.micros
            if crossed and start < previous and scan_files(self.target, filter_by_time(Ranges.of([(start, previous)]))):
                return True
        return False

    @property
    def _closed_until(self) -> int:
        """Return the end of closed windows.

        The clock closes those of the first level, the level below those of the others.
        """
        if self.is_raw:
            moment = self.now - self.config.grace_seconds * MICROS
        else:
            below = Position.load(self.source, ROLLUP)
            moment = below.closed_until if below else BEGINNING
        return max(floor(moment, self.level.micros), self.previous.closed_until if self.previous else BEGINNING)


@dataclass(frozen=True)
class RunPlan:
    """Plan of a run: tasks, and files of which no row remains."""

    reason: str
    ranges: dict[str, Ranges]
    left: int
    tasks: tuple[SliceTask | MarkTask, ...] = ()
    removed: tuple[tuple[str, Ranges, DataFileJson], ...] = ()
    from_snapshot: int | None = None

    def change(self, done: Sequence[TaskResult]) -> RowChange:
        """Return the commit of the tasks' results."""
        return RowChange(
            added=tuple(file for one in done for file in one.added),
            deletes=tuple(file for one in done for file in one.deletes),
            removed=tuple(content for _owner, _windows, content in self.removed),
            from_snapshot=self.from_snapshot,
        )

    def windows(self, done: Sequence[TaskResult]) -> dict[str, Ranges]:
        """Return the windows whose rows were changed or removed."""
        found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for one in done:
            found[one.owner] += one.windows.parts
        for owner, windows, _content in self.removed:
            found[owner] += windows.parts
        return {owner: Ranges.of(parts) for owner, parts in sorted(found.items()) if parts}


def plan_run(run: LevelRun) -> RunPlan:
    """Find the files with rows of the windows to compute. Reads metadata alone."""
    windows = run.windows
    if not windows.hull:
        return RunPlan(windows.reason, {}, 0)
    lookback = run.assignment.lookback
    sources = _by_owner(run.source, scan_files(run.source, filter_by_time(windows.hull.widen(before=lookback))))
    targets = _by_owner(run.target, scan_files(run.target, filter_by_time(windows.hull)))
    owners = sorted({*sources, *targets, *windows.touched.owners})
    ranges = {owner: found for owner in owners if (found := _choose_ranges(run, owner, sources.get(owner, [])))}
    left = sum(
        _count_windows(run.source, sources.get(owner, []), windows.unavailable(owner), run.level.micros)
        for owner in owners
    )
    tasks: list[SliceTask | MarkTask] = []
    removed = []
    for owner, time in ranges.items():
        tasks += _make_slices(run, owner, time, sources.get(owner, []))
        for task in targets.get(owner, []):
            covered = _windows_of(run, task.file)
            is_mine = find_organization(run.target, task.file) == owner
            if is_mine and covered is not None and time.within(*covered.parts[0]) == covered:
                removed.append((owner, covered, make_removal_json(run.target.metadata, task.file)))
            else:
                tasks.append(_make_marking(run.target, owner, time, task.file))
    snapshot = run.target.metadata.current_snapshot_id
    return RunPlan(windows.reason, ranges, left, tuple(tasks), tuple(removed), snapshot)


def _choose_ranges(run: LevelRun, owner: str, files: Sequence[FileScanTask]) -> Ranges:
    """Return the windows of an organization to compute. If all are computed, rows that outlived their points stay."""
    time = run.windows.of(owner)
    if run.windows.everyone != EVERYTHING:
        return time
    bounds = [read_time_bounds(run.source, task.file) or (BEGINNING, END) for task in files]
    earliest = min((first for first, _last in bounds), default=END)
    return time.within(start=floor(earliest, run.level.micros))


def _make_slices(run: LevelRun, owner: str, time: Ranges, files: Sequence[FileScanTask]) -> list[SliceTask]:
    held = [_file_rows(run.source, number, task.file) for number, task in enumerate(files)]
    pieces = split_windows(time, held, run.config.slice_points, run.level.micros)
    return [
        SliceTask(owner, piece, tuple(files[number] for number in files_for(piece, held, run.assignment.lookback)))
        for piece in pieces
    ]


def _file_rows(source: Table, number: int, file: DataFile) -> FileRows:
    earliest, latest = read_time_bounds(source, file) or (BEGINNING, END)
    return FileRows(number, earliest, latest, file.record_count)


def _count_windows(source: Table, files: Sequence[FileScanTask], time: Ranges, micros: int) -> int:
    """Return how many windows of a time range may have rows."""
    bounds = [found for task in files if (found := read_time_bounds(source, task.file))]
    parts = [time.within(first, last + 1).align(micros) for first, last in bounds]
    return Ranges.of(part for ranges in parts for part in ranges).length // micros


def _windows_of(run: LevelRun, file: DataFile) -> Ranges | None:
    """Return the range from the first window of a level's file to its last, by its bounds."""
    times = read_time_bounds(run.target, file)
    return Ranges.of([(times[0], times[1] + run.level.micros)]) if times else None


def _make_marking(table: Table, owner: str, time: Ranges, file: DataFile) -> MarkTask:
    partition = tuple(partition_to_json(table.metadata, file, file.spec_id))
    return MarkTask(owner, time, file.file_path, file.spec_id, partition)


def _by_owner(table: Table, tasks: Iterable[FileScanTask]) -> dict[str, list[FileScanTask]]:
    """Group files by organization. A file with rows of several is in the group of each."""
    found: defaultdict[str, list[FileScanTask]] = defaultdict(list)
    for task in tasks:
        owner = find_organization(table, task.file)
        for name in [owner] if owner is not None else _owners_in(table, task.file):
            found[name].append(task)
    return found


def _owners_in(table: Table, file: DataFile) -> list[str]:
    """Return the organizations of a file whose partition does not identify them, from the column itself."""
    column = read_columns(table.io, file.file_path, ["organization_id"]).column(0)
    return sorted(str(name) for name in column.unique().to_pylist() if name is not None)
