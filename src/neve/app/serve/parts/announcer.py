"""The announcer part: finds new snapshots of changed tables, and announces each commit.

Writers announce nothing themselves. So no commit is missed when its writer dies, and commits of other programs are
announced too. A commit may be announced twice: readers recognize it by its id. Other parts only note which tables they
changed, so that an unavailable store or bus delays this part alone.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from pyiceberg.transforms import DayTransform

from neve.errors import LakeError, NeveError
from neve.jobs.routing import Announcement
from neve.lake.read.file_values import EPOCH
from neve.lake.read.history import read_summary
from neve.lake.read.positions import NO_POSITION, find_changes
from neve.lake.read.snapshot_files import list_changed_files
from neve.logger import get_logger
from neve.model.commits import OPERATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.app.serve.part import ReportDetails
    from neve.lake.lake import Lake
    from neve.state.documents import Documents


SPACE = "announced"
# A commit of more files than this is announced as a whole: reading all of them to find their days is too expensive.
MOST_FILES = 2000

log = get_logger("neve.jobs")


class AnnouncementsDelayed(NeveError):
    """Raised when commits can't be announced; the next check finds them again."""


@dataclass(frozen=True)
class Announcer:
    """Announces the commits of a lake's tables.

    `publish` stores the announcements of a commit on a table, or sends them; it raises `LakeError` if it can't.
    """

    lake: Lake
    documents: Documents
    publish: Callable[[str, Sequence[Announcement]], None]

    def look_at(self, tables: Iterable[str]) -> int:
        """Announce the new commits of some tables; a table that can't be read does not delay the others."""
        announced = 0
        for name in tables:
            try:
                announced += self.look(name)
            except AnnouncementsDelayed:
                raise
            except Exception as error:
                # Any error of the catalog or the storage: the next check finds the same commits.
                log.warning("commits not announced yet", table=name, error=str(error))
        return announced

    def look(self, name: str) -> int:
        """Announce the new commits of a table and return their number. Raises `AnnouncementsDelayed`."""
        table = self.lake.table(name)
        current, before = table.metadata.current_snapshot_id, self._position(table)
        if current is None or current == before:
            return 0
        changes = find_changes(table, before) if before is not None else NO_POSITION
        if changes.gap:
            self._tell(table, name, [build_table_announcement(table, name)])
            return 1
        for snapshot in changes.snapshots:
            # One commit at a time: if it can't be announced, the manifests of only one commit were read.
            self._tell(table, name, build_announcements(table, name, snapshot))
        return len(changes.snapshots)

    def _tell(self, table: Table, name: str, announcements: Sequence[Announcement]) -> None:
        """Announce one commit, and store that it was announced."""
        first = announcements[0]
        try:
            self.publish(name, announcements)
        except LakeError as error:
            raise AnnouncementsDelayed(
                f"commits on {name} are not announced yet: {error.message}", hint=error.hint
            ) from error
        document = {"table": name, "snapshot_id": str(first.snapshot_id)}
        self.documents.put(SPACE, str(table.metadata.table_uuid), document)

    def _position(self, table: Table) -> int | None:
        found = self.documents.get(SPACE, str(table.metadata.table_uuid))
        return int(str(found["snapshot_id"])) if found else None


def build_announcements(table: Table, name: str, snapshot: Snapshot) -> list[Announcement]:
    """Return one announcement for each day that a commit added files to, or a single one if it added none."""
    words = read_summary(snapshot)
    if int(words.get("added-data-files", "0")) > MOST_FILES:
        return [_announcement(name, snapshot, "", _added_totals(words))]
    days: dict[str, Counter[str]] = {}
    for change in list_changed_files(table, snapshot):
        if change.added and not change.deletes:
            _add_file(days.setdefault(partition_day(table, change.file), Counter()), change.file)
    return [
        _announcement(name, snapshot, day, added) for day, added in sorted(days.items() or {"": Counter[str]()}.items())
    ]


def build_table_announcement(table: Table, name: str) -> Announcement:
    """Return an announcement of the whole table, for when the new commits are unknown.

    It has no writer: the files are not those of the last writer alone.
    """
    snapshot = table.current_snapshot()
    assert snapshot is not None  # noqa: S101 - who asks has looked
    words = read_summary(snapshot)
    total = Counter(
        records=int(words.get("total-records", "0")),
        files=int(words.get("total-data-files", "0")),
        bytes=int(words.get("total-files-size", "0")),
    )
    return replace(_announcement(name, snapshot, "", total), operation="")


def partition_day(table: Table, file: DataFile) -> str:
    """Return the day of a file's rows by its partition; empty if the partition has none."""
    for place, part in enumerate(table.metadata.specs()[file.spec_id].fields):
        value = file.partition[place]
        if isinstance(part.transform, DayTransform) and value is not None:
            return str(EPOCH + timedelta(days=value) if isinstance(value, int) else value)
    return ""


def _add_file(added: Counter[str], file: DataFile) -> None:
    added.update(records=file.record_count, files=1, bytes=file.file_size_in_bytes)


def _added_totals(words: dict[str, str]) -> Counter[str]:
    return Counter(
        records=int(words.get("added-records", "0")),
        files=int(words.get("added-data-files", "0")),
        bytes=int(words.get("added-files-size", "0")),
    )


def _announcement(name: str, snapshot: Snapshot, window: str, added: Counter[str]) -> Announcement:
    return Announcement(
        table=name,
        snapshot_id=snapshot.snapshot_id,
        operation=read_summary(snapshot).get(OPERATION, ""),
        window=window,
        records=added["records"],
        files=added["files"],
        bytes=added["bytes"],
        at=snapshot.timestamp_ms,
    )


TURN_SECONDS = 1.0
RETRY_SECONDS = 5.0


class ChangedTables:
    """Names of tables that may have new commits; threads share it."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._changing = threading.Lock()
        self._there = threading.Event()

    def note(self, tables: Iterable[str]) -> None:
        """Request a check of tables; returns at once."""
        with self._changing:
            self._names.update(dict.fromkeys(tables))
            if self._names:
                self._there.set()

    def take(self, seconds: float) -> list[str]:
        """Return the changed tables in order; empty after the timeout."""
        self._there.wait(seconds)
        with self._changing:
            names = [*self._names]
            self._names.clear()
            self._there.clear()
        return names


@dataclass(frozen=True)
class AnnouncerPart:
    """Part that checks the changed tables, and announces their new commits; `where` names the store or the bus."""

    announcer: Announcer
    changed_tables: ChangedTables
    where: str
    name: str = field(default="announcer")

    def run(self, stop: threading.Event, report: ReportDetails) -> None:
        """Announce commits until asked to stop, including those of all tables that changed by then."""
        reported = ""
        report({"bus": self.where})
        while True:
            last = stop.is_set()
            names = self.changed_tables.take(0 if last else TURN_SECONDS)
            try:
                self.announcer.look_at(names)
                if reported:
                    reported = ""
                    report({"bus": self.where})
            except AnnouncementsDelayed as error:
                self.changed_tables.note(names)
                if error.message != reported:
                    reported = error.message
                    log.warning("commits not announced yet", error=error.message, hint=error.hint)
                report({"error": error.message})
                stop.wait(RETRY_SECONDS)
            if last:
                return
