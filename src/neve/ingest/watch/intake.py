"""Events in, files in the tables out: which files are announced for whom, and what can't be ingested.

One event never stops the others. Each organization's files are ingested by jobs of their own. A file whose store does
not answer is put off and tried again later; when its attempts are used up, it goes to quarantine.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import structlog
import xxhash

from neve.errors import ConfigError, EnvironmentFault, InputError, LakeError
from neve.ingest.files.find import Found, SourceFile
from neve.ingest.files.job import FileJob, FileRequest
from neve.ingest.files.plan import UNDER_WAY
from neve.ingest.files.read import Wanted
from neve.ingest.quarantine import Refusals, quarantine
from neve.ingest.stream.jvm import engine_is_gone
from neve.ingest.stream.result import BatchResult
from neve.ingest.watch.announced import Announced, Event, tells_format
from neve.ingest.watch.events import read_event
from neve.ingest.watch.look import Fault, Gone, look_at_all
from neve.ingest.watch.retries import Retries, Waiting
from neve.lake.paths import OwnFolders
from neve.otlp import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.ingest.config import IngestConfig
    from neve.ingest.files.result import IngestResult
    from neve.ingest.stream.positions import Positions
    from neve.ingest.watch.config import WatchConfig
    from neve.ingest.watch.places import Places
    from neve.lake.documents import Documents
    from neve.lake.lake import Lake

Group = tuple[str, Wanted]
PASSING = "OSError: "  # how a fault of the storage is told from a file that is gone
# Answers of object stores that another request does not change.
FINAL = ("ACCESS_DENIED", "INVALID_OBJECT_STATE", "operation is not valid for the object's")
# Not the fault of one organization's files: the stream fails as a whole, and the batch comes again.
OF_THE_LAKE = (LakeError, ConfigError, EnvironmentFault)

log = structlog.get_logger("neve.ingest")


@dataclass
class EventIntake:
    """Ingests batches of events; the ledger of files makes it safe to see an event twice."""

    lake: Lake
    config: IngestConfig
    watch: WatchConfig
    places: Places
    documents: Documents
    stream: str
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def retries(self) -> Retries:
        """Files that wait for another attempt."""
        return Retries(self.documents, self.stream, self.watch)

    def take(self, events: Sequence[Event], positions: Positions) -> BatchResult:
        """Ingest every file that the events announce, and put on record what can't be."""
        with self._turn:
            return self._take(f"{self.stream}:{_name(events)}", events, positions)

    def retry(self) -> BatchResult | None:
        """Try the files again whose time has come; nothing where there are none."""
        with self._turn:
            waiting = self.retries.due()
            if not waiting:
                return None
            name = xxhash.xxh3_128_hexdigest(repr([(one.key, one.attempts) for one in waiting]).encode())
            result = self._take(f"{self.stream}:retry-{name}", [one.event for one in waiting], {}, waiting)
            return replace(result, messages=0)  # they were counted when they came

    def _take(
        self, batch_id: str, events: Sequence[Event], positions: Positions, waiting: Sequence[Waiting] = ()
    ) -> BatchResult:
        started = time.monotonic()
        sifted = _Sifted(self._own_places, self.retries, self.watch.max_objects)
        for event in events:
            sifted.read(event)
        groups = sifted.look(self.lake).items()
        tried = [self._ingest(organization, wanted, files, sifted) for (organization, wanted), files in groups]
        quarantine(self.lake, self.config, batch_id, "ingest-watch", sifted.refused)
        for one in waiting:
            if one.key not in sifted.held:
                self.retries.forget(one.key)
        result = _result(batch_id, events, [one for one in tried if one], sifted, positions)
        return replace(result, seconds=time.monotonic() - started)

    def _ingest(
        self, organization: str, wanted: Wanted, files: Sequence[SourceFile], sifted: _Sifted
    ) -> IngestResult | None:
        """Ingest files of one organization; what fails here is put off for this organization alone."""
        job = FileJob(
            self.lake,
            self.config,
            FileRequest((), organization, wanted),
            found=Found(tuple(files), ()),
            own=self._own_places.own,
            wall=self._own_places.wall(organization),
            documents=self.documents,
        )
        try:
            result = job.run()
        except OF_THE_LAKE:
            raise
        except Exception as error:
            if engine_is_gone():
                raise
            reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            log.warning("announced files could not be ingested", organization=organization, error=reason)
            for file in files:
                sifted.put_off(organization, file.path, Fault(reason))
            return None
        sifted.settle(result)
        return result

    @cached_property
    def _own_places(self) -> Places:
        """The places, with the folders of all tables kept out: a catalog may have put them anywhere."""
        tables = [self.lake.table(name).location() for name in self.lake.table_names()]
        own = self.places.own.folders
        return replace(self.places, own=OwnFolders((*own, *(table for table in tables if table not in own))))


@dataclass
class _Sifted:
    """What the events of a batch come to."""

    places: Places
    retries: Retries
    max_objects: int
    wishes: dict[tuple[str, str], tuple[Event, Announced]] = field(default_factory=dict)
    refused: Refusals = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    recorded: set[tuple[str, int]] = field(default_factory=set)
    removed: int = 0

    def read(self, event: Event) -> None:
        """Read one event; each of its files must be in a place of the organization that it is ingested for."""

        def allowed(file: Announced) -> str | None:
            return self.places.problem(event.owner(file), file.path)

        try:
            read = read_event(event.payload, (tells_format, allowed), most=self.max_objects)
        except InputError as error:
            self._refuse(event, event.organization_id, "malformed_event", str(error))
            return
        for part in read.refused:
            self._refuse(event, event.owner(part), "refused_announcement", f"{part.what} {part.reason}")
        self.removed += len(read.announced) - len(read.to_ingest)
        for file in read.to_ingest:
            self.wishes[event.owner(file), file.path] = (event, file)

    def look(self, lake: Lake) -> dict[Group, list[SourceFile]]:
        """The files that are there, by organization and by what is said of them."""
        found: dict[Group, list[SourceFile]] = {}
        for wish, source in look_at_all(self.wishes, lake.s3).items():
            (organization, path), (event, file) = wish, self.wishes[wish]
            if isinstance(source, Gone):
                self._refuse(event, organization, "announced_file_missing", f"{path}: {source.reason}")
            elif isinstance(source, Fault):
                self.put_off(organization, path, source)
            else:
                wanted = Wanted(file.signal or event.signal, file.format)
                found.setdefault((organization, wanted), []).append(source)
        return found

    def settle(self, result: IngestResult) -> None:
        """Put off or put on record the files that were announced and could not be ingested after all."""
        for lost in result.lost:
            if lost.reason.startswith(PASSING) and not any(word in lost.reason for word in FINAL):
                self.put_off(result.organization_id, lost.path, Fault(lost.reason))
            elif not lost.quarantined:
                self._lose(result.organization_id, lost.path, lost.reason)
        for skipped in result.skipped:
            if skipped.reason == UNDER_WAY:
                self.put_off(result.organization_id, skipped.path, Fault(UNDER_WAY))
        for batch in result.failed:
            log.warning("an earlier batch could not be finished", batch=batch.path, error=batch.reason)

    def put_off(self, organization: str, path: str, fault: Fault) -> None:
        """Let a file wait for its next attempt, or give it up after the last."""
        wish = self.wishes.get((organization, path))  # none for a file of an earlier run
        if wish is None:
            return
        event, file = wish
        given_up = self.retries.hold(event, file, fault.reason, tried=fault.tried)
        if given_up is None:
            self.held.add(self.retries.key_of(event, path))
            log.warning("an announced file is tried again later", organization=organization, reason=fault.reason)
        else:
            self._lose(organization, path, given_up)

    def _lose(self, organization: str, path: str, reason: str) -> None:
        wish = self.wishes.get((organization, path))
        if wish is not None:
            self._refuse(wish[0], organization, "announced_file_lost", f"{path}: {reason}")

    def _refuse(self, event: Event, organization: str, reason: str, detail: str) -> None:
        place = (event.source, event.position)
        # An event may announce a thousand files: its text is kept with the first that is refused.
        bad = Rejected(reason, detail, event.position, b"" if place in self.recorded else event.payload, "event")
        self.recorded.add(place)
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
