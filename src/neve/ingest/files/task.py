"""What one Spark task does: read files, decode them, write data files. Nothing is visible before the driver commits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import InputError, UnknownSignal
from neve.ingest.files.formats import Format
from neve.ingest.files.hashing import HashedFile, hash_bytes
from neve.ingest.files.read import Messages, Wanted, read_messages, unpack
from neve.lake.filesystem import filesystem_of
from neve.lake.writer import Target, write_files
from neve.model.columns import TIMESTAMP
from neve.model.signals import Signal
from neve.model.tables import BY_SIGNAL, QUARANTINE
from neve.otlp import Intake, Rejected, decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile

    from neve.ingest.config import IngestConfig
    from neve.lake.config import S3Config

MESSAGE_CHUNK_BYTES = 32 * 1024 * 1024  # how many bytes of messages are decoded together


@dataclass(frozen=True)
class Assignment:
    """What all tasks of a batch share. It pickles."""

    batch_id: str
    intake: Intake
    config: IngestConfig
    s3: S3Config
    targets: dict[str, Target]


@dataclass(frozen=True)
class FileOutcome:
    """How one file ended."""

    file: HashedFile
    signal: str | None = None
    format: str | None = None
    lost: str | None = None


@dataclass
class Tally:
    """What a task has counted; tallies add up."""

    records: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    duplicate_keys: int = 0
    pointless_metrics: int = 0
    unpacked_bytes: int = 0

    def add(self, other: Tally) -> None:
        """Take in another tally."""
        self.records += other.records
        self.rejected += other.rejected
        self.duplicate_keys += other.duplicate_keys
        self.pointless_metrics += other.pointless_metrics
        self.unpacked_bytes += other.unpacked_bytes


@dataclass(frozen=True)
class TaskResult:
    """The data files of a task by table, how each source file ended, and the counts."""

    files: dict[str, list[DataFile]]
    outcomes: list[FileOutcome]
    tally: Tally


def ingest_group(assignment: Assignment, group: tuple[HashedFile, ...]) -> TaskResult:
    """Take in a group of files."""
    intake = _TaskIntake(assignment)
    outcomes = [intake.take(file) for file in group]
    intake.flush()
    return TaskResult(intake.files, outcomes, intake.tally)


class _TaskIntake:
    """Holds decoded batches until there are enough of them to write."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.files: dict[str, list[DataFile]] = {}
        self.tally = Tally()
        self._held: dict[str, list[pa.RecordBatch]] = {}
        self._held_bytes = 0

    def take(self, file: HashedFile) -> FileOutcome:
        """Decode one file; a file that can't be read as a whole goes to quarantine."""
        path = file.source.path
        raw = self._read(path)
        if raw is None or hash_bytes(raw) != file.content_hash:
            return FileOutcome(file, lost="it is gone" if raw is None else "it changed while it was being read")
        config = self.assignment.config
        try:
            data = unpack(path, raw)
            read = read_messages(path, data, _wanted(file), config.fields)
        except UnknownSignal as error:
            return FileOutcome(file, lost=str(error))  # not remembered as done: the user can say what it is
        except InputError as error:
            self._quarantine(path, "", [Rejected("unreadable_file", str(error), 0, raw, "file")])
            return FileOutcome(file)
        self.tally.unpacked_bytes += len(data)
        for messages in read:
            self._decode(path, messages)
        return FileOutcome(file, ",".join(messages.signal for messages in read), read[0].format.value)

    def _read(self, path: str) -> bytes | None:
        filesystem, inner = filesystem_of(path, self.assignment.s3)
        try:
            with filesystem.open_input_stream(inner, compression=None) as stream:
                raw: bytes = stream.read()
                return raw
        except FileNotFoundError:
            return None

    def _decode(self, path: str, read: Messages) -> None:
        self._quarantine(path, read.signal, read.rejected)
        start = 0
        for chunk in _chunks(read.messages):
            decoded = decode(read.signal, chunk, self.assignment.intake)
            self._hold(BY_SIGNAL[read.signal].name, decoded.batch)
            self.tally.records[read.signal.value] += decoded.batch.num_rows
            self.tally.duplicate_keys += decoded.duplicate_keys
            self.tally.pointless_metrics += decoded.pointless_metrics
            placed = [replace(bad, message=read.index[start + bad.message]) for bad in decoded.rejected]
            self._quarantine(path, read.signal, placed)
            start += len(chunk)

    def _quarantine(self, path: str, signal: str, rejected: Sequence[Rejected]) -> None:
        if not rejected:
            return
        self.tally.rejected.update(bad.reason for bad in rejected)
        limit = self.assignment.config.quarantine_bytes
        count = len(rejected)
        now = self.assignment.intake.received_unix_nano // 1000
        columns = {
            "organization_id": [self.assignment.intake.organization_id] * count,
            "quarantined_at": pa.array([now] * count, TIMESTAMP),
            "signal": pa.array([signal or None] * count, pa.string()),
            "reason": [bad.reason for bad in rejected],
            "detail": [bad.detail for bad in rejected],
            "source": [path] * count,
            "position": [bad.message for bad in rejected],
            "encoding": [bad.encoding for bad in rejected],
            "payload": pa.array([bad.payload if len(bad.payload) <= limit else None for bad in rejected], pa.binary()),
            "batch_id": [self.assignment.batch_id] * count,
        }
        self._hold(QUARANTINE.name, pa.RecordBatch.from_pydict(columns, schema=QUARANTINE.schema))

    def _hold(self, table: str, batch: pa.RecordBatch) -> None:
        self._held.setdefault(table, []).append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= self.assignment.config.flush_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        for table, batches in self._held.items():
            target = self.assignment.targets.get(table)
            if target is not None:  # a table that took this batch in an earlier run needs no files
                self.files.setdefault(table, []).extend(write_files(target, pa.Table.from_batches(batches)))
        self._held, self._held_bytes = {}, 0


def _wanted(file: HashedFile) -> Wanted:
    return Wanted(Signal(file.signal) if file.signal else None, Format(file.format) if file.format else None)


def _chunks(messages: pa.BinaryArray) -> list[pa.BinaryArray]:
    """Messages in runs of bounded size; a single larger message stays whole."""
    chunks, start, size = [], 0, 0
    for index, length in enumerate(pc.binary_length(messages).to_pylist()):
        if size and size + length > MESSAGE_CHUNK_BYTES:
            chunks.append(messages.slice(start, index - start))
            start, size = index, 0
        size += length
    return [*chunks, messages.slice(start)] if len(messages) > start else chunks
