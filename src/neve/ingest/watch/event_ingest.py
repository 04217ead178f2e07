"""Ingest the files that events announce, and quarantine announcements that can't be ingested.

One event never stops the others. Each organization's files are ingested by separate jobs. Before files are read, their
stores are queried for them, with a bounded number of requests. A store that does not respond is skipped after a few
requests, for the organization that announced its files, and no other organization waits for it. Its files are retried
later. A file whose attempts are exhausted goes to quarantine.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import xxhash

from neve.errors import ConfigError, EnvironmentFault, InputError, LakeError
from neve.ingest.files.job import FileJob, FileRequest
from neve.ingest.files.ledger import IN_PROGRESS
from neve.ingest.files.reader import ReadOptions
from neve.ingest.files.source_files import FoundFiles, SourceFile, stat_file
from neve.ingest.quarantine import Refusals, commit_quarantine
from neve.ingest.results import BatchResult
from neve.ingest.spark_crashes import engine_is_gone
from neve.ingest.watch.events import AnnouncedFile, Event, check_format, read_event
from neve.ingest.watch.retries import RetryQueue, WaitingFile
from neve.lake.storage.paths import OwnFolders
from neve.logger import get_logger
from neve.otlp import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.ingest.config import IngestConfig, WatchConfig
    from neve.ingest.results import IngestResult
    from neve.ingest.stream.job import StartEngine
    from neve.ingest.stream.writer import Positions
    from neve.ingest.watch.places import Places
    from neve.lake.config import S3Config
    from neve.lake.lake import Lake
    from neve.state.documents import Documents


CONCURRENT_REQUESTS = 8
MAX_FAULTS = 3  # failed requests to one bucket for one organization before the other files are postponed

AnnouncedPath = tuple[str, str]  # an organization and the path of a file


@dataclass(frozen=True)
class MissingFile:
    """A file that does not exist or is not readable, and the reason. Another attempt would not help."""

    reason: str


@dataclass(frozen=True)
class TransientFault:
    """A fault that may pass, as a message. `tried` is false if no request was sent because others had failed."""

    reason: str
    tried: bool = True


StatResult = SourceFile | MissingFile | TransientFault


def stat_files(announced: Iterable[AnnouncedPath], s3: S3Config) -> dict[AnnouncedPath, StatResult]:
    """Return the current state of each file."""
    files, statter = list(announced), _FileStatter(s3)
    with ThreadPoolExecutor(CONCURRENT_REQUESTS, thread_name_prefix="stat") as pool:
        return dict(zip(files, pool.map(statter.stat, files), strict=True))


@dataclass
class _FileStatter:
    s3: S3Config
    faults: Counter[AnnouncedPath] = field(default_factory=Counter)
    last: dict[AnnouncedPath, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def stat(self, announced: AnnouncedPath) -> StatResult:
        organization, path = announced
        store = (organization, _find_store(path))
        with self.lock:
            if self.faults[store] >= MAX_FAULTS:
                return TransientFault(f"not tried, because {store[1]} failed before: {self.last[store]}", tried=False)
        try:
            found = stat_file(path, self.s3)
        except OSError as error:
            with self.lock:
                self.faults[store] += 1
                self.last[store] = str(error)
            return TransientFault(str(error))
        return MissingFile(found) if isinstance(found, str) else found


def _find_store(path: str) -> str:
    """Return the unit that fails as a whole: a bucket, or the folder of a local file."""
    scheme, separator, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else path.rpartition("/")[0]


Group = tuple[str, ReadOptions]
TRANSIENT_PREFIX = "OSError: "  # distinguishes a storage fault from a deleted file
# Responses of object stores that are permanent: a retry does not help.
PERMANENT_ERRORS = ("ACCESS_DENIED", "INVALID_OBJECT_STATE", "operation is not valid for the object's")
# Not caused by one organization's files: the stream fails as a whole, and the batch is retried.
LAKE_ERRORS = (LakeError, ConfigError, EnvironmentFault)

log = get_logger("neve.ingest")


@dataclass
class EventIngester:
    """Ingests batches of events. The ledger of files makes repeated events harmless."""

    lake: Lake
    config: IngestConfig
    watch: WatchConfig
    places: Places
    documents: Documents
    stream: str
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def retries(self) -> RetryQueue:
        """Files that wait for another attempt."""
        return RetryQueue(self.documents, self.stream, self.lake.lake.location, self.watch)

    def ingest(self, events: Sequence[Event], positions: Positions) -> BatchResult:
        """Ingest every file that the events announce, and quarantine the others."""
        with self._lock:
            return self._ingest_events(f"{self.stream}:{_name_batch(events)}", events, positions)

    def retry(self, start_engine: StartEngine = lambda: True) -> BatchResult | None:
        """Retry the files that are due. Return nothing if there are none, or if Spark does not run for them."""
        with self._lock:
            waiting = self.retries.due()
            if not waiting or not start_engine():
                return None
            name = xxhash.xxh3_128_hexdigest(repr([(one.key, one.attempts) for one in waiting]).encode())
            result = self._ingest_events(f"{self.stream}:retry-{name}", [one.event for one in waiting], {}, waiting)
            return replace(result, messages=0)  # they were counted when they arrived

    def _ingest_events(
        self, batch_id: str, events: Sequence[Event], positions: Positions, waiting: Sequence[WaitingFile] = ()
    ) -> BatchResult:
        started = time.monotonic()
        batch = _EventBatch(self._own_places, self.retries, self.watch.max_objects)
        for event in events:
            batch.read(event)
        groups = batch.find_files(self.lake).items()
        tried = [self._ingest_files(organization, options, files, batch) for (organization, options), files in groups]
        commit_quarantine(self.lake, self.config, batch_id, "ingest-watch", batch.rejected)
        for one in waiting:
            if one.key not in batch.postponed:
                self.retries.forget(one.key)
        result = _result(batch_id, events, [one for one in tried if one], batch, positions)
        return replace(result, seconds=time.monotonic() - started)

    def _ingest_files(
        self, organization: str, options: ReadOptions, files: Sequence[SourceFile], batch: _EventBatch
    ) -> IngestResult | None:
        """Ingest files of one organization. A failure postpones the files of this organization only."""
        job = FileJob(
            self.lake,
            self.config,
            FileRequest((), organization, options),
            found=FoundFiles(tuple(files), ()),
            own=self._own_places.own,
            wall=self._own_places.wall(organization),
            documents=self.documents,
        )
        try:
            result = job.run()
        except LAKE_ERRORS:
            raise
        except Exception as error:
            if engine_is_gone():
                raise
            reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            log.warning("ingesting announced files failed", organization=organization, error=reason)
            for file in files:
                batch.postpone(organization, file.path, TransientFault(reason))
            return None
        batch.handle_result(result)
        return result

    @cached_property
    def _own_places(self) -> Places:
        """Return the places, with all table folders excluded: a catalog may have put tables anywhere."""
        tables = [self.lake.table(name).location() for name in self.lake.table_names()]
        own = self.places.own.folders
        return replace(self.places, own=OwnFolders((*own, *(table for table in tables if table not in own))))


@dataclass
class _EventBatch:
    """The files, rejections and counts of a batch of events."""

    places: Places
    retries: RetryQueue
    max_objects: int
    announced: dict[tuple[str, str], tuple[Event, AnnouncedFile]] = field(default_factory=dict)
    rejected: Refusals = field(default_factory=dict)
    postponed: set[str] = field(default_factory=set)
    recorded: set[tuple[str, int]] = field(default_factory=set)
    removed: int = 0

    def read(self, event: Event) -> None:
        """Read one event. Each of its files must be in a place of the organization that it is ingested for."""

        def check_place(file: AnnouncedFile) -> str | None:
            return self.places.problem(event.owner(file), file.path)

        try:
            read = read_event(event.payload, (check_format, check_place), most=self.max_objects)
        except InputError as error:
            self._reject(event, event.organization_id, "malformed_event", str(error))
            return
        for part in read.refused:
            self._reject(event, event.owner(part), "refused_announcement", f"{part.what} {part.reason}")
        self.removed += len(read.announced) - len(read.to_ingest)
        for file in read.to_ingest:
            self.announced[event.owner(file), file.path] = (event, file)

    def find_files(self, lake: Lake) -> dict[Group, list[SourceFile]]:
        """Return the existing files, by organization and by the properties that their events state."""
        found: dict[Group, list[SourceFile]] = {}
        for (organization, path), source in stat_files(self.announced, lake.s3).items():
            event, file = self.announced[organization, path]
            if isinstance(source, MissingFile):
                self._reject(event, organization, "announced_file_missing", f"{path}: {source.reason}")
            elif isinstance(source, TransientFault):
                self.postpone(organization, path, source)
            else:
                options = ReadOptions(file.signal or event.signal, file.format)
                found.setdefault((organization, options), []).append(source)
        return found

    def handle_result(self, result: IngestResult) -> None:
        """Postpone or quarantine announced files that could not be ingested."""
        for lost in result.lost:
            if lost.reason.startswith(TRANSIENT_PREFIX) and not any(word in lost.reason for word in PERMANENT_ERRORS):
                self.postpone(result.organization_id, lost.path, TransientFault(lost.reason))
            elif not lost.quarantined:
                self._lose(result.organization_id, lost.path, lost.reason)
        for skipped in result.skipped:
            if skipped.reason == IN_PROGRESS:
                self.postpone(result.organization_id, skipped.path, TransientFault(IN_PROGRESS))
        for batch in result.failed:
            log.warning("finishing an earlier batch failed", batch=batch.path, error=batch.reason)

    def postpone(self, organization: str, path: str, fault: TransientFault) -> None:
        """Schedule the next attempt at a file, or quarantine it after the last."""
        known = self.announced.get((organization, path))  # none for a file of an earlier run
        if known is None:
            return
        event, file = known
        final = self.retries.postpone(event, file, fault.reason, tried=fault.tried)
        if final is None:
            self.postponed.add(self.retries.key_of(event, path))
            log.warning("an announced file is retried later", organization=organization, reason=fault.reason)
        else:
            self._lose(organization, path, final)

    def _lose(self, organization: str, path: str, reason: str) -> None:
        known = self.announced.get((organization, path))
        if known is not None:
            self._reject(known[0], organization, "announced_file_lost", f"{path}: {reason}")

    def _reject(self, event: Event, organization: str, reason: str, detail: str) -> None:
        place = (event.source, event.position)
        # An event may announce a thousand files: its text is stored with the first rejected file only.
        bad = Rejected(reason, detail, event.position, b"" if place in self.recorded else event.payload, "event")
        self.recorded.add(place)
        self.rejected.setdefault(organization, []).append((event.source, bad))


def _result(
    batch_id: str, events: Sequence[Event], results: Sequence[IngestResult], batch: _EventBatch, positions: Positions
) -> BatchResult:
    newest = max((event.received_unix_nano for event in events), default=0)
    rejected = Counter(bad.reason for found in batch.rejected.values() for _source, bad in found)
    for result in results:
        rejected.update(result.rejected)
    return BatchResult(
        stream=batch_id.split(":", maxsplit=1)[0],
        batch_id=batch_id,
        messages=len(events),
        records=_sum_counts(result.records for result in results),
        rejected=dict(rejected),
        duplicates=_sum_counts(result.duplicates for result in results),
        replayed=sum(len(result.skipped) for result in results),
        bytes_in=sum(result.bytes_in for result in results),
        bytes_out=sum(result.bytes_out for result in results),
        data_files=sum(result.data_files for result in results),
        seconds=0.0,
        commit_seconds=0.0,
        lag_seconds=max(0.0, time.time() - newest / 1e9) if newest else None,
        positions=positions,
    )


def _name_batch(events: Sequence[Event]) -> str:
    """Return an id that identifies a batch of events. It is the same when the batch is repeated."""
    return xxhash.xxh3_128_hexdigest(repr([(event.source, event.position) for event in events]).encode())


def _sum_counts(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
