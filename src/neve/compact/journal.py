"""The journal of runs, in the state store: planned, written and published groups, for the recovery of dead runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from neve.compact.execution.rewritten_group import RewrittenGroup
from neve.compact.plan import Group, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from neve.state.documents import Documents

RUNS = "compact.runs"
GROUPS = "compact.groups"
_PLAN = TypeAdapter(Plan)
_GROUP = TypeAdapter(Group)


class Stage(StrEnum):
    """Progress of a group."""

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
    rewritten: RewrittenGroup | None = None
    batch_id: str = ""
    snapshot_id: int | None = None
    error: str = ""

    @property
    def is_pending(self) -> bool:
        """True if the commit of the group is pending, or has an unknown outcome."""
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
        """Record a run before it writes. From now on its folder is known, even if the run dies."""
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
        """Return whether a run has begun and not ended."""
        return self._documents.get(RUNS, self._key(run_id)) is not None

    def end(self, run_id: str) -> None:
        """Delete a run that is finished. The history has its result.

        The run is deleted first: a run without its groups would seem to have published nothing, and its published files
        would be treated as leftovers. `forget_strays` deletes groups without a run.
        """
        self._documents.delete(RUNS, self._key(run_id))
        for key, _ in list(self._documents.entries(GROUPS, self._key(run_id) + "/")):
            self._documents.delete(GROUPS, key)

    def note(self, run_id: str, entry: Entry) -> None:
        """Record the progress of a group."""
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
        """Delete the groups of finished runs: a process that was considered dead may wake up and record one more.

        It can't publish the group without the lease. Its files are orphans like any other.
        """
        known = {key for key, _ in self._documents.entries(RUNS, f"{self._table}/")}
        strays = [
            key for key, _ in self._documents.entries(GROUPS, f"{self._table}/") if key.rpartition("/")[0] not in known
        ]
        for key in strays:
            self._documents.delete(GROUPS, key)
        return len(strays)

    def runs(self) -> Iterator[Run]:
        """Yield the unfinished runs, oldest first."""
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
        """Return the groups of a run that have made progress."""
        return [_from_document(document) for _, document in self._documents.entries(GROUPS, self._key(run_id) + "/")]

    def _key(self, run_id: str) -> str:
        return f"{self._table}/{run_id}"


def _from_document(document: dict[str, Any]) -> Entry:
    rewritten, snapshot = document["rewritten"], document["snapshot_id"]
    return Entry(
        group=_GROUP.validate_python(document["group"]),
        stage=Stage(document["stage"]),
        rewritten=RewrittenGroup.of(rewritten) if rewritten else None,
        batch_id=document["batch_id"],
        snapshot_id=int(snapshot) if snapshot is not None else None,
        error=document["error"],
    )
