"""Spark event logs: the plan of each execution, and its SQL text where a SQL front end has set it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from neve.autopilot.logs.records import LoggedQuery, TableRead, UnreadableRecord, list_log_files, read_documents
from neve.autopilot.logs.spark_plan import find_scans
from neve.autopilot.workload.sql_statement import UnreadableSql as NotSql
from neve.autopilot.workload.sql_statement import parse_queries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.autopilot.logs.records import LogRecord
    from neve.autopilot.logs.spark_plan import PlanScan

ENGINE = "spark"
EVENT = "org.apache.spark.sql.execution.ui."
MAX_OPEN = 10_000  # executions that have started and not ended
ROLLING_PREFIX = "eventlog_v2_"


@dataclass
class _Execution:
    """State of an execution until it ends."""

    description: str
    started: datetime
    scans: list[PlanScan]
    values: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SparkLog:
    """An event log, or a folder of them: one file per application, or a folder of rolling files."""

    place: str

    @property
    def name(self) -> str:
        """The name for reports."""
        return f"spark event logs {self.place}"

    def queries(self, since: datetime) -> Iterator[LogRecord]:
        """Yield the executions since a time that scanned Iceberg tables, when they end."""
        for application, files in _group_by_application(list_log_files(self.place, since)).items():
            log = _ApplicationLog(application)
            for file in files:
                for number, document in read_documents(file):
                    if isinstance(document, UnreadableRecord):
                        yield document
                        continue
                    record = log.process(document, f"{file.name}:{number}")
                    if isinstance(record, UnreadableRecord) or (record is not None and record.at >= since):
                        yield record


class _ApplicationLog:
    """The executions of one application."""

    def __init__(self, application: str) -> None:
        self._application = application
        self._open: dict[int, _Execution] = {}

    def process(self, event: dict[str, Any], where: str) -> LogRecord | None:
        """Process an event, and return the query if the event ends one."""
        kind = str(event.get("Event", ""))
        if not kind.startswith(EVENT):
            return None
        try:
            return self._process(kind.removeprefix(EVENT), event)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return UnreadableRecord("invalid event of an execution", where)

    def _process(self, kind: str, event: dict[str, Any]) -> LoggedQuery | None:
        number = int(event["executionId"]) if "executionId" in event else -1
        if kind == "SparkListenerSQLExecutionStart":
            if len(self._open) >= MAX_OPEN:
                del self._open[next(iter(self._open))]
            plan = find_scans(event["sparkPlanInfo"])
            self._open[number] = _Execution(str(event["description"]), _parse_millis(event["time"]), plan)
        known = self._open.get(number)
        if known is None:
            return None
        if kind == "SparkListenerSQLAdaptiveExecutionUpdate":
            known.scans = find_scans(event["sparkPlanInfo"]) or known.scans
        elif kind == "SparkListenerDriverAccumUpdates":
            known.values |= {int(place): int(value) for place, value in event["accumUpdates"]}
        elif kind == "SparkListenerSQLExecutionEnd":
            return self._finish(number, self._open.pop(number), event)
        return None

    def _finish(self, number: int, known: _Execution, event: dict[str, Any]) -> LoggedQuery | None:
        if not known.scans:
            return None
        return LoggedQuery(
            query_id=f"{self._application}/{number}",
            engine=ENGINE,
            at=known.started,
            text=_statement_text(known),
            dialect=ENGINE,
            finished=not event.get("errorMessage"),
            seconds=(_parse_millis(event["time"]) - known.started).total_seconds(),
            reads=tuple(_table_reads(known)),
        )


def _statement_text(known: _Execution) -> str:
    """Return the statement if the description is one, otherwise the scans of the plan as statements."""
    with suppress(NotSql):  # the description of a DataFrame is prose or empty
        if parse_queries(known.description, ENGINE):
            return known.description
    return ";\n".join(dict.fromkeys(scan.sql for scan in known.scans))


def _table_reads(known: _Execution) -> Iterator[TableRead]:
    sums: dict[tuple[str, ...], int | None] = {}
    for scan in known.scans:
        value = known.values.get(scan.bytes_id) if scan.bytes_id is not None else None
        before = sums.get(scan.table)
        sums[scan.table] = before if value is None else (before or 0) + value
    yield from (TableRead(table, size) for table, size in sums.items())


def _group_by_application(files: list[Path]) -> dict[str, list[Path]]:
    """Return the files of each application in order; the files of a rolling log have their own folder."""
    found: dict[str, list[Path]] = {}
    for file in files:
        is_rolling = file.parent.name.startswith(ROLLING_PREFIX)
        if not is_rolling or file.name.startswith("events_"):
            name = file.parent.name.removeprefix(ROLLING_PREFIX) if is_rolling else file.name.split(".")[0]
            found.setdefault(name, []).append(file)
    return {name: sorted(parts, key=_file_number) for name, parts in found.items()}


def _file_number(file: Path) -> int:
    """Return the number of a rolling file: 12 for `events_12_app.zstd`."""
    part = file.name.split("_")[1] if file.name.startswith("events_") else "0"
    return int(part) if part.isdigit() else 0


def _parse_millis(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
