"""Take files in: find them, leave out what is known, decode on Spark, commit once for each table, remember."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from neve.errors import InputError
from neve.ingest.files import Found, SourceFile, find_files
from neve.ingest.hashing import HashedFile, hash_files
from neve.ingest.ledger import DONE, LOST, Ledger, Line, read_ledger, write_ended, write_planned
from neve.ingest.plan import Selection, Skipped, cut, select_new
from neve.ingest.read import Wanted
from neve.ingest.result import IngestResult
from neve.ingest.task import Assignment, FileOutcome, Tally, ingest_group
from neve.lake.commits import TableMoved, append_once, find_batch
from neve.lake.lane import parallelism, run_tasks
from neve.lake.writer import Target
from neve.model.commits import RECORDS, REJECTED, SOURCE_BYTES, SOURCE_FILES
from neve.model.tables import BY_SIGNAL, QUARANTINE
from neve.otlp import Intake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.manifest import DataFile

    from neve.ingest.config import IngestConfig
    from neve.lake.lake import Lake

TABLES = (QUARANTINE.name, *(table.name for table in BY_SIGNAL.values()))
CLAIM_ATTEMPTS = 10
HASHES_PER_TASK = 2000


@dataclass(frozen=True)
class FileRequest:
    """What the user asked for."""

    paths: tuple[str, ...]
    organization_id: str
    wanted: Wanted = Wanted()


@dataclass
class _Run:
    """What has been done so far."""

    batches: list[str] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)
    outcomes: list[FileOutcome] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)


def ingest_files(
    lake: Lake, config: IngestConfig, request: FileRequest, say: Callable[[str, int, int], None] = lambda *_: None
) -> IngestResult:
    """Take in every file that the lake does not have yet. `say` is told the step and how far it is."""
    started = time.monotonic()
    found = find_files(request.paths, lake.s3, request.wanted.format)
    run = _Run()
    for batch_id, files in read_ledger(lake, request.organization_id).pending.items():
        run.resumed.append(batch_id)
        _ingest_batch(lake, config, request, batch_id, files, run, say)
    skipped = _ingest_new(lake, config, request, found.files, run, say)
    return _result(request, found, run, skipped, time.monotonic() - started)


def _ingest_new(
    lake: Lake,
    config: IngestConfig,
    request: FileRequest,
    files: Sequence[SourceFile],
    run: _Run,
    say: Callable[[str, int, int], None],
) -> list[Skipped]:
    seen = read_ledger(lake, request.organization_id).seen
    known = [Skipped(file.path, "it was ingested before") for file in files if file.seen_as in seen]
    hashed, unreadable = _hash(lake, [file for file in files if file.seen_as not in seen], say)
    skipped: list[Skipped] = []
    for piece in cut(hashed, config.batch_bytes):
        batch_id = str(uuid4())
        selection = _claim(lake, request.organization_id, batch_id, piece)
        skipped += selection.skipped
        if selection.new:
            _ingest_batch(lake, config, request, batch_id, selection.new, run, say)
    return [*known, *unreadable, *skipped]


def _hash(
    lake: Lake, files: list[SourceFile], say: Callable[[str, int, int], None]
) -> tuple[list[HashedFile], list[Skipped]]:
    if not files:
        return [], []
    size = max(1, min(HASHES_PER_TASK, -(-len(files) // parallelism(lake.spark))))
    groups = [tuple(files[start : start + size]) for start in range(0, len(files), size)]
    results = run_tasks(lake.spark, partial(hash_files, lake.s3), groups, partial(say, "reading"))
    outcomes = list(zip(files, (outcome for group in results for outcome in group), strict=True))
    hashed = [outcome for _file, outcome in outcomes if isinstance(outcome, HashedFile)]
    return hashed, [Skipped(file.path, outcome) for file, outcome in outcomes if isinstance(outcome, str)]


def _claim(lake: Lake, organization_id: str, batch_id: str, files: Sequence[HashedFile]) -> Selection:
    """Choose the new files and write them down as ours; another run that was quicker is seen and respected."""
    for _attempt in range(CLAIM_ATTEMPTS):
        ledger: Ledger = read_ledger(lake, organization_id)
        selection = select_new(files, ledger)
        if not selection.new:
            return selection
        try:
            write_planned(lake, organization_id, batch_id, selection.new, _now_us(), ledger.snapshot_id)
        except TableMoved:
            continue
        return selection
    raise InputError(f"other runs kept claiming files while batch {batch_id} was being planned", hint="run it again")


def _ingest_batch(
    lake: Lake,
    config: IngestConfig,
    request: FileRequest,
    batch_id: str,
    files: Sequence[HashedFile],
    run: _Run,
    say: Callable[[str, int, int], None],
) -> None:
    """Decode a batch on Spark and commit it; tables that have it already are left as they are."""
    tables = {name: lake.table(name) for name in TABLES}
    targets = {name: Target.of(table) for name, table in tables.items() if find_batch(table, batch_id) is None}
    intake = Intake(request.organization_id, time.time_ns(), config.max_future_seconds * 1_000_000_000)
    assignment = Assignment(batch_id, intake, config, request.wanted, lake.s3, targets)
    groups = cut(files, config.task_bytes, at_least=parallelism(lake.spark))
    results = run_tasks(lake.spark, partial(ingest_group, assignment), groups, partial(say, "decoding"))
    tally = Tally()
    for result in results:
        tally.add(result.tally)
    summary = _summary(tally, files)
    for done, name in enumerate(TABLES):
        say("committing", done, len(TABLES))
        added = [file for result in results for file in result.files.get(name, [])]
        if added:
            append_once(tables[name], added, batch_id=batch_id, operation="ingest-files", summary=summary)
        run.files += added
    outcomes = [outcome for result in results for outcome in result.outcomes]
    write_ended(lake, request.organization_id, batch_id, [_line(outcome) for outcome in outcomes], _now_us())
    say("committing", len(TABLES), len(TABLES))
    run.batches.append(batch_id)
    run.outcomes += outcomes
    run.tally.add(tally)


def _line(outcome: FileOutcome) -> Line:
    return Line(outcome.file, LOST if outcome.lost else DONE, outcome.signal, outcome.format)


def _summary(tally: Tally, files: Sequence[HashedFile]) -> dict[str, str]:
    return {
        RECORDS: str(sum(tally.records.values())),
        REJECTED: str(sum(tally.rejected.values())),
        SOURCE_FILES: str(len(files)),
        SOURCE_BYTES: str(sum(file.source.size for file in files)),
    }


def _result(request: FileRequest, found: Found, run: _Run, skipped: list[Skipped], seconds: float) -> IngestResult:
    read = [outcome for outcome in run.outcomes if not outcome.lost]
    return IngestResult(
        organization_id=request.organization_id,
        batches=tuple(run.batches),
        resumed=tuple(run.resumed),
        files=len(read),
        skipped=tuple(skipped),
        ignored=found.ignored,
        lost=tuple(Skipped(bad.file.source.path, bad.lost) for bad in run.outcomes if bad.lost),
        records=dict(run.tally.records),
        rejected=dict(run.tally.rejected),
        duplicate_keys=run.tally.duplicate_keys,
        pointless_metrics=run.tally.pointless_metrics,
        bytes_in=sum(outcome.file.source.size for outcome in read),
        bytes_unpacked=run.tally.unpacked_bytes,
        bytes_out=sum(file.file_size_in_bytes for file in run.files),
        data_files=len(run.files),
        seconds=seconds,
    )


def _now_us() -> int:
    return time.time_ns() // 1000
