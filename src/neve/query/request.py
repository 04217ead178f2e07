"""The request of a query, its statistics, and its entry in the query log."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


UTC_ZONE = "UTC"
SET_ZONE = re.compile(
    r"\s*(?:SET\s+(?:SESSION\s+)?TIME\s*ZONE\s*(?:=|TO\b)?\s*'(?P<name>[\w+/-]{1,64})'|RESET\s+TIME\s*ZONE)\s*(?:;\s*|$)",
    re.IGNORECASE | re.ASCII,
)
Parameter = str | int | float | bool | bytes | None


def split_zone(sql: str) -> tuple[str, str]:
    """Split `SET TimeZone` from the statement after it, and return the zone, which is empty without one.

    >>> split_zone("SET TimeZone = 'Europe/Berlin'; SELECT now()")
    ('Europe/Berlin', 'SELECT now()')
    >>> split_zone("SELECT now()")
    ('', 'SELECT now()')
    """
    found = SET_ZONE.match(sql)
    if found is None or found.end() == len(sql):
        return "", sql
    return found["name"] or UTC_ZONE, sql[found.end() :]


@dataclass(frozen=True)
class TimeRange:
    """A half-open time range, `[start, end)`. `None` is unbounded."""

    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Request:
    """One statement of one organization.

    `time` bounds every table that has a `timestamp`, regardless of the statement. `limit` truncates the result.
    `partial` requests the readable part of the result if some files can't be read. `fresh` bypasses the cache.
    `time_zone` is the zone of the session: of times without a zone, of days, and of times in the result.
    `only_new_files` reads only those files of a table that its table of series, or of traces, has not seen yet.
    `added_since` reads only those files of the tables named in it that were added after the version given for each.
    `is_from_page` marks a query of a screen, from which no layout should be learned.
    """

    sql: str
    organization: str
    parameters: Sequence[Parameter] | Mapping[str, Parameter] = ()
    time: TimeRange = field(default_factory=TimeRange)
    limit: int | None = None
    timeout_seconds: float | None = None
    partial: bool = False
    fresh: bool = False
    key_id: str = ""
    time_zone: str = UTC_ZONE
    only_new_files: bool = False
    added_since: Mapping[str, str] = field(default_factory=dict)
    is_from_page: bool = False
    id: str = field(default_factory=lambda: uuid4().hex)

    def asking(self, sql: str) -> Request:
        """Return a separate request for another statement within the same bounds."""
        return replace(self, sql=sql, id=uuid4().hex)


@dataclass(frozen=True)
class ScanStatistics:
    """Statistics of one table of a statement. Pruned files were never opened."""

    table: str
    snapshot: int | None
    files: int
    bytes: int
    pruned_files: int
    pruned_bytes: int
    predicate: str = ""


@dataclass(frozen=True)
class Statistics:
    """Statistics of a whole statement. `notes` are the decisions and their reasons."""

    scans: tuple[ScanStatistics, ...] = ()
    engine: str = ""
    cache: str = ""  # hit, miss or off
    rollup: str = ""  # the rollup table that replaced the points, if any
    rows: int = 0
    planning_seconds: float = 0.0
    seconds: float = 0.0
    partial: bool = False
    truncated: bool = False
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> int:
        """Return the number of files to read."""
        return sum(scan.files for scan in self.scans)

    @property
    def bytes(self) -> int:
        """Return the size of these files in bytes. Fewer bytes are read, because of columns and row groups."""
        return sum(scan.bytes for scan in self.scans)

    @property
    def pruned_files(self) -> int:
        """Return the number of the organization's files that are pruned."""
        return sum(scan.pruned_files for scan in self.scans)

    @property
    def pruned_bytes(self) -> int:
        """Return the size of the pruned files in bytes."""
        return sum(scan.pruned_bytes for scan in self.scans)

    def as_document(self) -> dict[str, Any]:
        """Return the statistics as a JSON document, for programs."""
        sums = {name: getattr(self, name) for name in ("files", "bytes", "pruned_files", "pruned_bytes")}
        return {**asdict(self), **sums}


@dataclass(frozen=True)
class QueryLogEntry:
    """One query. `limit` names the limit that it exceeded."""

    id: str
    organization: str
    key_id: str
    started: datetime
    sql: str
    normalised: str = ""
    tables: tuple[str, ...] = ()
    state: str = "done"
    error: str = ""
    limit: str = ""
    statistics: Statistics = field(default_factory=Statistics)
