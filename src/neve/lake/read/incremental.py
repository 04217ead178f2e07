"""Time windows that changes of a table touch, by organization, and the rows of files in such windows.

The summary of a commit lists the windows that it changed. For other writers' commits, the rows are read.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.lake.read.data_file_reader import read_columns
from neve.lake.read.file_values import OWNER, TIME, find_organization, partition_period, read_time_bounds
from neve.lake.read.history import read_summary
from neve.lake.read.positions import Changes
from neve.lake.read.snapshot_files import list_changed_files
from neve.lake.time_columns import to_moments, windows_in
from neve.lake.time_ranges import BEGINNING, NO_TIME, Ranges
from neve.model.commits import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.read.snapshot_files import ChangedFile

Frozen = Callable[[str], int]  # the time before which an organization's source may be incomplete


def never_frozen(_owner: str) -> int:
    """Return a time before all data: nothing is frozen."""
    return BEGINNING


EVERYONE = "*"
SECOND = 1_000_000
DAY = 86_400 * SECOND
MAX_CHARACTERS = 8_000  # every later metadata file contains the summary
MAX_ROWS = 20_000_000  # rows whose times are read one by one; with more, the time bounds of each file are used


def format_changed_windows(changed: Mapping[str, Ranges]) -> dict[str, str]:
    """Format the windows that a commit changed by organization, as summary properties for the next consumer.

    If the text is too long, it covers somewhat more than changed.
    """
    everyone = Ranges.of(part for ranges in changed.values() for part in ranges)
    for shorter in (
        changed,
        {owner: ranges.close_gaps(DAY) for owner, ranges in changed.items()},
        {owner: ranges.join_to(1) for owner, ranges in changed.items()},
        {EVERYONE: everyone.join_to(1)},
    ):
        text = json.dumps(
            {owner: [[start // SECOND, end // SECOND] for start, end in ranges] for owner, ranges in shorter.items()},
            separators=(",", ":"),
        )
        if len(text) <= MAX_CHARACTERS:
            break
    return {WINDOWS: text}


def parse_changed_windows(text: str) -> dict[str, Ranges]:
    """Return the changed windows by organization. Those of `EVERYONE` apply to all organizations."""
    return {
        owner: Ranges.of((start * SECOND, end * SECOND) for start, end in ranges)
        for owner, ranges in json.loads(text).items()
    }


@dataclass(frozen=True)
class TouchedWindows:
    """Time ranges by organization. `everyone` is for rows of unknown organizations."""

    owners: dict[str, Ranges] = field(default_factory=dict)
    everyone: Ranges = NO_TIME
    commits: int = 0

    def of(self, owner: str) -> Ranges:
        """Return the touched time ranges of one organization."""
        return self.owners.get(owner, NO_TIME) | self.everyone

    @property
    def all(self) -> Ranges:
        """Return the touched time ranges of all organizations."""
        return Ranges.of([part for ranges in (*self.owners.values(), self.everyone) for part in ranges])


def find_touched_windows(source: Table, snapshots: Iterable[Snapshot], micros: int) -> TouchedWindows:
    """Return the windows that some snapshots changed, from their summaries or from the rows of the changed files."""
    found: defaultdict[str, list[Ranges]] = defaultdict(list)
    commits, rows = 0, 0
    for snapshot in Changes(tuple(snapshots)).commits:
        commits += 1
        text = read_summary(snapshot).get(WINDOWS)
        if text is not None:
            for owner, ranges in parse_changed_windows(text).items():
                found[owner].append(ranges)
            continue
        for changed in list_changed_files(source, snapshot):
            rows += changed.file.record_count
            for owner, ranges in _windows_of_file(source, changed, micros, exactly=rows <= MAX_ROWS).items():
                found[owner].append(ranges)
    owners = {
        owner: Ranges.of(part for ranges in several for part in ranges).align(micros)
        for owner, several in found.items()
    }
    return TouchedWindows(owners, owners.pop(EVERYONE, NO_TIME), commits)


def _windows_of_file(source: Table, changed: ChangedFile, micros: int, *, exactly: bool) -> dict[str, Ranges]:
    owner = find_organization(source, changed.file)
    if changed.deletes:  # the partition is exact enough for the rows that it deletes
        return {owner or EVERYONE: partition_period(source, changed.file)}
    if exactly:
        # The bounds of a file that was removed, or has other columns, cover all its windows too, and perhaps more.
        with suppress(OSError, KeyError, pa.ArrowInvalid):
            return _windows_of_rows(source, changed.file, owner, micros)
    bounds = read_time_bounds(source, changed.file)
    time = Ranges.of([(bounds[0], bounds[1] + 1)]) if bounds else partition_period(source, changed.file)
    return {owner or EVERYONE: time}


def _windows_of_rows(source: Table, file: DataFile, owner: str | None, micros: int) -> dict[str, Ranges]:
    rows = read_columns(source.io, file.file_path, [TIME] if owner is not None else [TIME, OWNER])
    moments = to_moments(rows.column(TIME))
    if owner is not None:
        return {owner: windows_in(moments, micros)}
    return {
        EVERYONE if name is None else name: windows_in(moments[mine], micros)
        for name, mine in _masks_by_owner(rows.column(OWNER))
    }


def _masks_by_owner(owners: pa.ChunkedArray) -> Iterable[tuple[str | None, npt.NDArray[np.bool_]]]:
    coded = pc.dictionary_encode(owners.cast(pa.large_string()).combine_chunks(), null_encoding="encode")
    codes = np.asarray(coded.indices)
    return ((name, codes == code) for code, name in enumerate(coded.dictionary.to_pylist()))


@dataclass(frozen=True)
class RowPositions:
    """Positions and times of some rows of a file, and the number of all its rows."""

    positions: npt.NDArray[np.int64]
    moments: npt.NDArray[np.int64]
    total: int


def find_rows_within(io: FileIO, path: str, windows: Mapping[str, Ranges]) -> RowPositions:
    """Find the rows of a file that are in windows of their organization: a consumer replaces them."""
    rows = read_columns(io, path, [TIME, OWNER])
    moments, found = to_moments(rows.column(TIME)), np.zeros(rows.num_rows, dtype=bool)
    for owner, mine in _masks_by_owner(rows.column(OWNER)):
        if owner is not None and owner in windows:
            found |= mine & windows[owner].holds(moments)
    return RowPositions(np.flatnonzero(found), moments[found], rows.num_rows)
