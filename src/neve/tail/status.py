"""How far a selector and its destinations are: from metadata alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.lake.calendar import EPOCH
from neve.lake.changes import keeps_rows, snapshots_since
from neve.lake.statistics import table_statistics
from neve.model.tail import DECISIONS, OPEN_TRACES
from neve.tail.export.outbox import Outbox
from neve.tail.position import Position
from neve.tail.stored import open_files

if TYPE_CHECKING:
    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.tail.config import TailConfig


@dataclass(frozen=True)
class DestinationStatus:
    """How far a destination is."""

    name: str
    kind: str
    cycle: int
    note: str


@dataclass(frozen=True)
class TailStatus:
    """How far a selector is; `behind` is empty where nobody can tell."""

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
        """The status as JSON has it."""
        return asdict(self)


def tail_status(lake: Lake, spans: Lake, config: TailConfig, documents: Documents) -> TailStatus:
    """Look at the selector's tables and cursors."""
    decisions, opened = lake.table(DECISIONS.name), lake.table(OPEN_TRACES.name)
    decided, left = Position.of(decisions, config.name), Position.of(opened, config.name)
    position = left or decided
    statistics = table_statistics(decisions)
    return TailStatus(
        selector=config.name,
        source=config.source.table,
        cycle=position.cycle if position else 0,
        last_cycle=_moment(position.now_us) if position else "",
        unfinished=decided is not None and (left is None or decided.cycle > left.cycle),
        open_traces=sum(file.record_count for file in open_files(opened, config.name)),
        behind=_behind(spans, config.source.table, position),
        decisions=statistics.rows,
        bytes=statistics.bytes,
        destinations=_destinations(config, documents, decided.cycle if decided else 0),
    )


def _destinations(config: TailConfig, documents: Documents, cycle: int) -> tuple[DestinationStatus, ...]:
    reached = Outbox(documents, config.name).positions()
    found = []
    for one in config.export.destinations:
        position = reached.get(one.name)
        done = position.sequence - 1 if position else 0
        behind = cycle - done
        waits = f"{behind:,} cycle{'s' if behind > 1 else ''} with decisions may wait for it"
        waits = waits if behind > 0 else "has everything" if cycle else "nothing to bring yet"
        found.append(DestinationStatus(one.name, one.kind.value, done, waits))
    return tuple(found)


def _behind(spans: Lake, name: str, position: Position | None) -> str:
    if position is None:
        return "all"
    line = snapshots_since(spans.table(name), position.snapshot_id)
    return "an unknown number of" if line is None else f"{sum(not keeps_rows(one) for one in line):,}"


def _moment(micros: int) -> str:
    return (EPOCH + timedelta(microseconds=micros)).isoformat(timespec="seconds")
