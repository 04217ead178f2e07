"""Groups that were rewritten and proven become part of the table; a conflict costs its group and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

from neve.compact.journal import Entry, Journal, Stage
from neve.errors import CommitConflict, CommitUnknown, LakeError
from neve.lake.content import bare_content
from neve.lake.java_commit import TableBusy
from neve.lake.replace import Replacement, replace_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.compact.plan import Group
    from neve.lake.content import Content
    from neve.lake.lake import Lake

OPERATION = "compact"
RUN = "neve.run"
GROUPS = "neve.groups"


@dataclass(frozen=True)
class Publisher:
    """Commits the groups of one run, which looked at one snapshot."""

    lake: Lake
    table: str
    journal: Journal
    run_id: str
    snapshot_id: int
    sequence: int
    still_ours: Callable[[], None]
    _numbers: Iterator[int] = field(default_factory=count)

    def publish(self, entries: Sequence[Entry]) -> list[Entry]:
        """Commit all groups at once, or, where that is refused, each alone; gives them as they are then."""
        done: list[Entry] = []
        for pinned in (True, False):
            alike = [entry for entry in entries if _is_pinned(entry) is pinned]
            if alike:
                done += self._together(alike, self.sequence if pinned else None)
        return done

    def _together(self, entries: Sequence[Entry], sequence: int | None) -> list[Entry]:
        try:
            return self._commit(entries, sequence)
        except TableBusy as busy:
            return [self._noted(replace(entry, stage=Stage.WRITTEN, error=busy.message)) for entry in entries]
        except CommitConflict as conflict:
            if len(entries) == 1:
                return [self._noted(replace(entries[0], stage=Stage.CONFLICT, error=conflict.message))]
        return [one for entry in entries for one in self._together([entry], sequence)]

    def _commit(self, entries: Sequence[Entry], sequence: int | None) -> list[Entry]:
        self.still_ours()
        # Another process that publishes what a dead one wrote must not take the dead one's number for its own.
        batch_id = f"{OPERATION}:{self.run_id}:{next(self._numbers)}:{uuid4().hex[:8]}"
        publishing = [self._noted(replace(entry, stage=Stage.PUBLISHING, batch_id=batch_id)) for entry in entries]
        summary = {RUN: self.run_id, GROUPS: str(len(entries))}
        try:
            commit = replace_files(
                self.lake,
                self.table,
                self._replacement(entries, sequence),
                batch_id=batch_id,
                operation=OPERATION,
                summary=summary,
            )
        except CommitUnknown as unknown:
            return [self._noted(replace(entry, stage=Stage.UNKNOWN, error=unknown.message)) for entry in publishing]
        except CommitConflict:
            raise
        except LakeError as error:
            return [self._noted(replace(entry, stage=Stage.FAILED, error=error.message)) for entry in publishing]
        return [
            self._noted(replace(entry, stage=Stage.COMMITTED, snapshot_id=commit.snapshot_id)) for entry in publishing
        ]

    def _replacement(self, entries: Sequence[Entry], sequence: int | None) -> Replacement:
        rewritten = [entry.rewritten for entry in entries if entry.rewritten]
        return Replacement(
            removed=tuple(file for entry in entries for file in _inputs(entry.group)),
            added=tuple(file for one in rewritten for file in one.added),
            from_snapshot=self.snapshot_id,
            data_sequence=sequence,
            removed_deletes=_distinct(file for one in rewritten for file in one.removed_deletes),
        )

    def _noted(self, entry: Entry) -> Entry:
        self.journal.note(self.run_id, entry)
        return entry


def _is_pinned(entry: Entry) -> bool:
    """Whether new files keep their place in the order of changes.

    They do, so that equality deletes that come while a group is rewritten still apply to it. Where position deletes
    alone were applied they do not: their files would seem to apply for ever to what replaced the rows.
    """
    deletes_applied = bool(entry.rewritten and entry.rewritten.removed_deletes) or entry.group.has_deletes
    return not deletes_applied or bool(entry.rewritten and entry.rewritten.has_equality_deletes)


def _inputs(group: Group) -> list[Content]:
    partition = group.partition
    return [
        bare_content(file.path, file.format, partition.spec_id, partition.values, file.bytes, file.rows)
        for file in group.files
    ]


def _distinct(files: Iterator[Content]) -> tuple[Content, ...]:
    """Each delete file once: two groups of a partition may both be done with it."""
    return tuple({f"{file['file-path']}#{file.get('content-offset')}": file for file in files}.values())
