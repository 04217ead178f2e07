"""What a Spark task does with its files: read them, cut them into messages, hand those to the decoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.errors import InputError, UnknownSignal
from neve.ingest.decoder import Batch, Decoder
from neve.ingest.files.formats import Format
from neve.ingest.files.hashing import HashedFile, hash_bytes
from neve.ingest.files.read import Wanted, read_messages, unpack
from neve.lake.filesystem import filesystem_of
from neve.model.signals import Signal
from neve.otlp import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from neve.ingest.assignment import Assignment
    from neve.lake.exchange import Parcel

OTLP = (Format.OTLP_PROTO, Format.OTLP_JSON)


@dataclass(frozen=True)
class FileOutcome:
    """How one file ended."""

    file: HashedFile
    signal: str | None = None
    format: str | None = None
    lost: str | None = None


@dataclass(frozen=True)
class FileTask:
    """Groups of files to take in for an organization; a row of the frame that Spark runs it over names a group."""

    assignment: Assignment
    organization_id: str
    groups: Sequence[tuple[HashedFile, ...]]

    def scatter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """The rows of the groups that a task was given; its report says how each file ended."""
        reader = _FileReader(self.assignment, self.organization_id)
        for batch in batches:
            for group in batch.column(0).to_pylist():
                for file in self.groups[group]:
                    yield from reader.take(file)
        yield from reader.decoder.finish(reader.outcomes)


@dataclass
class _FileReader:
    assignment: Assignment
    organization_id: str
    outcomes: list[FileOutcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.decoder = Decoder(self.assignment)

    def take(self, file: HashedFile) -> Iterator[Parcel]:
        """Decode one file; a file that can't be read as a whole goes to quarantine."""
        path = file.source.path
        raw = self._read(path)
        if raw is None or hash_bytes(raw) != file.content_hash:
            self._lose(file, "it is gone" if raw is None else "it changed while it was being read")
            return
        try:
            data = unpack(path, raw)
            read = read_messages(path, data, _wanted(file), self.assignment.config.fields)
        except UnknownSignal as error:
            self._lose(file, str(error))  # not remembered as done: the user can say what it is
            return
        except InputError as error:
            self.decoder.refuse(path, self.organization_id, Rejected("unreadable_file", str(error), 0, raw, "file"))
            self.outcomes.append(FileOutcome(file))
            return
        self.decoder.tally.unpacked_bytes += len(data)
        intake = self.assignment.intake(self.organization_id)
        for part in read:
            # Generic records become one message of ours, as large as their file.
            bounds = self.assignment.config.bounds if part.format in OTLP else None
            batch = Batch(path, part.signal, intake, part.messages, part.index, part.rejected, bounds=bounds)
            yield from self.decoder.take(batch)
        signals = ",".join(part.signal for part in read)
        self.outcomes.append(FileOutcome(file, signals, read[0].format.value))

    def _lose(self, file: HashedFile, why: str) -> None:
        self.outcomes.append(FileOutcome(file, lost=why))

    def _read(self, path: str) -> bytes | None:
        filesystem, inner = filesystem_of(path, self.assignment.s3)
        try:
            with filesystem.open_input_stream(inner, compression=None) as stream:
                raw: bytes = stream.read()
                return raw
        except FileNotFoundError:
            return None


def _wanted(file: HashedFile) -> Wanted:
    return Wanted(Signal(file.signal) if file.signal else None, Format(file.format) if file.format else None)
