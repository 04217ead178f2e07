"""Backlog of a zone in object storage, as the stream of the zone reports it.

A receiver needs the size of the backlog every two seconds. The stream lists new segments anyway, so it stores what
waits in one small object, and receivers read that instead of listing the zone. A receiver adds the segments that it
wrote itself, so that its own load counts at once. If the stream stops reporting, receivers list the zone, but rarely.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.raw.segments import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from neve.raw.segments import ObjectSink
    from neve.raw.zone import RawZone

REPORT = "backlog.json"
STALE_SECONDS = 60.0  # after that a report says nothing about the backlog of other receivers
LIST_SECONDS = 30.0  # between two listings without a report


def write_report(zone: RawZone, backlog: Iterable[Segment], consumed: Mapping[str, int], now: float) -> None:
    """Store the bytes that wait, by writer, and the positions up to which segments are in the tables."""
    waiting: Counter[str] = Counter()
    for segment in backlog:
        waiting[segment.writer] += segment.size
    zone.write_document(REPORT, {"measured": now, "consumed": dict(consumed), "waiting": dict(waiting)})


@dataclass
class ReportedBacklog:
    """The backlog as one receiver sees it: the report about other writers, and its own segments."""

    zone: RawZone
    sink: ObjectSink
    clock: Callable[[], float] = time.time
    _listed: list[Segment] = field(default_factory=list)
    _listed_at: float = float("-inf")

    def read(self) -> list[Segment]:
        """Return what waits: one entry for each other writer, and the segments of this one."""
        report = self.zone.read_document(REPORT) or {}
        if self.clock() - report.get("measured", float("-inf")) > STALE_SECONDS:
            return self._list()
        others = [
            Segment(writer, report["consumed"].get(writer, 0), "", size)
            for writer, size in report["waiting"].items()
            if writer != self.sink.writer
        ]
        return others + self.sink.waiting(report["consumed"].get(self.sink.writer, 0))

    def _list(self) -> list[Segment]:
        """List the zone, or return the last listing with the segments that were written since."""
        if self.clock() - self._listed_at >= LIST_SECONDS:
            self._listed, self._listed_at = self.zone.backlog(), self.clock()
        others = [segment for segment in self._listed if segment.writer != self.sink.writer]
        return others + self.sink.waiting(self.zone.read_consumed().get(self.sink.writer, 0))
