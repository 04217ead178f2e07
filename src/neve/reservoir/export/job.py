"""Export the lake's rows as OTAP: plan, write parts on Spark, and note what was done so that it is done once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from neve.lake.lane import run_tasks
from neve.lake.writer import Target
from neve.reservoir.export.marker import Marker, Place
from neve.reservoir.export.plan import plan_export
from neve.reservoir.export.task import Exported, ExportTask

if TYPE_CHECKING:
    from neve.lake.lake import Lake
    from neve.reservoir.export.request import ExportRequest

Say = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ExportResult:
    """What a run wrote, or found written."""

    request: ExportRequest
    exported: Exported
    unchanged: bool
    replaced: bool
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The same, for `--json`."""
        request = self.request
        return {
            "folder": request.folder,
            "table": request.table,
            "organization_id": request.organization_id,
            "since": request.since.isoformat() if request.since else None,
            "until": request.until.isoformat() if request.until else None,
            "unchanged": self.unchanged,
            "replaced": self.replaced,
            **_document(self.exported),
            "seconds": round(self.seconds, 3),
        }


def export_otap(lake: Lake, request: ExportRequest, say: Say = lambda *_: None) -> ExportResult:
    """Make the folder hold what the lake has of the request. `say` is told the step and how far it is.

    Where an earlier run wrote it from the same files of the lake nothing is done. Where it ended early, or the lake has
    changed, its parts are removed and written anew under the same ids.
    """
    started = time.monotonic()
    table = lake.table(request.table)
    plan = plan_export(table, request)
    place = Place(request, lake.s3)
    before = place.read()
    if before and before.done and before.fingerprint == plan.fingerprint and place.has_all(before):
        seconds = time.monotonic() - started
        return ExportResult(request, _exported(before.done), unchanged=True, replaced=False, seconds=seconds)
    if before:
        place.remove_parts(before)
    begun = Marker(plan.fingerprint, len(plan.tasks))
    place.write(begun)
    task = ExportTask(request, Target.of(table), lake.s3)
    whole = Exported()
    if plan.tasks:
        for part in run_tasks(lake.spark, task, list(enumerate(plan.tasks)), partial(say, "writing")):
            whole.add(part)
    place.write(Marker(plan.fingerprint, len(plan.tasks), _document(whole)))
    return ExportResult(request, whole, False, before is not None, time.monotonic() - started)


def _document(exported: Exported) -> dict[str, Any]:
    return {
        "parts": exported.parts,
        "files": exported.files,
        "bytes": exported.bytes,
        "rows": dict(exported.rows),
        "losses": dict(+exported.losses),
    }


def _exported(document: dict[str, Any]) -> Exported:
    counters = {name: Counter(document[name]) for name in ("rows", "losses")}
    return Exported(document["parts"], document["files"], document["bytes"], **counters)
