"""Iceberg's scan reports, as clients post them to a REST catalog: filters without SQL, mostly without values too."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from neve.autopilot.sources.expressions import filter_of
from neve.autopilot.sources.lines import documents, files_of
from neve.autopilot.sources.record import LoggedQuery, Unreadable
from neve.autopilot.sources.trino_events import moment
from neve.autopilot.workload import AllOf, TableUse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.autopilot.sources.record import Record

ENGINE = "iceberg"
TYPE = "scan-report"
RECEIVED = "received"  # a report has no time of its own: whoever keeps it writes when it came


@dataclass(frozen=True)
class ScanReports:
    """Files or folders of reports, one JSON object a line."""

    place: str

    @property
    def name(self) -> str:
        """For reports."""
        return f"scan reports {self.place}"

    def queries(self, since: datetime) -> Iterator[Record]:
        """Scans since a moment; reports of commits are passed over."""
        for file in files_of(self.place, since):
            for number, document in documents(file):
                record = document if isinstance(document, Unreadable) else _record(document, file, number)
                if isinstance(record, Unreadable) or (record is not None and record.at >= since):
                    yield record


def _record(report: dict[str, Any], file: Path, number: int) -> Record | None:
    if report.get("report-type", TYPE) != TYPE or "table-name" not in report:
        return None
    where = f"{file.name}:{number}"
    try:
        return LoggedQuery(
            query_id=where,
            engine=ENGINE,
            at=moment(report[RECEIVED]) if RECEIVED in report else _written(file),
            seconds=_seconds(report.get("metrics") or {}),
            uses=(_use(report),),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return Unreadable("no scan report", where)


def _use(report: dict[str, Any]) -> TableUse:
    metrics = report.get("metrics") or {}
    found = filter_of(report.get("filter", True))
    names = (
        str(name).removesuffix(".key").removesuffix(".value") for name in report.get("projected-field-names") or []
    )
    size = metrics.get("total-file-size-in-bytes")
    return TableUse(
        table=str(report["table-name"]),
        filter=found if found is not None else AllOf(),
        columns=tuple(dict.fromkeys(names)),
        bytes_read=None if size is None else int(size["value"]),
    )


def _seconds(metrics: dict[str, Any]) -> float | None:
    """How long planning took; a report knows nothing of the reading."""
    timer = metrics.get("total-planning-duration")
    if timer is None or timer.get("time-unit") != "nanoseconds":
        return None
    return float(timer["total-duration"]) / 1e9


def _written(file: Path) -> datetime:
    return datetime.fromtimestamp(file.stat().st_mtime, UTC)
