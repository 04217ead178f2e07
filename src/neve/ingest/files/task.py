"""What a Spark task does with its files: read them, cut them into messages, hand those to the decoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from neve.errors import FileTooLarge, InputError, UnknownSignal
from neve.ingest.decoder import Batch, Decoder
from neve.ingest.files.find import SourceFile
from neve.ingest.files.formats import Format
from neve.ingest.files.hashing import HashedFile, hash_bytes
from neve.ingest.files.read import Messages, Wanted, read_messages, unpack
from neve.lake.filesystem import filesystem_of
from neve.model.signals import Signal
from neve.otlp import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from neve.ingest.assignment import Assignment
    from neve.lake.exchange import Parcel
    from neve.lake.paths import OwnFolders

# Why a file at a path may not be read, or nothing.
Wall = Callable[[str], str | None]


def nothing_wrong(_path: str) -> str | None:
    """No wall at all."""
    return None


@dataclass(frozen=True)
class Walls:
    """What keeps a task from a file although it was planned: the lake's own folders, and the rule of a run."""

    own: OwnFolders
    wall: Wall

    def __call__(self, path: str) -> str | None:
        """Why a file may not be read, or nothing."""
        if self.own.holds(path):
            return "is in a folder of the lake itself, which is no source of telemetry"
        return self.wall(path)


OTLP = (Format.OTLP_PROTO, Format.OTLP_JSON)


@dataclass(frozen=True)
class FileOutcome:
    """How one file ended."""

    file: HashedFile
    signal: str | None = None
    format: str | None = None
    lost: str | None = None
    quarantined: bool = False  # a lost file that is on record already

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Self:
        """The outcome that `to_json` told of."""
        file = HashedFile(**{**told["file"], "source": SourceFile(**told["file"]["source"])})
        return cls(**{**told, "file": file})


@dataclass(frozen=True)
class FileTask:
    """Groups of files to take in for an organization; a row of the frame that Spark runs it over names a group."""

    assignment: Assignment
    organization_id: str
    groups: Sequence[tuple[HashedFile, ...]]
    wall: Wall = nothing_wrong

    def scatter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """The rows of the groups that a task was given; its report says how each file ended."""
        reader = _FileReader(self.assignment, self.organization_id, self.wall)
        for batch in batches:
            for group in batch.column(0).to_pylist():
                for file in self.groups[group]:
                    yield from reader.take(file)
        yield from reader.decoder.finish([outcome.to_json() for outcome in reader.outcomes])


@dataclass
class _FileReader:
    assignment: Assignment
    organization_id: str
    wall: Wall
    outcomes: list[FileOutcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.decoder = Decoder(self.assignment)

    def take(self, file: HashedFile) -> Iterator[Parcel]:
        """Decode one file; a file that can't be read as a whole goes to quarantine."""
        read = self._open(file)
        if not read:
            return
        intake = self.assignment.intake(self.organization_id)
        for part in read:
            # Generic records become one message of ours, as large as their file.
            bounds = self.assignment.config.bounds if part.format in OTLP else None
            batch = Batch(
                file.source.path, part.signal, intake, part.messages, part.index, part.rejected, bounds=bounds
            )
            yield from self.decoder.take(batch)
        signals = ",".join(part.signal for part in read)
        self.outcomes.append(FileOutcome(file, signals, read[0].format.value))

    def _open(self, file: HashedFile) -> list[Messages]:
        """The messages of a file; none where it is lost or refused, which is on record then."""
        raw = self._read(file)
        if raw is None:
            return []
        path, config = file.source.path, self.assignment.config
        try:
            data = unpack(path, raw, config.max_unpacked_bytes)
            read = read_messages(path, data, _wanted(file), config.fields, config.max_unpacked_bytes)
        except UnknownSignal as error:
            self._lose(file, str(error))  # not remembered as done: the user can say what it is
            return []
        except FileTooLarge as error:
            self._refuse(file, "file_too_large", str(error), raw)
            self._lose(file, str(error), quarantined=True)  # nor this: the user can raise the limit
            return []
        except Exception as error:
            # Whatever a file does to its reader, it must not cost the others of its batch.
            words = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            self._refuse(file, "unreadable_file", words, raw)
            self.outcomes.append(FileOutcome(file))
            return []
        self.decoder.tally.unpacked_bytes += len(data)
        return read

    def _refuse(self, file: HashedFile, reason: str, words: str, raw: bytes) -> None:
        self.decoder.refuse(file.source.path, self.organization_id, Rejected(reason, words, 0, raw, "file"))

    def _lose(self, file: HashedFile, why: str, *, quarantined: bool = False) -> None:
        self.outcomes.append(FileOutcome(file, lost=why, quarantined=quarantined))

    def _read(self, file: HashedFile) -> bytes | None:
        """The bytes of a file, if they are those that were planned; else it is lost."""
        path = file.source.path
        if problem := self.wall(path):
            self._lose(file, f"it {problem}")
            return None
        try:
            filesystem, inner = filesystem_of(path, self.assignment.s3)
            with filesystem.open_input_stream(inner, compression=None) as stream:
                raw: bytes = stream.read(file.source.size + 1)
        except FileNotFoundError:
            self._lose(file, "it is gone")
            return None
        except OSError as error:
            self._lose(file, f"{type(error).__name__}: {error}")
            return None
        if hash_bytes(raw) != file.content_hash:
            self._lose(file, "it changed while it was being read")
            return None
        if problem := self.wall(path):  # a link that was put there meanwhile
            self._lose(file, f"it {problem}")
            return None
        return raw


def _wanted(file: HashedFile) -> Wanted:
    return Wanted(Signal(file.signal) if file.signal else None, Format(file.format) if file.format else None)
