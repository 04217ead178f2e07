"""The board: where every part of every `neve serve` says how it is, for all who share the state store."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.lake.documents import Documents

SPACE = "parts"
LOST = "lost"  # the state of a part that no longer says anything
STOPPED = "stopped"  # the one state after which there is nothing more to say
SILENT_SECONDS = 60  # a dozen of the times that a household speaks
FORGOTTEN_SECONDS = 3600


@dataclass(frozen=True, kw_only=True)
class PartStatus:
    """How a part is: its state since when, how often it was started again, why it failed last, what else it tells."""

    name: str
    state: str
    since: datetime
    restarts: int = 0
    error: str = ""
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PartReport(PartStatus):
    """How a part was when it was last heard of, by the store's clock; `instance` is the `neve serve` it belongs to."""

    instance: str
    process: str
    pid: int
    seen: datetime

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> PartReport:
        """From the store; keys that a newer release added mean nothing here."""
        known = {name: document[name] for name in cls.__dataclass_fields__}
        moments = {name: datetime.fromisoformat(known[name]) for name in ("since", "seen")}
        return cls(**{**known, **moments})

    @property
    def document(self) -> dict[str, object]:
        """What the store keeps."""
        details = json.loads(json.dumps(dict(self.details), default=str))
        return {**vars(self), "details": details, "since": self.since.isoformat(), "seen": self.seen.isoformat()}

    def judged(self, now: datetime) -> PartReport:
        """The same, or lost where it has been silent for too long and did not end."""
        if self.state == STOPPED or now - self.seen <= timedelta(seconds=SILENT_SECONDS):
            return self
        words = f"not heard of since {self.seen:%Y-%m-%d %H:%M:%S} UTC, when it was {self.state}"
        return replace(self, state=LOST, error=f"{words}: {self.error}" if self.error else words)


@dataclass(frozen=True)
class Board:
    """The reports of all, and the place where the parts of one process put theirs; a reader needs no name."""

    documents: Documents
    instance: str = ""
    process: str = ""

    def report(self, status: PartStatus) -> None:
        """Say how a part is."""
        known = {name: getattr(status, name) for name in PartStatus.__dataclass_fields__}
        report = PartReport(
            **known, instance=self.instance, process=self.process, pid=os.getpid(), seen=self.documents.now()
        )
        self.documents.put(SPACE, f"{self.instance}/{self.process}/{status.name}", report.document)

    def all(self) -> list[PartReport]:
        """Every part that was heard of in the last hour; one that has been silent for a minute is lost."""
        now = self.documents.now()
        found = (PartReport.of(document) for _key, document in self.documents.entries(SPACE))
        return [report.judged(now) for report in found if not _is_old(report, now)]

    def forget_old(self) -> int:
        """Forget parts that nobody has heard of for an hour; how many that were."""
        now = self.documents.now()
        old = [key for key, document in self.documents.entries(SPACE) if _is_old(PartReport.of(document), now)]
        for key in old:
            self.documents.delete(SPACE, key)
        return len(old)


def _is_old(report: PartReport, now: datetime) -> bool:
    return now - report.seen > timedelta(seconds=FORGOTTEN_SECONDS)
