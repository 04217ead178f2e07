"""Remove files that no metadata of a table names: what writers left that were killed or lost a race."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow.fs as pafs
from pyiceberg.io.pyarrow import PyArrowFileIO

from neve.errors import ConfigError, LakeError
from neve.lake.calendar import EPOCH
from neve.lake.paths import S3, same_path
from neve.maintain.expire import collects_nothing
from neve.maintain.orphans_plan import Limits, Listed, OrphanPlan, plan_orphans
from neve.maintain.reachable import reachable_files
from neve.maintain.result import Cost, Gain, Outcome
from neve.maintain.words import counted

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.maintain.work import Work

STEP = "orphans"
SAFE_AGE = timedelta(hours=24)
DELETES_AT_ONCE = 16
AT_ONCE = 1000  # deleted between two looks at whether the table is still ours
MANIFEST = ".avro"
CLOCK = ".neve-clock"  # a hidden name: no orphan
LISTED_BY_A_CALL = 1000  # of object storage


def orphans(work: Work, *, older_than: timedelta | None = None, force_young: bool = False) -> Outcome:
    """Find orphans, and remove them unless it is a dry run; raises `ConfigError` for an age that is not safe."""
    age = timedelta(hours=work.config.orphans.older_than_hours) if older_than is None else older_than
    check_age(age, force_young=force_young)
    table = work.table()
    if collects_nothing(table):
        return Outcome("the table says gc.enabled=false, so nothing of it may be removed")
    folder = _Folder(table)
    # Either clock may be wrong: a file goes when it is old by both. Taken before the listing, so that what is written
    # meanwhile is young.
    now = min(work.now, _storage_time(work, folder))
    listed = folder.files()
    # What is committed while the listing runs is known by the metadata that is read after it.
    table = work.table()
    reachable = reachable_files(table)
    plan = plan_orphans(listed, reachable, _limits(work, table, now - age))
    calls = 1 + len(listed) // LISTED_BY_A_CALL + sum(path.endswith(MANIFEST) for path in reachable)
    if work.dry_run or not plan.remove:
        return _told(plan, calls)
    plan = _still(work, table, plan)
    failures = _remove(work, folder, plan)
    if failures:
        raise LakeError(
            f"{len(failures)} of {len(plan.remove)} orphans of {work.name} were not removed, the first: {failures[0]}",
            hint="the others are gone; run the command again",
        )
    gain = Gain(files=len(plan.remove), bytes=plan.bytes)
    reason = f"{counted(len(plan.remove), 'orphan')} removed of {counted(plan.files, 'file')}"
    return Outcome(reason, True, plan.entries, gain, Cost(api_calls=calls + len(plan.remove)))


def check_age(age: timedelta, *, force_young: bool) -> None:
    """Raises `ConfigError` for an age at which a writer may still be at work, unless that is what the user wants."""
    if age < SAFE_AGE and not force_young:
        raise ConfigError(
            f"orphans would be taken for such at an age of {age.total_seconds() / 3600:g} h, expected at least 24 h",
            hint="files that a writer has not committed yet look like orphans; --force-young if nobody writes",
        )


def _storage_time(work: Work, folder: _Folder) -> datetime:
    """The time by the clock that files get their times from; a dry run also works where nothing can be written."""
    try:
        return folder.now()
    except OSError as error:
        if work.dry_run:
            return work.now
        raise LakeError(
            f"can't tell the time of the storage of {work.name}: {error}",
            hint="the age of files is told by a file that is written beside them; without it nothing is removed",
        ) from error


def _limits(work: Work, table: Table, older_than: datetime) -> Limits:
    return Limits(
        location=same_path(table.location()),
        older_than=older_than,
        protected=frozenset(map(same_path, work.guards.protected)),
        kept_out=tuple(map(same_path, (*work.guards.kept_out, *work.guards.folders()))),
    )


def _still(work: Work, table: Table, plan: OrphanPlan) -> OrphanPlan:
    """The plan without what a commit has begun to name since."""
    fresh = work.table()
    if fresh.metadata_location == table.metadata_location:
        return plan
    known = reachable_files(fresh)
    remove = tuple(file for file in plan.remove if same_path(file.path) not in known)
    gone = {file.path for file in plan.remove} - {file.path for file in remove}
    return OrphanPlan(remove, tuple(entry for entry in plan.entries if entry.what not in gone), plan.files)


def _remove(work: Work, folder: _Folder, plan: OrphanPlan) -> list[str]:
    failures: list[str] = []
    paths = [file.path for file in plan.remove]
    with ThreadPoolExecutor(DELETES_AT_ONCE) as pool:
        for first in range(0, len(paths), AT_ONCE):
            work.tell(STEP, first, len(paths))
            work.check()
            failures += [failure for failure in pool.map(folder.remove, paths[first : first + AT_ONCE]) if failure]
    work.tell(STEP, len(paths), len(paths))
    return failures


def _told(plan: OrphanPlan, calls: int) -> Outcome:
    unknown = len(plan.entries) - len(plan.remove)
    kept = f"; {unknown} more that nobody knows are kept" if unknown else ""
    found = counted(len(plan.remove), "orphan") if plan.remove else "no orphans"
    gain = Gain(files=len(plan.remove), bytes=plan.bytes)
    return Outcome(
        f"{found} among {counted(plan.files, 'file')}{kept}", False, plan.entries, gain, Cost(api_calls=calls)
    )


class _Folder:
    """A table's folder, by the file system and with the login that the table itself is read with."""

    def __init__(self, table: Table) -> None:
        io = PyArrowFileIO(table.io.properties)
        scheme, host, self._path = io.parse_location(table.location())
        self._filesystem = io.fs_by_scheme(scheme, host)
        self._prefix = f"{scheme}://" if scheme in S3 else ""

    def now(self) -> datetime:
        """The time by the storage's own clock: that of a file which is written, looked at and removed again."""
        path = f"{self._path.rstrip('/')}/{CLOCK}-{uuid4()}"
        with self._filesystem.open_output_stream(path, compression=None) as stream:
            stream.write(b"what time is it")
        try:
            changed = self._filesystem.get_file_info(path).mtime_ns
        finally:
            self._filesystem.delete_file(path)
        if not changed:
            raise OSError("it does not say when a file was written")
        return _moment(changed)

    def files(self) -> list[Listed]:
        """Every file below the folder."""
        selector = pafs.FileSelector(self._path, recursive=True, allow_not_found=True)
        return [
            Listed(f"{self._prefix}{entry.path}", entry.size or 0, _moment(entry.mtime_ns))
            for entry in self._filesystem.get_file_info(selector)
            if entry.type == pafs.FileType.File
        ]

    def remove(self, path: str) -> str:
        """Remove a file; what went wrong, or nothing. A file that is gone already is no failure."""
        try:
            self._filesystem.delete_file(path.removeprefix(self._prefix))
            self._remove_checksum(path)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{path}: {error}"
        return ""

    def _remove_checksum(self, path: str) -> None:
        """Hadoop puts a checksum beside each file on a local disk."""
        if not self._prefix:
            folder, _, name = path.rpartition("/")
            with suppress(FileNotFoundError):
                self._filesystem.delete_file(f"{folder}/.{name}.crc")


def _moment(nanoseconds: int | None) -> datetime:
    """When a file was changed; where storage does not say, it counts as new."""
    return (
        datetime.max.replace(tzinfo=EPOCH.tzinfo)
        if not nanoseconds
        else EPOCH + timedelta(microseconds=nanoseconds // 1000)
    )
