"""Status board: the state of every part of every `neve serve` that shares the state store."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.state.documents import Documents

SPACE = "parts"
LOST = "no heartbeat"  # the state of a part without heartbeats
STOPPED = "stopped"  # the only state that no report follows
SILENT_SECONDS = 60  # a dozen intervals of a supervisor's reports
EXPIRY_SECONDS = 3600


@dataclass(frozen=True, kw_only=True)
class PartStatus:
    """Status of a part: its state and since when, its restarts, its last failure, and details."""

    name: str
    state: str
    since: datetime
    restarts: int = 0
    error: str = ""
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PartReport(PartStatus):
    """Last report of a part, by the store's clock; `instance` is `neve serve` instance of the part."""

    instance: str
    process: str
    pid: int
    seen: datetime

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> PartReport:
        """Decode a document of the store; keys of a newer release are ignored."""
        known = {name: document[name] for name in cls.__dataclass_fields__}
        moments = {name: datetime.fromisoformat(known[name]) for name in ("since", "seen")}
        return cls(**{**known, **moments})

    @property
    def document(self) -> dict[str, object]:
        """Return the document for the store."""
        details = json.loads(json.dumps(dict(self.details), default=str))
        return {**vars(self), "details": details, "since": self.since.isoformat(), "seen": self.seen.isoformat()}

    def mark_lost(self, now: datetime) -> PartReport:
        """Return the report, as lost if the part sent no heartbeat for too long and did not stop."""
        if self.state == STOPPED or now - self.seen <= timedelta(seconds=SILENT_SECONDS):
            return self
        error = f"no heartbeat since {self.seen:%Y-%m-%d %H:%M:%S} UTC, when it was {self.state}"
        return replace(self, state=LOST, error=f"{error}: {self.error}" if self.error else error)


@dataclass(frozen=True)
class StatusBoard:
    """The reports of all instances; writers need the name of an instance, readers do not."""

    documents: Documents
    instance: str = ""
    process: str = ""

    def report(self, status: PartStatus) -> None:
        """Store the status of a part."""
        known = {name: getattr(status, name) for name in PartStatus.__dataclass_fields__}
        report = PartReport(
            **known, instance=self.instance, process=self.process, pid=os.getpid(), seen=self.documents.now()
        )
        self.documents.put(SPACE, f"{self.instance}/{self.process}/{status.name}", report.document)

    def all(self) -> list[PartReport]:
        """Return every part that reported in the last hour; a part without a heartbeat for a minute is lost.

        Lost parts of an instance that was replaced are left out: another one was started later on the same machine.
        """
        now = self.documents.now()
        found = (PartReport.of(document) for _key, document in self.documents.entries(SPACE))
        reports = [report.mark_lost(now) for report in found if not _is_old(report, now)]
        return [report for report in reports if report.state != LOST or not _is_replaced(report, reports)]

    def forget_old(self) -> int:
        """Delete parts that have not reported for an hour, and return their number."""
        now = self.documents.now()
        old = [key for key, document in self.documents.entries(SPACE) if _is_old(PartReport.of(document), now)]
        for key in old:
            self.documents.delete(SPACE, key)
        return len(old)


def _is_replaced(lost: PartReport, reports: Sequence[PartReport]) -> bool:
    """Return whether a later instance of the same machine runs the part; one that ran before does not replace it."""
    began: dict[str, datetime] = {}
    for report in reports:
        began[report.instance] = min(report.since, began.get(report.instance, report.since))
    return any(
        (other.process, other.name) == (lost.process, lost.name)
        and other.state not in (LOST, STOPPED)
        and _machine(other.instance) == _machine(lost.instance)
        and began[other.instance] > lost.seen
        for other in reports
    )


def _machine(instance: str) -> str:
    """Return the host of an instance, whose name ends with a process id and a random part.

    >>> _machine("db-1-4711-0aeb")
    'db-1'
    """
    return instance.rsplit("-", 2)[0]


def _is_old(report: PartReport, now: datetime) -> bool:
    return now - report.seen > timedelta(seconds=EXPIRY_SECONDS)
