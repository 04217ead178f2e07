"""Progress and lag of a selector and its destinations, read from table metadata and cursors alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.lake.calendar import EPOCH
from neve.lake.read.history import read_totals
from neve.lake.read.local_table import UNREADABLE, LocalTable
from neve.lake.read.positions import count_commits_since
from neve.model.signals import DECISIONS_TABLE, OPEN_TRACES_TABLE
from neve.tail.checkpoint import Checkpoint
from neve.tail.export.cursor import ExportCursors

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.state.documents import Documents
    from neve.tail.config import TailConfig

SELECTOR = "selector"  # column of open traces, and of their partitions


@dataclass(frozen=True)
class DestinationStatus:
    """Progress of a destination."""

    name: str
    kind: str
    cycle: int
    note: str


@dataclass(frozen=True)
class TailStatus:
    """Progress of a selector, with an empty `behind` if it is unknown."""

    selector: str
    source: str
    cycle: int
    last_cycle: str
    unfinished: bool
    open_traces: int
    behind: str
    decisions: int
    bytes: int
    destinations: tuple[DestinationStatus, ...]

    def as_document(self) -> dict[str, object]:
        """Return the status as a JSON document."""
        return asdict(self)


def load_tail_status(lake: Lake, spans: Lake, config: TailConfig, documents: Documents) -> TailStatus:
    """Load the status from the selector's tables and cursors."""
    decisions, opened = lake.table_metadata(DECISIONS_TABLE), lake.table_metadata(OPEN_TRACES_TABLE)
    decided, left = Checkpoint.of(decisions, config.name), Checkpoint.of(opened, config.name)
    position = left or decided
    totals = read_totals(decisions)
    return TailStatus(
        selector=config.name,
        source=config.source.table,
        cycle=position.cycle if position else 0,
        last_cycle=_format_time(position.now_us) if position else "",
        unfinished=decided is not None and (left is None or decided.cycle > left.cycle),
        open_traces=count_open_traces(opened, config.name),
        behind=_describe_lag(spans, config.source.table, position),
        decisions=totals.rows,
        bytes=totals.bytes,
        destinations=_list_destinations(config, documents, decided.cycle if decided else 0),
    )


def count_open_traces(table: Table | LocalTable, selector: str) -> int:
    """Return the number of a selector's open traces. A file contains those of one selector."""
    if isinstance(table, LocalTable):
        try:
            return _count_local_traces(table, selector.encode())
        except UNREADABLE:
            table = table.whole
    from neve.tail.cycle_files import list_open_files  # noqa: PLC0415 - for other places of files

    return sum(file.record_count for file in list_open_files(table, selector))


def _count_local_traces(table: LocalTable, selector: bytes) -> int:
    column = table.field_id(SELECTOR)
    return sum(
        file.record_count
        for file in table.data_files()
        if file.lower_bounds[column] <= selector <= file.upper_bounds[column]
    )


def _list_destinations(config: TailConfig, documents: Documents, cycle: int) -> tuple[DestinationStatus, ...]:
    reached = ExportCursors(documents, config.name).positions()
    found = []
    for one in config.export.destinations:
        position = reached.get(one.name)
        done = position.sequence - 1 if position else 0
        behind = cycle - done
        waits = f"{behind:,} cycle{'s' if behind > 1 else ''} may have undelivered decisions"
        waits = waits if behind > 0 else "up to date" if cycle else "nothing to deliver yet"
        found.append(DestinationStatus(one.name, one.kind.value, done, waits))
    return tuple(found)


def _describe_lag(spans: Lake, name: str, position: Checkpoint | None) -> str:
    if position is None:
        return "all"
    commits = count_commits_since(spans.table_metadata(name), position.snapshot_id)
    return "an unknown number of" if commits is None else f"{commits:,}"


def _format_time(micros: int) -> str:
    return (EPOCH + timedelta(microseconds=micros)).isoformat(timespec="seconds")
