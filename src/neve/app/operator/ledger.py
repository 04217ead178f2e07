"""Ledger of ingestion: for each batch, records received against those stored, refused and left out as resends.

Two programs count. Decoding tasks count the records that they read, and the snapshot summary of the batch has their
sum. Writers count the rows of the data files, which Iceberg adds up in the same summary. The two sums must be equal.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - pydantic reads it
from typing import TYPE_CHECKING

from pydantic import Field

from neve.app.reports import Report
from neve.errors import TableMissing
from neve.lake.read.history import commit_time, read_summary
from neve.model.commits import BATCH_ID, DUPLICATES, OPERATION, RECORDS, REJECTED, SOURCE_BYTES, SOURCE_FILES, STREAM
from neve.model.signals import Signal
from neve.model.tables import QUARANTINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from neve.lake.lake import Lake

FILES_SOURCE = "files"
ADDED = "added-records"
INGEST = "ingest"


class LedgerLine(Report):
    """Records of one batch, or of a source on a day."""

    received: int = Field(description="records that were decoded or refused")
    stored: int = Field(description="rows of the data files that were committed")
    refused: int = Field(description="rows that were committed to quarantine")
    resends: int = Field(description="records that the table had already, and that were left out")
    difference: int = Field(description="received - stored - refused - resends; 0 if every record is accounted for")


class BatchLine(LedgerLine):
    """Records of one batch."""

    batch: str
    source: str
    at: datetime = Field(description="time of its last commit")
    files: int = Field(description="source files; 0 for streams")
    bytes: int = Field(description="bytes that were read")
    tables: list[str]


class SourceLine(LedgerLine):
    """Records of one source on one day, in UTC."""

    day: str
    source: str
    batches: int
    bytes: int


class LedgerPage(Report):
    """Batches, newest first, and their sums by source and day."""

    since: datetime | None = Field(description="earliest commit that the tables still list")
    total: int
    offset: int
    batches: list[BatchLine]
    days: list[SourceLine]
    sums: LedgerLine


@dataclass(frozen=True)
class Commit:
    """One commit of ingestion to one table."""

    table: str
    at: datetime
    summary: Mapping[str, str]

    @property
    def batch(self) -> str:
        """The batch of the commit."""
        return self.summary.get(BATCH_ID, "")

    @property
    def source(self) -> str:
        """The stream of the batch, or files."""
        return self.summary.get(STREAM) or FILES_SOURCE

    def count(self, key: str) -> int:
        """Return a number of the summary, 0 if it has none."""
        text = self.summary.get(key, "0")
        return int(text) if text.isdigit() else 0


def read_commits(lake: Lake) -> list[Commit]:
    """Read the commits of ingestion that the tables of records and quarantine still list."""
    found: list[Commit] = []
    for name in (*(signal.table for signal in Signal), QUARANTINE.name):
        try:
            metadata = lake.table(name).metadata
        except TableMissing:
            continue
        for snapshot in metadata.snapshots:
            summary = read_summary(snapshot)
            if summary.get(OPERATION, "").startswith(INGEST) and summary.get(BATCH_ID):
                found.append(Commit(name, commit_time(snapshot), summary))
    return found


def make_batch(commits: Sequence[Commit]) -> BatchLine:
    """Return the line of a batch from its commits, one for each table."""
    records = [one for one in commits if one.table != QUARANTINE.name]
    rejects = [one for one in commits if one.table == QUARANTINE.name]
    resends = sum(one.count(DUPLICATES) for one in records)
    # A commit to quarantine alone may have no count of its own: then the rows are the only one.
    refusals = sum(one.count(REJECTED if REJECTED in one.summary else ADDED) for one in rejects)
    received = sum(one.count(RECORDS) for one in records) + resends + refusals
    stored, refused = (sum(one.count(ADDED) for one in some) for some in (records, rejects))
    newest = max(commits, key=lambda one: one.at)
    return BatchLine(
        received=received,
        stored=stored,
        refused=refused,
        resends=resends,
        difference=received - stored - refused - resends,
        batch=newest.batch,
        source=newest.source,
        at=newest.at,
        files=max(one.count(SOURCE_FILES) for one in commits),
        bytes=max(one.count(SOURCE_BYTES) for one in commits),
        tables=sorted(one.table for one in commits),
    )


def list_batches(commits: Iterable[Commit], source: str = "", day: str = "") -> list[BatchLine]:
    """Return the batches of a source and a day (UTC), or of all, newest first."""
    by_batch: dict[str, list[Commit]] = defaultdict(list)
    for one in commits:
        by_batch[one.batch].append(one)
    found = [make_batch(some) for some in by_batch.values()]
    wanted = [one for one in found if source in ("", one.source) and day in ("", format_day(one.at))]
    return sorted(wanted, key=lambda one: (one.at, one.batch), reverse=True)


def sum_by_day(batches: Iterable[BatchLine]) -> list[SourceLine]:
    """Return the sums of each day and source, newest first."""
    groups: dict[tuple[str, str], list[BatchLine]] = defaultdict(list)
    for one in batches:
        groups[format_day(one.at), one.source].append(one)
    return [
        SourceLine(
            **sum_lines(lines).plain,
            day=day,
            source=source,
            batches=len(lines),
            bytes=sum(one.bytes for one in lines),
        )
        for (day, source), lines in sorted(groups.items(), reverse=True)
    ]


def sum_lines(lines: Sequence[LedgerLine]) -> LedgerLine:
    """Return the sums of some lines."""
    names = LedgerLine.model_fields
    return LedgerLine(**{name: sum(getattr(one, name) for one in lines) for name in names})


def format_day(moment: datetime) -> str:
    """Return the day of a time in UTC, as all times of commits are."""
    return f"{moment:%Y-%m-%d}"


def read_ledger(
    lake: Lake, *, source: str = "", day: str = "", only_wrong: bool = False, offset: int, limit: int
) -> LedgerPage:
    """Read a page of the ledger, and the sums of all batches that match."""
    commits = read_commits(lake)
    batches = [one for one in list_batches(commits, source, day) if one.difference or not only_wrong]
    return LedgerPage(
        since=min((one.at for one in commits), default=None),
        total=len(batches),
        offset=offset,
        batches=batches[offset : offset + limit],
        days=sum_by_day(batches),
        sums=sum_lines(batches),
    )
