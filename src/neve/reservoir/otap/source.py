"""Source folder of a run: its files, the windows of their records, the plan of windows to sample, and true counts.

`count_truth_rows` counts the full data on Spark, to compare estimates with.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import ConfigError, InputError
from neve.lake.spark.tasks import count_slices
from neve.lake.storage.filesystem import resolve_filesystem
from neve.otap.folder import Listing, list_folder
from neve.otap.part_reader import infer_part_offsets, read_ids
from neve.otap.star_rows import NONE
from neve.otap.tables import STARS, schema
from neve.reservoir.otap.decide import default_rows
from neve.reservoir.otap.root_files import run_reporting_tasks, scan_root_file, scheme_of
from neve.reservoir.otap.sample_reader import ALIASES
from neve.reservoir.otap.views import Parts, open_session, open_views
from neve.reservoir.weights import WEIGHTS, attributes_of, number_sql, to_invalid_weight, weights_view
from neve.reservoir.windows import NANOS, Window, nanos_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

    from neve.lake.config import S3Config
    from neve.lake.lake import Lake
    from neve.otap.folder import OtapFile
    from neve.otap.ids import Offsets
    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.otap.ledger import Ledger, SampledWindow
    from neve.reservoir.otap.root_files import RootFile
    from neve.reservoir.otap.sample_reader import SampleRequest


@dataclass(frozen=True)
class PlannedWindow:
    """A window to sample, with all files that hold records of it."""

    window: Window
    files: tuple[RootFile, ...]
    reason: str
    replaces: SampledWindow | None = None

    @property
    def records(self) -> int:
        """The number of records of the window."""
        return sum(dict(file.windows)[self.window.start_ns] for file in self.files)

    @property
    def generation(self) -> int:
        """The number of earlier samplings of the window.

        A run that died in the middle is repeated and does not count.
        """
        return self.replaces.generation + self.replaces.done if self.replaces else 0


@dataclass(frozen=True)
class Plan:
    """Windows to sample, in the order of time, and the numbers of unchanged and of waiting windows.

    `gone` are sampled windows whose source files have all been removed: their samples stay.
    """

    to_sample: tuple[PlannedWindow, ...]
    current: int
    waiting: int
    other_policy: int
    gone: int = 0


@dataclass(frozen=True)
class PlanScope:
    """Selection of the windows of a run."""

    seconds: int
    now_ns: int
    settle_seconds: int = 0
    since: datetime | None = None
    until: datetime | None = None
    again: bool = False

    def covers(self, window: Window) -> bool:
        """Return whether the run includes a window."""
        return window.within(self.since, self.until)

    def is_settled(self, window: Window) -> bool:
        """Return whether a window ended long enough ago."""
        return window.end_ns + self.settle_seconds * NANOS <= self.now_ns or not self.settle_seconds


def plan_windows(files: Iterable[RootFile], known: Mapping[int, SampledWindow], policy: str, scope: PlanScope) -> Plan:
    """Plan the windows whose files changed since they were sampled, or that were never sampled."""
    by_start: dict[int, list[RootFile]] = {}
    for file in files:
        for start, _count in file.windows:
            by_start.setdefault(start, []).append(file)
    to_sample, current, waiting, other_policy = [], 0, 0, 0
    for start, found in sorted(by_start.items()):
        window = Window(start, scope.seconds)
        if not scope.covers(window):
            continue
        if not scope.is_settled(window):
            waiting += 1
            continue
        before = known.get(start)
        reason = _reason(before, found, again=scope.again)
        if reason:
            to_sample.append(PlannedWindow(window, tuple(sorted(found, key=lambda file: file.path)), reason, before))
        else:
            current += 1
            other_policy += before is not None and before.policy != policy
    gone = sum(scope.covers(Window(start, scope.seconds)) for start in known.keys() - by_start.keys())
    return Plan(tuple(to_sample), current, waiting, other_policy, gone)


def _reason(before: SampledWindow | None, files: list[RootFile], *, again: bool) -> str:
    if before is None:
        return "not sampled yet"
    if not before.done:
        return "an earlier run was interrupted"
    new = {file.identity for file in files} - set(before.files)
    gone = set(before.files) - {file.identity for file in files}
    if gone:
        return f"{len(new):,} of its files are new or changed, {len(gone):,} were deleted"
    if new:
        return f"{len(new):,} late file{'s' if len(new) > 1 else ''}"
    return "resampling was requested" if again else ""


FEW = 2  # so few files are scanned faster here than on Spark


@dataclass
class Source:
    """A folder of OTAP Parquet.

    Its parts are checked, and the offsets of their batches inferred, once.
    """

    lake: Lake
    signal: str
    listing: Listing
    files: tuple[RootFile, ...] = ()
    offsets: dict[str, Offsets | None] = field(default_factory=dict)

    @classmethod
    def of(cls, lake: Lake, folder: str, signal: str) -> Source:
        """Return the folder in its current state."""
        folder = folder.rstrip("/")
        filesystem, base = resolve_filesystem(folder, lake.s3)
        listing, scheme = list_folder(base, filesystem), scheme_of(folder)
        if signal not in listing:
            raise InputError(f"{folder} has no folder {signal}", hint="name the signal: --signal logs or spans")
        files = {
            table: tuple(replace(file, path=scheme + file.path) for file in found) for table, found in listing.items()
        }
        return cls(lake, signal, Listing(files, listing.ignored))

    def scan_root_files(
        self, seconds: int, known: Mapping[tuple[str, int, int], RootFile], progress: Callable[[str, int, int], None]
    ) -> tuple[RootFile, ...]:
        """Scan the root files for the windows of their records; known files are not read again."""
        found = self.listing[self.signal]
        new = [file for file in found if _file_identity(file) not in known]
        s3 = self.lake.s3
        if len(new) <= FEW:
            scanned = [scan_root_file(file, seconds, s3) for file in new]
        else:
            work = partial(scan_root_file, seconds=seconds, s3=s3)
            spark = self.lake.spark
            scanned = run_reporting_tasks(spark, work, new, partial(progress, "new files"), slices=count_slices(spark))
        all_of_them = {**known, **{file.identity: file for file in scanned}}
        self.files = tuple(all_of_them[_file_identity(file)] for file in found)
        return self.files

    def parts_of(self, planned: PlannedWindow) -> Parts:
        """Return the parts that have records of a window."""
        parts = sorted({file.part for file in planned.files})
        for part in parts:
            if part not in self.offsets:
                self._check_ids(part)
                self.offsets[part] = infer_part_offsets(self.lake.s3, self._files(part, tuple(self.listing)))
        files = {part: self._files(part, STARS[self.signal].tables) for part in parts}
        return Parts(files, {part: self.offsets[part] for part in parts})

    def _check_ids(self, part: str) -> None:
        """Reject a part in which two records have one id, because the owner of the attributes would be ambiguous."""
        mine = [file for file in self.files if file.part == part]
        twice = next((file.twice for file in mine if file.twice is not None), None)
        if twice is None:
            twice = _shared_id(find_overlapping(mine), self.lake.s3)
        if twice is not None:
            raise InputError(
                f"two records of {self.signal} have the id {twice} in the part {part or 'of the flat folder'}",
                hint="`neve otap check` names all of them; nothing of the window was published",
            )

    def _files(self, part: str, tables: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        return {
            table: tuple(file.path for file in self.listing.get(table, ()) if file.part == part) for table in tables
        }


def plan_source(config: ReservoirConfig, files: Sequence[RootFile], ledger: Ledger, scope: PlanScope) -> Plan:
    """Plan the windows of a source that must be sampled into a target."""
    known = ledger.read_windows()
    _check_length(config, known)
    return plan_windows(files, known, config.policy, scope)


def _check_length(config: ReservoirConfig, known: Mapping[int, SampledWindow]) -> None:
    other = next((one for one in known.values() if one.seconds != config.window_seconds), None)
    if other is not None:
        raise ConfigError(
            f"{config.target} holds windows of {other.seconds} s, reservoir.window_seconds is {config.window_seconds}",
            hint="name another target; otherwise a record would be in two windows",
        )


def find_overlapping(files: Iterable[RootFile]) -> list[str]:
    """Return the files that may share an id with another file, by the smallest and the largest id of each."""
    found: set[str] = set()
    widest = (NONE, NONE, "")
    for stretch in sorted((*file.ids, file.path) for file in files if file.ids):
        if stretch[0] <= widest[1]:
            found |= {stretch[2], widest[2]}
        widest = max(widest, stretch, key=lambda one: one[1])
    return sorted(found)


def _shared_id(paths: Sequence[str], s3: S3Config) -> int | None:
    """Return an id that records of two files share."""
    ids = np.sort(np.concatenate([np.zeros(0, np.int64), *(read_ids(path, s3)[0] for path in paths)]))
    again = ids[1:][(ids[1:] == ids[:-1]) & (ids[1:] != NONE)]
    return int(again[0]) if len(again) else None


def _file_identity(file: OtapFile) -> tuple[str, int, int]:
    return file.path, file.size, file.modified_ms


DAY = 86_400


def count_truth_rows(lake: Lake, folder: str, config: ReservoirConfig, request: SampleRequest) -> pa.Table:
    """Count the records of each group (and value), for `neve.reservoir.estimate.comparison.Truth.of`.

    The signal and the attributes of groups are those of `config`. Times are cut to whole seconds.
    """
    signal = config.signal
    source = Source.of(lake, folder, signal)
    files = source.scan_root_files(DAY, {}, lambda _step, _done, _total: None)
    starts = [start for file in files for start, _count in file.windows]
    first = nanos_of(request.since) // NANOS if request.since else min(starts, default=0) // NANOS
    last = -(-nanos_of(request.until) // NANOS) if request.until else max(starts, default=0) // NANOS + DAY
    planned = PlannedWindow(Window(first * NANOS, max(0, last - first)), files, "the whole")
    session = open_session(lake.spark)
    open_views(session, signal, planned, source.parts_of(planned), lake.s3)
    weights_view(session, config).createOrReplaceTempView(WEIGHTS)
    try:
        return session.sql(_counts_sql(config, request.of)).toArrow()
    except Exception as error:
        raise to_invalid_weight(error) or error from error


def _counts_sql(config: ReservoirConfig, of: str | None) -> str:
    """Return the SQL that counts records by group and value over the views."""
    signal, rows = config.signal, f"({default_rows(config)})"
    if of is None:
        return f"SELECT group, sum(weight) AS count FROM {rows} GROUP BY group"
    column = ALIASES.get(of, of)
    if column in schema(signal).names:
        values = f"SELECT _part_id, id, CAST({column} AS DOUBLE) AS value FROM {signal}"
    else:
        key = of.replace("\\", "\\\\").replace("'", "\\'")
        own = attributes_of(signal)
        numbers = f"SELECT _part_id, parent_id AS id, {number_sql()} AS value FROM {own} WHERE key = '{key}'"
        values = f"SELECT _part_id, id, max(value) AS value FROM ({numbers}) GROUP BY _part_id, id"
    return (
        f"SELECT r.group, v.value, sum(r.weight) AS count FROM {rows} r LEFT JOIN ({values}) v "
        "ON v._part_id = r._part_id AND v.id = r.id GROUP BY r.group, v.value"
    )
