"""A query as a log has it, and where such records come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from neve.autopilot.workload import TableUse, Test


@dataclass(frozen=True)
class TableRead:
    """What an engine counted for one table; its name as the engine has it, in parts."""

    table: tuple[str, ...]
    bytes: int | None = None
    rows: int | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoggedQuery:
    """One query of a log, before anyone has understood it."""

    query_id: str
    engine: str  # trino, clickhouse, spark, iceberg or neve
    at: datetime
    text: str = ""
    dialect: str = ""
    catalog: str = ""  # that names without one are of
    schema: str = ""
    only_catalog: str = ""  # whose tables are ours; empty: of any
    finished: bool = True
    seconds: float | None = None
    bytes_read: int | None = None  # of the whole query
    reads: tuple[TableRead, ...] = ()
    uses: tuple[TableUse, ...] = ()  # where the log tells them without a text
    implied: tuple[Test, ...] = ()  # that hold for every table that has the column
    left_out: str = ""  # why it says nothing about a layout, where the log tells


@dataclass(frozen=True)
class Unreadable:
    """A line, a file or a message of a log that is no record."""

    reason: str
    where: str = ""


Record = LoggedQuery | Unreadable


class Source(Protocol):
    """A query log."""

    @property
    def name(self) -> str:
        """What it is called in reports."""

    def queries(self, since: datetime) -> Iterator[Record]:
        """The records that are not older, one after the other, as they are read."""
