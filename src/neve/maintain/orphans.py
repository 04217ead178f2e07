"""Remove orphans: old files in a table's folder that no metadata names, left by writers that crashed or lost a race."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow.fs as pafs
from pyiceberg.io.pyarrow import PyArrowFileIO

from neve.errors import ConfigError, LakeError
from neve.lake.calendar import EPOCH
from neve.lake.read.snapshot_files import list_all_manifests, read_entries
from neve.lake.storage.paths import S3_SCHEMES, is_within, normalize_path
from neve.maintain.expire import is_gc_disabled
from neve.maintain.snapshots import format_time
from neve.maintain.step import KEEP, Cost, Entry, Gain, Outcome
from neve.text import format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table import Table

    from neve.maintain.step import StepContext


def find_reachable_files(table: Table) -> frozenset[str]:
    """Return all files that the table's metadata names, in the form of `normalize_path`.

    These are metadata, manifest lists, manifests, data and delete files and statistics.
    """
    return frozenset(map(normalize_path, _iterate_paths(table)))


def _iterate_paths(table: Table) -> Iterator[str]:
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        yield statistics.statistics_path
    yield from (snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list)
    for manifest in list_all_manifests(table):
        yield manifest.manifest_path
        yield from (entry.data_file.file_path for entry in read_entries(table, manifest))


REMOVE = "remove"
METADATA = ".metadata.json"
# Hadoop's catalog stores its pointer in a file that no metadata names.
POINTERS = ("version-hint.text", "version-hint")


@dataclass(frozen=True)
class ListedFile:
    """A file in a table's folder."""

    path: str
    bytes: int
    modified: datetime


@dataclass(frozen=True)
class OrphanLimits:
    """Files that are not orphans although no snapshot contains them. Paths are in the form of `normalize_path`."""

    location: str
    older_than: datetime
    protected: frozenset[str] = frozenset()
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True)
class OrphanPlan:
    """The files to remove, and the reason for each unknown file that is kept."""

    remove: tuple[ListedFile, ...]
    entries: tuple[Entry, ...]
    files: int

    @property
    def bytes(self) -> int:
        """Total size of the files to remove."""
        return sum(file.bytes for file in self.remove)


def plan_orphans(listed: Iterable[ListedFile], reachable: frozenset[str], limits: OrphanLimits) -> OrphanPlan:
    """Select files that no metadata names, under any scheme, that are old enough, and that no other rule protects."""
    every = [file for file in listed if not is_hidden(file.path, limits.location)]
    tables = _find_other_tables(every, limits.location)
    remove, entries = [], []
    for file in every:
        path = normalize_path(file.path)
        if path in reachable:
            continue
        reason = _reason_to_keep(file, path, limits, tables)
        if reason:
            entries.append(Entry(KEEP, file.path, reason, file.bytes))
        else:
            remove.append(file)
            changed = format_time(file.modified)
            entries.append(Entry(REMOVE, file.path, f"no metadata references it; last modified {changed}", file.bytes))
    return OrphanPlan(tuple(remove), tuple(entries), len(every))


def is_hidden(path: str, location: str) -> bool:
    """Return whether a file is not Iceberg's: its name, or its folder's, begins with a dot or an underscore.

    >>> is_hidden("/t/data/.a.crc", "/t"), is_hidden("/t/_tmp/a", "/t"), is_hidden("/t/data/_day=1/a", "/t")
    (True, True, False)
    """
    inner = normalize_path(path).removeprefix(location)
    return any(part.startswith((".", "_")) and "=" not in part for part in inner.split("/"))


def _reason_to_keep(file: ListedFile, path: str, limits: OrphanLimits, tables: tuple[str, ...]) -> str:
    if file.modified >= limits.older_than:
        return f"modified {format_time(file.modified)}: a writer may be about to commit it"
    if path in limits.protected:
        return "a compaction in progress needs it"
    folder = next((folder for folder in (*limits.excluded, *tables) if is_within(path, folder)), "")
    if folder:
        return f"{folder} is excluded" if folder in limits.excluded else f"another table is at {folder}"
    if not is_within(path, limits.location):
        return f"it is not below {limits.location}"
    return "it points to the table's metadata" if path.rsplit("/", 1)[-1] in POINTERS else ""


def _find_other_tables(listed: list[ListedFile], location: str) -> tuple[str, ...]:
    """Return folders below this one that have their own metadata: their files belong to another table."""
    roots = {
        path.rsplit("/", 2)[0]
        for file in listed
        if (path := normalize_path(file.path)).endswith(METADATA) and "/" in path
    }
    return tuple(sorted(root for root in roots if is_within(root, location)))


STEP = "orphans"
SAFE_AGE = timedelta(hours=24)
CONCURRENT_DELETES = 16
FILES_PER_CHECK = 1000  # deleted between two checks of the lease
MANIFEST = ".avro"
CLOCK = ".neve-clock"  # a hidden name, which is never an orphan
LISTED_BY_A_CALL = 1000  # by object storage


def remove_orphans(work: StepContext, *, older_than: timedelta | None = None, force_young: bool = False) -> Outcome:
    """Find orphans, and remove them unless it is a dry run. Raises `ConfigError` for an age that is not safe."""
    age = timedelta(hours=work.config.orphans.older_than_hours) if older_than is None else older_than
    check_age(age, force_young=force_young)
    table = work.table()
    if is_gc_disabled(table):
        return Outcome("nothing is removed: the table property gc.enabled is false")
    folder = _Folder(table)
    # Either clock may be wrong: a file is removed only if it is old by both. The time is read before the listing, so
    # that files written in the meantime are young.
    now = min(work.now, _read_storage_time(work, folder))
    listed = folder.files()
    # The metadata is read after the listing, so it contains the commits that happen during the listing.
    table = work.table()
    reachable = find_reachable_files(table)
    plan = plan_orphans(listed, reachable, _make_limits(work, table, now - age))
    calls = 1 + len(listed) // LISTED_BY_A_CALL + sum(path.endswith(MANIFEST) for path in reachable)
    if work.dry_run or not plan.remove:
        return _report_plan(plan, calls)
    plan = _drop_committed(work, table, plan)
    failures = _remove(work, folder, plan)
    if failures:
        raise LakeError(
            f"{len(failures)} of {len(plan.remove)} orphans of {work.name} were not removed, the first: {failures[0]}",
            hint="the others were removed; run the command again",
        )
    gain = Gain(files=len(plan.remove), bytes=plan.bytes)
    reason = f"{format_count(len(plan.remove), 'orphan')} removed of {format_count(plan.files, 'file')}"
    return Outcome(reason, True, plan.entries, gain, Cost(api_calls=calls + len(plan.remove)))


def check_age(age: timedelta, *, force_young: bool) -> None:
    """Raise `ConfigError` for an age at which a writer may still be active, unless the user forces it."""
    if age < SAFE_AGE and not force_young:
        raise ConfigError(
            f"the minimum age of orphans is {format_duration(age)}, expected at least 24 h",
            hint="uncommitted files of a writer look like orphans; use --force-young if there is no writer",
        )


def _read_storage_time(work: StepContext, folder: _Folder) -> datetime:
    """Return the time of the clock that sets file times. A dry run also works without write access."""
    try:
        return folder.now()
    except OSError as error:
        if work.dry_run:
            return work.now
        raise LakeError(
            f"can't read the clock of the storage of {work.name}: {error}",
            hint="the clock is read from a file that is written to the table's folder; without it nothing is removed",
        ) from error


def _make_limits(work: StepContext, table: Table, older_than: datetime) -> OrphanLimits:
    return OrphanLimits(
        location=normalize_path(table.location()),
        older_than=older_than,
        protected=frozenset(map(normalize_path, work.guards.protected)),
        excluded=tuple(map(normalize_path, (*work.guards.excluded_folders, *work.guards.folders()))),
    )


def _drop_committed(work: StepContext, table: Table, plan: OrphanPlan) -> OrphanPlan:
    """Remove files from the plan that a commit has named since."""
    fresh = work.table()
    if fresh.metadata_location == table.metadata_location:
        return plan
    known = find_reachable_files(fresh)
    remove = tuple(file for file in plan.remove if normalize_path(file.path) not in known)
    gone = {file.path for file in plan.remove} - {file.path for file in remove}
    return OrphanPlan(remove, tuple(entry for entry in plan.entries if entry.what not in gone), plan.files)


def _remove(work: StepContext, folder: _Folder, plan: OrphanPlan) -> list[str]:
    failures: list[str] = []
    paths = [file.path for file in plan.remove]
    with ThreadPoolExecutor(CONCURRENT_DELETES) as pool:
        for first in range(0, len(paths), FILES_PER_CHECK):
            work.report_progress(STEP, first, len(paths))
            work.check()
            failures += [
                failure for failure in pool.map(folder.remove, paths[first : first + FILES_PER_CHECK]) if failure
            ]
    work.report_progress(STEP, len(paths), len(paths))
    return failures


def _report_plan(plan: OrphanPlan, calls: int) -> Outcome:
    unknown = len(plan.entries) - len(plan.remove)
    kept = f"; {unknown} other unreferenced files are kept" if unknown else ""
    found = format_count(len(plan.remove), "orphan") if plan.remove else "no orphans"
    gain = Gain(files=len(plan.remove), bytes=plan.bytes)
    return Outcome(
        f"{found} among {format_count(plan.files, 'file')}{kept}", False, plan.entries, gain, Cost(api_calls=calls)
    )


class _Folder:
    """A table's folder, with the file system and credentials that the table itself is read with."""

    def __init__(self, table: Table) -> None:
        io = PyArrowFileIO(table.io.properties)
        scheme, host, self._path = io.parse_location(table.location())
        self._filesystem = io.fs_by_scheme(scheme, host)
        self._prefix = f"{scheme}://" if scheme in S3_SCHEMES else ""

    def now(self) -> datetime:
        """Return the time of the storage's own clock, by writing, checking and removing a file."""
        path = f"{self._path.rstrip('/')}/{CLOCK}-{uuid4()}"
        with self._filesystem.open_output_stream(path, compression=None) as stream:
            stream.write(b"clock")
        try:
            changed = self._filesystem.get_file_info(path).mtime_ns
        finally:
            self._filesystem.delete_file(path)
        if not changed:
            raise OSError("it does not report modification times")
        return _to_datetime(changed)

    def files(self) -> list[ListedFile]:
        """Return every file below the folder."""
        selector = pafs.FileSelector(self._path, recursive=True, allow_not_found=True)
        return [
            ListedFile(f"{self._prefix}{entry.path}", entry.size or 0, _to_datetime(entry.mtime_ns))
            for entry in self._filesystem.get_file_info(selector)
            if entry.type == pafs.FileType.File
        ]

    def remove(self, path: str) -> str:
        """Remove a file. Return the error, or nothing. A file that does not exist any more is not a failure."""
        try:
            self._filesystem.delete_file(path.removeprefix(self._prefix))
            self._remove_checksum(path)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{path}: {error}"
        return ""

    def _remove_checksum(self, path: str) -> None:
        """Remove the checksum that Hadoop stores beside each file on a local disk."""
        if not self._prefix:
            folder, _, name = path.rpartition("/")
            with suppress(FileNotFoundError):
                self._filesystem.delete_file(f"{folder}/.{name}.crc")


def _to_datetime(nanoseconds: int | None) -> datetime:
    """Return the modification time of a file. If storage does not report it, the file counts as new."""
    return (
        datetime.max.replace(tzinfo=EPOCH.tzinfo)
        if not nanoseconds
        else EPOCH + timedelta(microseconds=nanoseconds // 1000)
    )
