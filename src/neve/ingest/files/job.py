"""The file job: find files, skip known content, decode on Spark, commit once per table, record it in the ledger."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import xxhash
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from neve.ingest.assignment import Tally
from neve.ingest.batch_writer import Publisher, Written, gather, sum_written
from neve.ingest.files.ledger import (
    DONE,
    LOST,
    LedgerLine,
    LedgerTable,
    Selection,
    Skipped,
    select_new,
    split_by_weight,
)
from neve.ingest.files.reader import FileOutcome, FileTask, PathRule, PathRules, ReadOptions, allow_any_path
from neve.ingest.files.source_files import FoundFiles, HashedFile, SourceFile, find_files, hash_files
from neve.ingest.quarantine import commit_quarantine, quarantine_rows
from neve.ingest.results import IngestResult
from neve.ingest.spark_crashes import FileAttempts, engine_is_gone, is_worker_death
from neve.lake.commit.append import TableMoved
from neve.lake.spark.tasks import find_parallelism, run_tasks
from neve.lake.storage.paths import OwnFolders
from neve.lake.write.table_writer import write_files
from neve.logger import get_logger
from neve.model.commits import SOURCE_BYTES, SOURCE_FILES
from neve.model.tables import QUARANTINE
from neve.otlp import Rejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile

    from neve.ingest.config import IngestConfig
    from neve.lake.lake import Lake
    from neve.state.documents import Documents

CLAIM_ATTEMPTS = 30
HASHES_PER_TASK = 2000

LARGE_HINT = "split the file, or raise the setting"
STOP_SIGNALS = (KeyboardInterrupt, SystemExit)  # raised by the user, never caused by a file
DEADLY_FILE = "file_kills_worker"
DEADLY_FILE_DETAIL = (
    "the worker that decoded the file died each time, also when it decoded nothing else: the file needs more memory "
    "than a worker has, or crashes its reader"
)

OTAP = "otap"  # the format of files that `neve otap import` ingests
log = get_logger("neve.ingest")

ProgressCallback = Callable[[str, int, int], None]
SeenFile = tuple[str, int, int]


@dataclass(frozen=True)
class FileRequest:
    """The user's request."""

    paths: tuple[str, ...]
    organization_id: str
    wanted: ReadOptions = field(default_factory=ReadOptions)


@dataclass
class RunState:
    """Progress of a run."""

    batches: list[str] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)
    failed: list[Skipped] = field(default_factory=list)
    unreadable: list[Skipped] = field(default_factory=list)
    outcomes: list[FileOutcome] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)


def ingest_files(
    lake: Lake,
    config: IngestConfig,
    request: FileRequest,
    progress: ProgressCallback = lambda *_: None,
    *,
    own: OwnFolders | None = None,
    documents: Documents | None = None,
) -> IngestResult:
    """Ingest every file that the lake does not have yet. `progress` receives the step and its state."""
    return FileJob(lake, config, request, progress, own=own, documents=documents).run()


@dataclass(frozen=True)
class FileJob:
    """One run of `neve ingest files`.

    `own` are the lake's own folders, which are never read. `wall` is a further rule for the files of this run. It does
    not apply to batches of earlier runs. `documents` is the state store that counts attempts.
    """

    lake: Lake
    config: IngestConfig
    request: FileRequest
    progress: ProgressCallback = lambda *_: None
    found: FoundFiles | None = None  # if the caller has listed them already
    own: OwnFolders | None = None
    wall: PathRule = allow_any_path
    documents: Documents | None = None

    @cached_property
    def publisher(self) -> Publisher:
        """The publisher that commits the batches of the run."""
        return Publisher(self.lake, self.config, "ingest-files")

    @property
    def _own(self) -> OwnFolders:
        return self.own or OwnFolders((self.lake.lake.location, self.lake.exchange.folder))

    @property
    def ledger(self) -> LedgerTable:
        """The ledger of the organization's files."""
        return LedgerTable(self.lake, self.request.organization_id)

    def run(self) -> IngestResult:
        """Finish the batches of earlier runs, then ingest new files."""
        started = time.monotonic()
        found = self.found or find_files(self.request.paths, self.lake.s3, self.request.wanted.format, own=self._own)
        state = RunState()
        ledger = self.ledger.read()
        for batch_id, files in ledger.pending.items():
            if self._can_read(files):
                self._resume(batch_id, files, state)
        seen = (self.ledger.read() if state.resumed else ledger).seen
        skipped = self._ingest_new(found.files, seen, state)
        return _result(self.request, found, state, skipped, time.monotonic() - started)

    def _can_read(self, files: Sequence[HashedFile]) -> bool:
        """Return whether this job can read the files of a batch. The matching job finishes other batches."""
        return files[0].format != OTAP

    def _resume(self, batch_id: str, files: Sequence[HashedFile], state: RunState) -> None:
        """Finish a batch. A failure is reported and does not block new files."""
        try:
            replace(self, wall=allow_any_path)._ingest_batch(batch_id, files, state)
        except Exception as error:
            state.failed.append(Skipped(batch_id, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"))
        else:
            state.resumed.append(batch_id)

    def _ingest_new(self, files: Sequence[SourceFile], seen: frozenset[SeenFile], state: RunState) -> list[Skipped]:
        skipped = [Skipped(file.path, "it was ingested before") for file in files if file.seen_as in seen]
        rejected = {bad.file.source.seen_as for bad in state.outcomes if bad.quarantined}
        new = [file for file in files if file.seen_as not in seen and file.seen_as not in rejected]
        new = self._reject_large(new, state)
        hashed, unreadable = self._hash(new)
        state.unreadable += unreadable
        for piece in split_by_weight(hashed, self.config.batch_bytes):
            batch_id = str(uuid4())
            selection = self._claim(batch_id, piece)
            skipped += selection.skipped
            if selection.new:
                self._ingest_batch(batch_id, selection.new, state)
        return skipped

    def _reject_large(self, files: list[SourceFile], state: RunState) -> list[SourceFile]:
        """Quarantine files that are too large, unread. Return the others."""
        limit = self.config.max_file_bytes
        large = [file for file in files if file.size > limit]
        if not large:
            return files
        reasons = {
            file.path: f"it has {file.size} bytes, and ingest.max_file_bytes is {limit}; {LARGE_HINT}" for file in large
        }
        rejected = [(path, Rejected("file_too_large", why, 0, b"", "file")) for path, why in reasons.items()]
        organization = self.request.organization_id
        name = xxhash.xxh3_128_hexdigest(repr([organization, [file.seen_as for file in large]]).encode())
        commit_quarantine(
            self.lake, self.config, f"too-large:{name}", self.publisher.operation, {organization: rejected}
        )
        state.tally.rejected["file_too_large"] += len(large)
        state.unreadable += [Skipped(path, why, quarantined=True) for path, why in reasons.items()]
        return [file for file in files if file.size <= limit]

    def _hash(self, files: list[SourceFile]) -> tuple[list[HashedFile], list[Skipped]]:
        if not files:
            return [], []
        spark = self.lake.spark
        size = max(1, min(HASHES_PER_TASK, -(-len(files) // find_parallelism(spark))))
        groups = [tuple(files[start : start + size]) for start in range(0, len(files), size)]
        results = run_tasks(spark, partial(hash_files, self.lake.s3), groups, partial(self.progress, "reading"))
        outcomes = list(zip(files, (outcome for group in results for outcome in group), strict=True))
        wanted = self.request.wanted
        hashed = [
            replace(outcome, signal=wanted.signal, format=wanted.format)
            for _file, outcome in outcomes
            if isinstance(outcome, HashedFile)
        ]
        return hashed, [Skipped(file.path, outcome) for file, outcome in outcomes if isinstance(outcome, str)]

    def _claim(self, batch_id: str, files: Sequence[HashedFile]) -> Selection:
        """Select the new files and claim them in the ledger. Claims of a concurrent run are respected."""
        attempts = Retrying(
            retry=retry_if_exception_type(TableMoved),
            stop=stop_after_attempt(CLAIM_ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.05, max=5),
            reraise=True,
        )
        return attempts(self._claim_once, batch_id, files)

    def _claim_once(self, batch_id: str, files: Sequence[HashedFile]) -> Selection:
        ledger = self.ledger.read()
        selection = select_new(files, ledger)
        if selection.new:
            self.ledger.plan(batch_id, selection.new, read_at=ledger.snapshot_id)
        return selection

    def _ingest_batch(self, batch_id: str, files: Sequence[HashedFile], state: RunState) -> None:
        """Decode a batch on Spark, commit it table by table, and record it as done."""
        attempts = FileAttempts(self.documents, self.request.organization_id, batch_id)
        written = self._decode_with_retries(batch_id, files, attempts)
        summary, report = _summary(files), partial(self.progress, "committing")
        state.files += self.publisher.publish(batch_id, written, lambda _table: summary, report=report)
        outcomes = [self._outcome(values) for task in written.reports for values in task]
        self.ledger.end(batch_id, [_ledger_line(outcome) for outcome in outcomes])
        attempts.end()
        state.batches.append(batch_id)
        state.outcomes += outcomes
        state.tally.add(written.tally)

    def _outcome(self, values: dict[str, Any]) -> FileOutcome:
        return FileOutcome.from_json(values)

    def _decode_with_retries(self, batch_id: str, files: Sequence[HashedFile], attempts: FileAttempts) -> Written:
        """Decode a batch. After repeated worker deaths decode it file by file, without the files that kill again."""
        while attempts.begin():
            try:
                return self._decode(batch_id, files)
            except STOP_SIGNALS:
                attempts.undo()
                raise
            except Exception as error:
                if engine_is_gone():  # these files may be the cause: the attempt counts
                    raise
                if not is_worker_death(error):
                    attempts.undo()
                    raise
                log.warning("a worker died while it decoded a batch of files", batch=batch_id, files=len(files))
        return sum_written([self._decode_alone(batch_id, file, attempts) for file in files])

    def _decode_alone(self, batch_id: str, file: HashedFile, attempts: FileAttempts) -> Written:
        """Decode one file alone. A file that kills its worker goes to quarantine."""
        if attempts.begin_alone(file.content_hash):
            try:
                written = self._decode(batch_id, [file])
            except STOP_SIGNALS:
                attempts.undo_alone(file.content_hash)
                raise
            except Exception as error:
                if engine_is_gone():
                    raise
                if not is_worker_death(error):
                    attempts.undo_alone(file.content_hash)
                    raise
            else:
                attempts.undo_alone(file.content_hash)  # the next file may kill this process
                return written
        log.error("a file kills its worker and goes to quarantine", path=file.source.path, batch=batch_id)
        return self._quarantine_deadly(batch_id, file)

    def _quarantine_deadly(self, batch_id: str, file: HashedFile) -> Written:
        """Return the result for a file that kills its worker: a row in quarantine. The user may retry it by name."""
        written = Written(reports=[[FileOutcome(file, lost=DEADLY_FILE_DETAIL, quarantined=True).to_json()]])
        written.tally.rejected[DEADLY_FILE] += 1
        assignment = self.publisher.assign(batch_id, self.publisher.tables(), writers=1)
        if QUARANTINE.name in assignment.targets:
            bad = Rejected(DEADLY_FILE, DEADLY_FILE_DETAIL, 0, b"", "file")
            rows = quarantine_rows(assignment, self.request.organization_id, file.source.path, "", [bad])
            files = write_files(assignment.targets[QUARANTINE.name], pa.Table.from_batches([rows]))
            written.files[QUARANTINE.name] = list(files)
        return written

    def _decode(self, batch_id: str, files: Sequence[HashedFile]) -> Written:
        """Write data files for every table that does not have the batch yet."""
        spark = self.lake.spark
        groups = split_by_weight(files, self.config.task_bytes, at_least=find_parallelism(spark))
        assignment = self.publisher.assign(batch_id, self.publisher.tables(), writers=len(groups))
        task = FileTask(assignment, self.request.organization_id, groups, PathRules(self._own, self.wall))
        frame = spark.range(0, len(groups), 1, len(groups))
        report = partial(self.progress, "decoding")
        return sum_written(
            self.lake.exchange.run(frame, task.scatter, partial(gather, assignment), len(groups), report)
        )


def _ledger_line(outcome: FileOutcome) -> LedgerLine:
    return LedgerLine(outcome.file, LOST if outcome.lost else DONE, outcome.signal, outcome.format)


def _skipped_file(outcome: FileOutcome) -> Skipped:
    return Skipped(outcome.file.source.path, outcome.lost or "", outcome.quarantined)


def _summary(files: Sequence[HashedFile]) -> dict[str, str]:
    return {
        SOURCE_FILES: str(len(files)),
        SOURCE_BYTES: str(sum(file.source.size for file in files)),
    }


def _result(
    request: FileRequest, found: FoundFiles, state: RunState, skipped: list[Skipped], seconds: float
) -> IngestResult:
    read = [outcome for outcome in state.outcomes if not outcome.lost]
    return IngestResult(
        organization_id=request.organization_id,
        batches=tuple(state.batches),
        resumed=tuple(state.resumed),
        failed=tuple(state.failed),
        files=len(read),
        skipped=tuple(skipped),
        ignored=found.ignored,
        lost=(*state.unreadable, *(_skipped_file(bad) for bad in state.outcomes if bad.lost)),
        records=dict(state.tally.written_records),
        rejected=dict(state.tally.rejected),
        duplicates=dict(state.tally.duplicates),
        duplicate_keys=state.tally.duplicate_keys,
        pointless_metrics=state.tally.pointless_metrics,
        bytes_in=sum(outcome.file.source.size for outcome in read),
        bytes_unpacked=state.tally.unpacked_bytes,
        bytes_out=sum(file.file_size_in_bytes for file in state.files),
        data_files=len(state.files),
        seconds=seconds,
        own=found.own,
        formats=dict(Counter(outcome.format for outcome in read if outcome.format)),
    )
