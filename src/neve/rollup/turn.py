"""One level's turn: what is wanted of it, the tasks that compute it, and the rows that it replaces."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, Or

from neve.errors import LakeError
from neve.lake.changes import owner_of, partition_json, snapshots_since, times_of
from neve.lake.content import bare_content
from neve.lake.row_change import RowChange
from neve.lake.writer import Target
from neve.model.rollups import LEVELS
from neve.rollup.position import Position
from neve.rollup.ranges import BEGINNING, END, EVERYTHING, Ranges, floor
from neve.rollup.slices import Held, files_for, pieces_of
from neve.rollup.tasks import Assignment, Marking, Slice, between
from neve.rollup.touched import touched_by
from neve.rollup.wanted import Terms, want

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

    from neve.lake.content import Content
    from neve.model.rollups import Level
    from neve.rollup.config import RollupConfig
    from neve.rollup.definition import Definition
    from neve.rollup.tasks import Done
    from neve.rollup.wanted import Frozen, Wanted

MICROS = 1_000_000
STALE_MILLIS = 1_800_000  # after which a position is written anew though nothing was computed
MOST_RANGES = 50  # that a scan is asked for apart


@dataclass(frozen=True)
class Turn:
    """A level and its source as they are at one moment."""

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
        """Whether the source is points."""
        return self.level.source == LEVELS[0].source

    @cached_property
    def was(self) -> Position | None:
        """Where the level is."""
        return Position.of(self.target)

    @cached_property
    def position(self) -> Position:
        """Where it is to be."""
        snapshot = self.source.metadata.current_snapshot_id
        return Position(snapshot, self._closed_until, self.definition.fingerprint, self.config.partial)

    @cached_property
    def wanted(self) -> Wanted:
        """What is to be computed."""
        line = snapshots_since(self.source, self.was.snapshot) if self.was else None
        same = self.was is not None and self.was.definition == self.position.definition
        below = next((level.micros for level in LEVELS if level.table == self.level.source), self.level.micros)
        touched = touched_by(self.source, line, below) if line is not None and same else None
        after = self.definition.lookback_micros if self.is_raw else 0
        terms = Terms(after, self.since, self.frozen, has_rows=self.target.metadata.current_snapshot_id is not None)
        return want(self.level, self.was, self.position, touched, terms)

    @property
    def assignment(self) -> Assignment:
        """What its tasks need to know."""
        return Assignment(
            Target.of(self.source),
            Target.of(self.target),
            self.level,
            self.definition,
            self.position.closed_until,
            self.is_raw,
        )

    @property
    def must_tell(self) -> bool:
        """Whether the new position must be written though no row changes."""
        if self.was is None or self.was == self.position:
            return False
        return self._is_stale(self.was) or self._closes_above(self.was.closed_until)

    def _closes_above(self, was: int) -> bool:
        """Whether a window of a coarser level that has rows is closed by what this level knows now."""
        for above in (level for level in LEVELS if level.seconds > self.level.seconds):
            start = floor(was, above.micros)
            crossed = self.position.closed_until >= start + above.micros
            if crossed and start < was and scan(self.target, Ranges.of([(start, was)])):
                return True
        return False

    def _is_stale(self, was: Position) -> bool:
        """Whether a position is so old that expiry has to keep snapshots of the source for it."""
        if was.snapshot is None:
            return False
        then, newest = self.source.metadata.snapshot_by_id(was.snapshot), self.source.current_snapshot()
        return then is not None and newest is not None and newest.timestamp_ms - then.timestamp_ms > STALE_MILLIS

    @property
    def _closed_until(self) -> int:
        """Windows of the first level are closed by the clock, those of the others by the level below."""
        if self.is_raw:
            moment = self.now - self.config.grace_seconds * MICROS
        else:
            below = Position.of(self.source)
            moment = below.closed_until if below else BEGINNING
        return max(floor(moment, self.level.micros), self.was.closed_until if self.was else BEGINNING)


@dataclass(frozen=True)
class Planned:
    """What is to be done: tasks, and files of which no row stays."""

    reason: str
    ranges: dict[str, Ranges]
    left: int
    tasks: tuple[Slice | Marking, ...] = ()
    removed: tuple[tuple[str, Ranges, Content], ...] = ()
    from_snapshot: int | None = None

    def change(self, done: Sequence[Done]) -> RowChange:
        """The commit that the tasks' results make."""
        deletes = tuple(file for one in done for file in one.deletes)
        return RowChange(
            added=tuple(file for one in done for file in one.added),
            deletes=deletes,
            removed=tuple(content for _owner, _windows, content in self.removed),
            marked=tuple(str(file["referenced-data-file"]) for file in deletes),
            from_snapshot=self.from_snapshot,
        )

    def windows(self, done: Sequence[Done]) -> dict[str, Ranges]:
        """The windows that have other rows afterwards, or none any more."""
        found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for one in done:
            found[one.owner] += one.windows.parts
        for owner, windows, _content in self.removed:
            found[owner] += windows.parts
        return {owner: Ranges.of(parts) for owner, parts in sorted(found.items()) if parts}


def plan_turn(turn: Turn) -> Planned:
    """Find the files that are about the wanted time; reads metadata alone."""
    wanted = turn.wanted
    if not wanted.hull:
        return Planned(wanted.reason, {}, 0)
    lookback = turn.assignment.lookback
    sources = _by_owner(turn.source, scan(turn.source, wanted.hull.widened(before=lookback)))
    targets = _by_owner(turn.target, scan(turn.target, wanted.hull))
    owners = sorted({*sources, *targets, *wanted.touched.owners})
    ranges = {owner: found for owner in owners if (found := _kept_to(turn, owner, sources.get(owner, [])))}
    left = sum(_held(turn.source, sources.get(owner, []), wanted.left(owner), turn.level.micros) for owner in owners)
    tasks: list[Slice | Marking] = []
    removed = []
    for owner, time in ranges.items():
        tasks += _slices(turn, owner, time, sources.get(owner, []))
        for task in targets.get(owner, []):
            windows = _windows_of(turn, task.file)
            is_mine = owner_of(turn.target, task.file) == owner
            if is_mine and windows is not None and time.within(*windows.parts[0]) == windows:
                removed.append((owner, windows, _content(turn.target, task.file)))
            else:
                tasks.append(_marking(turn.target, owner, time, task.file))
    snapshot = turn.target.metadata.current_snapshot_id
    return Planned(wanted.reason, ranges, left, tuple(tasks), tuple(removed), snapshot)


def _kept_to(turn: Turn, owner: str, files: Sequence[FileScanTask]) -> Ranges:
    """The windows of an organization that are computed; where all are, rows that outlived their points stay."""
    time = turn.wanted.of(owner)
    if turn.wanted.everyone != EVERYTHING:
        return time
    bounds = [times_of(turn.source, task.file) or (BEGINNING, END) for task in files]
    earliest = min((first for first, _last in bounds), default=END)
    return time.within(start=floor(earliest, turn.level.micros))


def _slices(turn: Turn, owner: str, time: Ranges, files: Sequence[FileScanTask]) -> list[Slice]:
    held = [_held_by(turn.source, number, task.file) for number, task in enumerate(files)]
    pieces = pieces_of(time, held, turn.config.slice_points, turn.level.micros)
    return [
        Slice(owner, piece, tuple(files[number] for number in files_for(piece, held, turn.assignment.lookback)))
        for piece in pieces
    ]


def _held_by(source: Table, number: int, file: DataFile) -> Held:
    earliest, latest = times_of(source, file) or (BEGINNING, END)
    return Held(number, earliest, latest, file.record_count)


def _held(source: Table, files: Sequence[FileScanTask], time: Ranges, micros: int) -> int:
    """How many windows of some time may have rows."""
    bounds = [found for task in files if (found := times_of(source, task.file))]
    parts = [time.within(first, last + 1).aligned(micros) for first, last in bounds]
    return Ranges.of(part for ranges in parts for part in ranges).length // micros


def _windows_of(turn: Turn, file: DataFile) -> Ranges | None:
    """From the first window of a level's file to its last, as its bounds tell."""
    times = times_of(turn.target, file)
    return Ranges.of([(times[0], times[1] + turn.level.micros)]) if times else None


def _marking(table: Table, owner: str, time: Ranges, file: DataFile) -> Marking:
    partition = tuple(partition_json(table.metadata, file, file.spec_id))
    return Marking(owner, time, file.file_path, file.spec_id, partition)


def _content(table: Table, file: DataFile) -> Content:
    return bare_content(
        file.file_path,
        file.file_format.value,
        file.spec_id,
        partition_json(table.metadata, file, file.spec_id),
        file.file_size_in_bytes,
        file.record_count,
    )


def scan(table: Table, time: Ranges) -> list[FileScanTask]:
    """The files that may have rows of some time, with what is deleted of them."""
    if table.metadata.current_snapshot_id is None:
        return []
    try:
        return list(table.scan(row_filter=_filter(time)).plan_files())
    except ValueError as error:
        if "equality" not in str(error).lower():
            raise
        name = ".".join(table.name())
        raise LakeError(
            f"{name} has equality deletes, which can't be read without Spark",
            hint=f"`neve compact run {name} --strategy deletes` applies them; then run the rollup again",
        ) from error


def _filter(time: Ranges) -> BooleanExpression:
    if time == EVERYTHING:
        return AlwaysTrue()
    parts = time.parts if len(time.parts) <= MOST_RANGES else ((time.parts[0][0], time.parts[-1][1]),)
    first, *others = (between(start, end) for start, end in parts)
    for other in others:
        first = Or(first, other)
    return first


def _by_owner(table: Table, tasks: Iterable[FileScanTask]) -> dict[str, list[FileScanTask]]:
    """Files by organization; one with rows of several is a file of each of them."""
    found: defaultdict[str, list[FileScanTask]] = defaultdict(list)
    for task in tasks:
        owner = owner_of(table, task.file)
        for name in [owner] if owner is not None else _owners_in(table, task.file):
            found[name].append(task)
    return found


def _owners_in(table: Table, file: DataFile) -> list[str]:
    """The organizations of a file whose partition does not tell, from the column itself."""
    with table.io.new_input(file.file_path).open() as opened:
        column = pq.ParquetFile(opened).read(["organization_id"], use_threads=False).column(0)
    return sorted(str(name) for name in column.unique().to_pylist() if name is not None)
