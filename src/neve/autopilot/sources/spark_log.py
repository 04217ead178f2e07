"""Spark's event logs: the plan of each execution, with the text where a SQL front end has set it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from neve.autopilot.parse.statement import Unreadable as NotSql
from neve.autopilot.parse.statement import queries_of
from neve.autopilot.sources.lines import documents, files_of
from neve.autopilot.sources.record import LoggedQuery, TableRead, Unreadable
from neve.autopilot.sources.spark_plan import scans_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.autopilot.sources.record import Record
    from neve.autopilot.sources.spark_plan import Scan

ENGINE = "spark"
EVENT = "org.apache.spark.sql.execution.ui."
MOST_OPEN = 10_000  # executions that began and have not ended
ROLLING = "eventlog_v2_"


@dataclass
class _Execution:
    """What is known of an execution until it ends."""

    description: str
    started: datetime
    scans: list[Scan]
    values: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SparkLog:
    """An event log, or a folder of them: one file an application, or a folder of rolling files."""

    place: str

    @property
    def name(self) -> str:
        """For reports."""
        return f"spark event logs {self.place}"

    def queries(self, since: datetime) -> Iterator[Record]:
        """Executions since a moment that scanned Iceberg tables, when they end."""
        for application, files in _applications(files_of(self.place, since)).items():
            log = _Log(application)
            for file in files:
                for number, document in documents(file):
                    if isinstance(document, Unreadable):
                        yield document
                        continue
                    record = log.take(document, f"{file.name}:{number}")
                    if isinstance(record, Unreadable) or (record is not None and record.at >= since):
                        yield record


class _Log:
    """The executions of one application."""

    def __init__(self, application: str) -> None:
        self._application = application
        self._open: dict[int, _Execution] = {}

    def take(self, event: dict[str, Any], where: str) -> Record | None:
        """Take an event; the query, when it ends one."""
        kind = str(event.get("Event", ""))
        if not kind.startswith(EVENT):
            return None
        try:
            return self._take(kind.removeprefix(EVENT), event)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return Unreadable("no event of an execution", where)

    def _take(self, kind: str, event: dict[str, Any]) -> LoggedQuery | None:
        number = int(event["executionId"]) if "executionId" in event else -1
        if kind == "SparkListenerSQLExecutionStart":
            if len(self._open) >= MOST_OPEN:
                del self._open[next(iter(self._open))]
            plan = scans_of(event["sparkPlanInfo"])
            self._open[number] = _Execution(str(event["description"]), _moment(event["time"]), plan)
        known = self._open.get(number)
        if known is None:
            return None
        if kind == "SparkListenerSQLAdaptiveExecutionUpdate":
            known.scans = scans_of(event["sparkPlanInfo"]) or known.scans
        elif kind == "SparkListenerDriverAccumUpdates":
            known.values |= {int(place): int(value) for place, value in event["accumUpdates"]}
        elif kind == "SparkListenerSQLExecutionEnd":
            return self._ended(number, self._open.pop(number), event)
        return None

    def _ended(self, number: int, known: _Execution, event: dict[str, Any]) -> LoggedQuery | None:
        if not known.scans:
            return None
        return LoggedQuery(
            query_id=f"{self._application}/{number}",
            engine=ENGINE,
            at=known.started,
            text=_text(known),
            dialect=ENGINE,
            finished=not event.get("errorMessage"),
            seconds=(_moment(event["time"]) - known.started).total_seconds(),
            reads=tuple(_reads(known)),
        )


def _text(known: _Execution) -> str:
    """The statement, where the description is one; else the scans of the plan as statements."""
    with suppress(NotSql):  # a DataFrame's description is words, or nothing
        if queries_of(known.description, ENGINE):
            return known.description
    return ";\n".join(dict.fromkeys(scan.sql for scan in known.scans))


def _reads(known: _Execution) -> Iterator[TableRead]:
    sums: dict[tuple[str, ...], int | None] = {}
    for scan in known.scans:
        value = known.values.get(scan.bytes_id) if scan.bytes_id is not None else None
        before = sums.get(scan.table)
        sums[scan.table] = before if value is None else (before or 0) + value
    yield from (TableRead(table, size) for table, size in sums.items())


def _applications(files: list[Path]) -> dict[str, list[Path]]:
    """The files of each application in their order: those of a rolling log have a folder of their own."""
    found: dict[str, list[Path]] = {}
    for file in files:
        is_rolling = file.parent.name.startswith(ROLLING)
        if not is_rolling or file.name.startswith("events_"):
            name = file.parent.name.removeprefix(ROLLING) if is_rolling else file.name.split(".")[0]
            found.setdefault(name, []).append(file)
    return {name: sorted(parts, key=_number) for name, parts in found.items()}


def _number(file: Path) -> int:
    """`events_12_app.zstd` is the twelfth."""
    part = file.name.split("_")[1] if file.name.startswith("events_") else "0"
    return int(part) if part.isdigit() else 0


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
