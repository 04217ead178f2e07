"""What runs leave behind for the next one: what was planned, written and published, and what a table remembers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from neve.compact.plan import Group, Plan
from neve.compact.rewritten import Rewritten

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from neve.lake.documents import Documents

RUNS = "compact.runs"
GROUPS = "compact.groups"
_PLAN = TypeAdapter(Plan)
_GROUP = TypeAdapter(Group)


class Stage(StrEnum):
    """How far a group has come."""

    WRITTEN = "written"
    PUBLISHING = "publishing"
    COMMITTED = "committed"
    CONFLICT = "conflict"
    FAILED = "failed"
    UNKNOWN = "unknown"


UNSETTLED = (Stage.WRITTEN, Stage.PUBLISHING, Stage.UNKNOWN)


@dataclass(frozen=True)
class Entry:
    """One group in the journal."""

    group: Group
    stage: Stage
    rewritten: Rewritten | None = None
    batch_id: str = ""
    snapshot_id: int | None = None
    error: str = ""

    @property
    def is_unsettled(self) -> bool:
        """Whether the table may or may not have the group, or has yet to get it."""
        return self.stage in UNSETTLED


@dataclass(frozen=True)
class Run:
    """One run in the journal."""

    id: str
    table: str
    started: str
    folder: str
    snapshot_id: int
    sequence: int
    plan: Plan


class Journal:
    """The runs of one table, in the state store."""

    def __init__(self, documents: Documents, table: str) -> None:
        self._documents = documents
        self._table = table

    def begin(self, plan: Plan, folder: str, started: datetime) -> None:
        """A run is about to write; from now on its folder is known, whatever becomes of it."""
        document = {
            "id": plan.id,
            "table": self._table,
            "started": started.isoformat(),
            "folder": folder,
            "snapshot_id": str(plan.start),
            "sequence": plan.sequence,
            "plan": _PLAN.dump_python(plan, mode="json"),
        }
        self._documents.put(RUNS, self._key(plan.id), document)

    def knows(self, run_id: str) -> bool:
        """Whether a run has begun and not ended."""
        return self._documents.get(RUNS, self._key(run_id)) is not None

    def end(self, run_id: str) -> None:
        """A run has nothing more to do; it is forgotten, its story is in the history.

        The run goes first: a run whose groups are gone would look as if it had published nothing, and what it published
        would be taken for its leavings. Groups without a run are forgotten by `forget_strays`.
        """
        self._documents.delete(RUNS, self._key(run_id))
        for key, _ in list(self._documents.entries(GROUPS, self._key(run_id) + "/")):
            self._documents.delete(GROUPS, key)

    def note(self, run_id: str, entry: Entry) -> None:
        """How far a group has come."""
        document: dict[str, Any] = {
            "group": _GROUP.dump_python(entry.group, mode="json"),
            "stage": entry.stage.value,
            "rewritten": entry.rewritten.as_document() if entry.rewritten else None,
            "batch_id": entry.batch_id,
            "snapshot_id": str(entry.snapshot_id) if entry.snapshot_id is not None else None,
            "error": entry.error,
        }
        self._documents.put(GROUPS, f"{self._key(run_id)}/{entry.group.id}", document)

    def forget_strays(self) -> int:
        """Drop the groups of runs that ended: a process that was taken for dead may wake up and note one more.

        It can't publish it without the lease; its files are orphans like any other.
        """
        known = {key for key, _ in self._documents.entries(RUNS, f"{self._table}/")}
        strays = [
            key for key, _ in self._documents.entries(GROUPS, f"{self._table}/") if key.rpartition("/")[0] not in known
        ]
        for key in strays:
            self._documents.delete(GROUPS, key)
        return len(strays)

    def runs(self) -> Iterator[Run]:
        """The runs that did not end, oldest first."""
        found = [document for _, document in self._documents.entries(RUNS, f"{self._table}/")]
        for document in sorted(found, key=lambda one: str(one["started"])):
            yield Run(
                id=str(document["id"]),
                table=str(document["table"]),
                started=str(document["started"]),
                folder=str(document["folder"]),
                snapshot_id=int(str(document["snapshot_id"])),
                sequence=int(str(document["sequence"])),
                plan=_PLAN.validate_python(document["plan"]),
            )

    def entries(self, run_id: str) -> list[Entry]:
        """The groups of a run that have come anywhere."""
        return [_entry(document) for _, document in self._documents.entries(GROUPS, self._key(run_id) + "/")]

    def _key(self, run_id: str) -> str:
        return f"{self._table}/{run_id}"


def _entry(document: dict[str, Any]) -> Entry:
    rewritten, snapshot = document["rewritten"], document["snapshot_id"]
    return Entry(
        group=_GROUP.validate_python(document["group"]),
        stage=Stage(document["stage"]),
        rewritten=Rewritten.of(rewritten) if rewritten else None,
        batch_id=document["batch_id"],
        snapshot_id=int(snapshot) if snapshot is not None else None,
        error=document["error"],
    )
