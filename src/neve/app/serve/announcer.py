"""Who announces commits: looks at a table's snapshots since the last that was announced, and tells the bus of each.

Nothing has to be announced by whoever commits, so that nothing is missed when it dies right after, and what other
writers commit is announced too. A commit may be announced twice, by two that look at once: readers know it by its id.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from pyiceberg.transforms import DayTransform

from neve.errors import LakeError, NeveError
from neve.lake.changes import EPOCH, changed_files, said, snapshots_since
from neve.model.commits import OPERATION
from neve.work.announcement import Announcement
from neve.work.routes import topic_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.bus import Bus
    from neve.lake.documents import Documents
    from neve.lake.lake import Lake

SPACE = "announced"
# A commit of more files than this is announced as a whole: which days they belong to is not worth reading them all.
MOST_FILES = 2000

log = structlog.get_logger("neve.work")


class BusAway(NeveError):
    """Raised when commits can't be announced; the next look finds them again."""


@dataclass(frozen=True)
class Announcer:
    """Announces the commits of a lake's tables."""

    lake: Lake
    documents: Documents
    bus: Bus

    def look_at(self, tables: Iterable[str]) -> int:
        """Announce what is new in some tables; one that can't be read does not keep the others back."""
        announced = 0
        for name in tables:
            try:
                announced += self.look(name)
            except BusAway:
                raise
            except Exception as error:
                # Whatever it is, of the catalog or the storage: the next look finds the same commits.
                log.warning("commits not announced yet", table=name, error=str(error))
        return announced

    def look(self, name: str) -> int:
        """Announce what is new in a table; how many commits that were. Raises `BusAway` when nobody can be told."""
        table = self.lake.table(name)
        current, before = table.metadata.current_snapshot_id, self._position(table)
        if current is None or current == before:
            return 0
        line = snapshots_since(table, before) if before is not None else None
        if line is None:
            self._tell(table, name, [whole(table, name)])
            return 1
        for snapshot in line:
            # One after the other: whoever finds the bus away has read the manifests of one commit, not of all.
            self._tell(table, name, announcements(table, name, snapshot))
        return len(line)

    def _tell(self, table: Table, name: str, told: Sequence[Announcement]) -> None:
        """Announce one commit, and remember that it was."""
        first = told[0]
        try:
            self.bus.publish(topic_of(first.operation, name), [(one.table, one.value) for one in told])
        except LakeError as error:
            raise BusAway(f"commits on {name} are not announced yet: {error.message}", hint=error.hint) from error
        document = {"table": name, "snapshot_id": str(first.snapshot_id)}
        self.documents.put(SPACE, str(table.metadata.table_uuid), document)

    def _position(self, table: Table) -> int | None:
        found = self.documents.get(SPACE, str(table.metadata.table_uuid))
        return int(str(found["snapshot_id"])) if found else None


def announcements(table: Table, name: str, snapshot: Snapshot) -> list[Announcement]:
    """One commit, once for each day that it added files to; one that added none, once."""
    words = said(snapshot)
    if int(words.get("added-data-files", "0")) > MOST_FILES:
        return [_announcement(name, snapshot, "", _total(words))]
    days: dict[str, Counter[str]] = {}
    for change in changed_files(table, snapshot):
        if change.added and not change.deletes:
            _add(days.setdefault(day_of(table, change.file), Counter()), change.file)
    return [
        _announcement(name, snapshot, day, added) for day, added in sorted(days.items() or {"": Counter[str]()}.items())
    ]


def whole(table: Table, name: str) -> Announcement:
    """All that a table holds, where nobody can tell what is new; it is not the last writer's alone, so of nobody."""
    snapshot = table.current_snapshot()
    assert snapshot is not None  # noqa: S101 - who asks has looked
    words = said(snapshot)
    total = Counter(
        records=int(words.get("total-records", "0")),
        files=int(words.get("total-data-files", "0")),
        bytes=int(words.get("total-files-size", "0")),
    )
    return replace(_announcement(name, snapshot, "", total), operation="")


def day_of(table: Table, file: DataFile) -> str:
    """The day that a file's rows belong to, as its partition tells; empty where it does not."""
    for place, part in enumerate(table.metadata.specs()[file.spec_id].fields):
        value = file.partition[place]
        if isinstance(part.transform, DayTransform) and value is not None:
            return str(EPOCH + timedelta(days=value) if isinstance(value, int) else value)
    return ""


def _add(added: Counter[str], file: DataFile) -> None:
    added.update(records=file.record_count, files=1, bytes=file.file_size_in_bytes)


def _total(words: dict[str, str]) -> Counter[str]:
    return Counter(
        records=int(words.get("added-records", "0")),
        files=int(words.get("added-data-files", "0")),
        bytes=int(words.get("added-files-size", "0")),
    )


def _announcement(name: str, snapshot: Snapshot, window: str, added: Counter[str]) -> Announcement:
    return Announcement(
        table=name,
        snapshot_id=snapshot.snapshot_id,
        operation=said(snapshot).get(OPERATION, ""),
        window=window,
        records=added["records"],
        files=added["files"],
        bytes=added["bytes"],
        at=snapshot.timestamp_ms,
    )
