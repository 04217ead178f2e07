"""Events in, files in the tables out: which files are announced for whom, and what can't be taken in."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import xxhash

from neve.errors import InputError
from neve.ingest.assignment import Assignment
from neve.ingest.files.find import Found, SourceFile, look_at
from neve.ingest.files.job import FileJob, FileRequest
from neve.ingest.files.read import Wanted
from neve.ingest.quarantine import quarantine_rows
from neve.ingest.stream.result import BatchResult
from neve.ingest.watch.announced import Announced, below, tells_format
from neve.ingest.watch.events import read_event
from neve.lake.commits import append_once
from neve.lake.writer import Target, write_files
from neve.model.tables import QUARANTINE
from neve.otlp import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.ingest.config import IngestConfig
    from neve.ingest.files.result import IngestResult
    from neve.ingest.stream.positions import Positions
    from neve.lake.lake import Lake
    from neve.model.signals import Signal

Wish = tuple[str, Wanted]
PASSING = "OSError: "  # how a fault of the storage is told from a file that is gone


@dataclass(frozen=True)
class Event:
    """One event document: where it stood, whose it is, and what its topic says of the files that it names."""

    source: str
    position: int
    payload: bytes
    organization_id: str
    signal: Signal | None = None
    may_name_organization: bool = False
    received_unix_nano: int = 0


@dataclass
class EventIntake:
    """Takes batches of events in; the ledger of files makes it safe to see an event twice."""

    lake: Lake
    config: IngestConfig
    places: tuple[str, ...]
    stream: str

    def take(self, events: Sequence[Event], positions: Positions) -> BatchResult:
        """Ingest every file that the events announce, and put on record what can't be."""
        started = time.monotonic()
        sifted = _Sifted(self.lake, self.places)
        for event in events:
            sifted.take(event)
        results = [
            FileJob(self.lake, self.config, FileRequest((), organization, wanted), found=Found(tuple(files), ())).run()
            for (organization, wanted), files in sifted.files().items()
        ]
        for ingested in results:
            sifted.lose(ingested)
        batch_id = f"{self.stream}:{_name(events)}"
        self._quarantine(batch_id, sifted.refused)
        result = _result(batch_id, events, results, sifted, positions)
        return replace(result, seconds=time.monotonic() - started)

    def _quarantine(self, batch_id: str, refused: dict[str, list[tuple[str, Rejected]]]) -> None:
        """One commit, known by the batch: an event that comes again is not put on record again."""
        if not refused:
            return
        table = self.lake.table(QUARANTINE.name)
        assignment = Assignment(batch_id, time.time_ns(), self.config, self.lake.s3, {})
        rows = [
            quarantine_rows(assignment, organization, source, "", [bad])
            for organization, found in refused.items()
            for source, bad in found
        ]
        files = write_files(Target.of(table), pa.Table.from_batches(rows))
        append_once(table, files, batch_id=batch_id, operation="ingest-watch", remember_batch=True)


@dataclass
class _Sifted:
    """What the events of a batch come to."""

    lake: Lake
    places: tuple[str, ...]
    wishes: dict[tuple[str, str], tuple[Event, Announced]] = field(default_factory=dict)
    refused: dict[str, list[tuple[str, Rejected]]] = field(default_factory=dict)
    removed: int = 0

    def take(self, event: Event) -> None:
        """Read one event."""
        try:
            read = read_event(event.payload, (tells_format, below(*self.places)))
        except InputError as error:
            self._refuse(event, event.organization_id, "malformed_event", str(error), event.payload)
            return
        for part in read.refused:
            self._refuse(event, event.organization_id, "refused_announcement", f"{part.what} {part.reason}")
        self.removed += len(read.announced) - len(read.to_ingest)
        for file in read.to_ingest:
            organization = (event.may_name_organization and file.organization) or event.organization_id
            self.wishes[organization, file.path] = (event, file)

    def files(self) -> dict[Wish, list[SourceFile]]:
        """The files that are there, by organization and by what is said of them."""
        found: dict[Wish, list[SourceFile]] = {}
        for (organization, path), (event, file) in self.wishes.items():
            source = look_at(path, self.lake.s3)
            if isinstance(source, str):
                self._refuse(event, organization, "announced_file_missing", f"{path}: {source}")
                continue
            wanted = Wanted(file.signal or event.signal, file.format)
            found.setdefault((organization, wanted), []).append(source)
        return found

    def lose(self, result: IngestResult) -> None:
        """Put on record the files that were announced and could not be taken in after all."""
        for lost in result.lost:
            if lost.reason.startswith(PASSING):
                raise InputError(f"{lost.path} can't be read now: {lost.reason}")  # the events come again
            wish = self.wishes.get((result.organization_id, lost.path))  # none for a file of an earlier run
            if wish is not None:
                self._refuse(wish[0], result.organization_id, "announced_file_lost", f"{lost.path}: {lost.reason}")
        for batch in result.failed:
            raise InputError(f"batch {batch.path} of an earlier run could not be finished: {batch.reason}")

    def _refuse(self, event: Event, organization: str, reason: str, detail: str, payload: bytes = b"") -> None:
        bad = Rejected(reason, detail, event.position, payload or event.payload, "event")
        self.refused.setdefault(organization, []).append((event.source, bad))


def _result(
    batch_id: str, events: Sequence[Event], results: Sequence[IngestResult], sifted: _Sifted, positions: Positions
) -> BatchResult:
    newest = max((event.received_unix_nano for event in events), default=0)
    rejected = Counter(bad.reason for found in sifted.refused.values() for _source, bad in found)
    for result in results:
        rejected.update(result.rejected)
    return BatchResult(
        stream=batch_id.split(":", maxsplit=1)[0],
        batch_id=batch_id,
        messages=len(events),
        records=_sum(result.records for result in results),
        rejected=dict(rejected),
        duplicates=_sum(result.duplicates for result in results),
        replayed=sum(len(result.skipped) for result in results),
        bytes_in=sum(result.bytes_in for result in results),
        bytes_out=sum(result.bytes_out for result in results),
        data_files=sum(result.data_files for result in results),
        seconds=0.0,
        commit_seconds=0.0,
        lag_seconds=max(0.0, time.time() - newest / 1e9) if newest else None,
        positions=positions,
    )


def _name(events: Sequence[Event]) -> str:
    """What makes a batch of events this batch and no other: the same when it comes again."""
    return xxhash.xxh3_128_hexdigest(repr([(event.source, event.position) for event in events]).encode())


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
