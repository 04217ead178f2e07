"""Read files in a Spark task: decompress them, split them into OTLP messages per signal, pass those to the decoder."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from neve.errors import FileTooLarge, InputError, UnknownFields, UnknownLines, UnknownSignal
from neve.ingest.decoder import Batch, Decoder
from neve.ingest.files.foreign_schemas import JOURNALD, WINDOWS_EVENTS
from neve.ingest.files.formats import (
    LOOK_AT_BYTES,
    Compression,
    Format,
    find_json_signal,
    find_json_signals,
    find_proto_signal,
    guess_signal,
    is_otlp_json,
    read_name,
)
from neve.ingest.files.generic_records import GenericReader
from neve.ingest.files.json_documents import MAX_UNPACKED_BYTES, check_size
from neve.ingest.files.json_text import spans_lines, split_documents
from neve.ingest.files.log_lines import read_log_lines
from neve.ingest.files.log_times import LineRules
from neve.ingest.files.source_files import HashedFile, SourceFile, hash_bytes
from neve.lake.storage.filesystem import resolve_filesystem
from neve.model.signals import Signal
from neve.otlp import Rejected
from neve.otlp.json import documents, to_protobuf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from neve.ingest.assignment import Assignment
    from neve.ingest.config import FieldsConfig
    from neve.ingest.files.foreign_schemas import FieldMap
    from neve.lake.spark.exchange import ExchangeBlock
    from neve.lake.storage.paths import OwnFolders


PIECE_BYTES = 4 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
RECORD_FORMATS = (Format.JSON_LINES, Format.CSV, Format.PARQUET)
SCHEMA_FORMATS = {Format.JOURNALD: JOURNALD, Format.WINDOWS_EVENTS: WINDOWS_EVENTS}  # JSON lines of one schema


@dataclass(frozen=True)
class ReadOptions:
    """Properties of the files that the user stated, used if names and contents do not show them."""

    signal: Signal | None = None
    format: Format | None = None


@dataclass(frozen=True)
class Messages:
    """The OTLP messages of one file."""

    signal: Signal
    format: Format
    messages: pa.BinaryArray
    index: tuple[int, ...]
    rejected: tuple[Rejected, ...] = ()
    names: FieldMap | None = None  # of generic records


def decompress(path: str, raw: bytes, most: int = MAX_UNPACKED_BYTES) -> bytes:
    """Return the bytes of a compressed file.

    Raises `InputError` if it is truncated or not in the format of its name.

    Raises `FileTooLarge` as soon as there are more than `most` bytes: a few kilobytes can hold gigabytes.
    """
    compression = read_name(path).compression
    if compression is Compression.NONE:
        check_size(len(raw), most)
        return raw
    unpacked = io.BytesIO()
    try:
        with pa.CompressedInputStream(pa.BufferReader(raw), compression.value) as stream:
            while piece := stream.read(PIECE_BYTES):
                check_size(unpacked.tell() + len(piece), most)
                unpacked.write(piece)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"can't unpack {compression} data: {error}") from error
    return unpacked.getvalue()


def read_messages(
    path: str,
    data: bytes,
    wanted: ReadOptions,
    fields: FieldsConfig,
    most: int = MAX_UNPACKED_BYTES,
    rules: LineRules | None = None,
) -> list[Messages]:
    """Return the messages of an unpacked file, for each signal in it. Generic records are converted to messages."""
    data = data.removeprefix(BYTE_ORDER_MARK)
    form = _choose_format(path, data, wanted.format)
    if form is Format.OTLP_PROTO:
        return [_read_proto(path, data, wanted)]
    if form is Format.OTLP_JSON:
        return _read_json(path, data, wanted)
    if form in SCHEMA_FORMATS:
        read = GenericReader(Signal.LOGS, fields, most, schema=SCHEMA_FORMATS[form]).read(Format.JSON_LINES, data)
    elif form in RECORD_FORMATS:
        read = GenericReader(wanted.signal, fields, most, guess_signal(path)).read(form, data)
    else:
        form, read = read_log_lines(form, data, rules or LineRules(), most)
    return [Messages(read.signal, form, read.messages, tuple(range(len(read.messages))), read.rejected, read.names)]


def _choose_format(path: str, data: bytes, wanted: Format | None) -> Format:
    """Return the stated format, or the one by the name, where the content distinguishes the kinds of JSON."""
    form = wanted or read_name(path).format or Format.JSON_LINES
    if form is Format.LOG and data[:LOOK_AT_BYTES].lstrip().startswith(b"{"):
        form, wanted = Format.JSON_LINES, None
    if wanted is None and form in (Format.OTLP_JSON, Format.JSON_LINES):
        return Format.OTLP_JSON if is_otlp_json(data) else Format.JSON_LINES
    return form


def _read_proto(path: str, data: bytes, wanted: ReadOptions) -> Messages:
    messages = pa.array(split_messages(data), pa.binary())
    signal = wanted.signal or find_proto_signal(messages) or guess_signal(path)
    if signal is None:
        raise UnknownSignal("can't detect whether this protobuf file has logs, metrics or traces", hint="pass --signal")
    return Messages(signal, Format.OTLP_PROTO, messages, tuple(range(len(messages))))


def _read_json(path: str, data: bytes, wanted: ReadOptions) -> list[Messages]:
    present = find_json_signals(data)
    if wanted.signal is None and len(present) > 1:
        return _read_mixed_json(data)
    signal = wanted.signal or next(iter(present), None) or guess_signal(path)
    if signal is None:
        raise UnknownSignal(
            "can't detect whether this OTLP JSON file has logs, metrics or traces", hint="pass --signal"
        )
    read = to_protobuf(signal, data)
    if read.rejected and spans_lines(data):
        return [_read_spanning_json(signal, data)]
    return [Messages(signal, Format.OTLP_JSON, read.messages, read.index, read.rejected)]


def _read_spanning_json(signal: Signal, data: bytes) -> Messages:
    """Read a text whose documents span lines. An error costs its document only, and has its line and column."""
    found = split_documents(data)
    read = to_protobuf(signal, b"\n".join(" ".join(text.splitlines()).encode() for text in found.texts))
    rejected = tuple(replace(bad, message=found.lines[bad.message]) for bad in read.rejected)
    return Messages(signal, Format.OTLP_JSON, read.messages, read.index, (*found.rejected, *rejected))


def _read_mixed_json(data: bytes) -> list[Messages]:
    """Split a file whose lines are of several signals. A line without a signal is added to the first."""
    lines = [line for line in documents(data) if line.strip()]
    signals = [find_json_signal(line) for line in lines]
    first = next(signal for signal in signals if signal)
    found = []
    for signal in dict.fromkeys(signal or first for signal in signals):
        places = [place for place, own in enumerate(signals) if (own or first) is signal]
        read = to_protobuf(signal, b"\n".join(b" ".join(lines[place].splitlines()) for place in places))
        rejected = tuple(replace(bad, message=places[bad.message]) for bad in read.rejected)
        index = tuple(places[position] for position in read.index)
        found.append(Messages(signal, Format.OTLP_JSON, read.messages, index, rejected))
    return found


def split_messages(data: bytes) -> list[bytes]:
    """Return the messages of a protobuf file: one, or several with a length prefix each.

    The collector's file exporter writes the second kind, with a big-endian length of four bytes.
    """
    messages, start = [], 0
    while start + 4 <= len(data):
        (length,) = struct.unpack_from(">I", data, start)
        if start + 4 + length > len(data):
            break
        messages.append(data[start + 4 : start + 4 + length])
        start += 4 + length
    if not messages:
        return [data]
    cut_short = [data[start:]] if start < len(data) else []  # the decoder reports it
    return [message for message in messages if message] + cut_short


# Returns why a file at a path may not be read, or nothing.
PathRule = Callable[[str], str | None]


def allow_any_path(_path: str) -> str | None:
    """Allow every path."""
    return None


@dataclass(frozen=True)
class PathRules:
    """Rules that forbid a task to read a planned file: the lake's own folders, and the rule of the run."""

    own: OwnFolders
    wall: PathRule

    def __call__(self, path: str) -> str | None:
        """Return why a file may not be read, or nothing."""
        if self.own.holds(path):
            return "is in a folder of the lake itself, which is not a source"
        return self.wall(path)


OTLP = (Format.OTLP_PROTO, Format.OTLP_JSON)


@dataclass(frozen=True)
class FileOutcome:
    """Outcome of one file."""

    file: HashedFile
    signal: str | None = None
    format: str | None = None
    lost: str | None = None
    quarantined: bool = False  # a lost file that is in quarantine already

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return the outcome of the values that `to_json` returned."""
        file = HashedFile(**{**values["file"], "source": SourceFile(**values["file"]["source"])})
        return cls(**{**values, "file": file})


@dataclass(frozen=True)
class FileTask:
    """Groups of files to ingest for an organization. Each row of the Spark frame names a group."""

    assignment: Assignment
    organization_id: str
    groups: Sequence[tuple[HashedFile, ...]]
    wall: PathRule = allow_any_path

    def scatter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[ExchangeBlock]:
        """Yield the rows of the task's groups. The report of the task has the outcome of each file."""
        reader = _FileReader(self.assignment, self.organization_id, self.wall)
        firsts = [0, *accumulate(map(len, self.groups))]
        for batch in batches:
            for group in batch.column(0).to_pylist():
                for place, file in enumerate(self.groups[group], firsts[group]):
                    yield from reader.read(file, place)
        yield from reader.decoder.finish([outcome.to_json() for outcome in reader.outcomes])


@dataclass
class _FileReader:
    assignment: Assignment
    organization_id: str
    wall: PathRule
    outcomes: list[FileOutcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.decoder = Decoder(self.assignment)

    def read(self, file: HashedFile, place: int = 0) -> Iterator[ExchangeBlock]:
        """Decode one file, given its place in the batch. A file that can't be read as a whole goes to quarantine."""
        read = self._open(file)
        if not read:
            return
        intake = self.assignment.intake(self.organization_id)
        for part in read:
            # Neve converts generic records to one message, which is as large as their file.
            bounds = self.assignment.config.bounds if part.format in OTLP else None
            batch = Batch(
                file.source.path,
                part.signal,
                intake,
                part.messages,
                part.index,
                part.rejected,
                bounds=bounds,
                ranks=np.full(len(part.messages), place, dtype=np.int64),
            )
            yield from self.decoder.add(batch)
        signals = ",".join(part.signal for part in read)
        self.outcomes.append(FileOutcome(file, signals, read[0].format.value))

    def _open(self, file: HashedFile) -> list[Messages]:
        """Return the messages of a file. A lost or rejected file is recorded and has none."""
        raw = self._read(file)
        if raw is None:
            return []
        path, config = file.source.path, self.assignment.config
        try:
            data = decompress(path, raw, config.max_unpacked_bytes)
            rules = LineRules(config.lines, file.source.modified_us * 1000 or self.assignment.started_unix_nano)
            read = read_messages(path, data, _make_read_options(file), config.fields, config.max_unpacked_bytes, rules)
        except (UnknownSignal, UnknownFields, UnknownLines) as error:
            self._lose(file, str(error))  # not recorded as done: the user can state its format, signal and fields
            return []
        except FileTooLarge as error:
            self._refuse(file, "file_too_large", str(error), raw)
            self._lose(file, str(error), quarantined=True)  # not recorded as done either: the user can raise the limit
            return []
        except Exception as error:
            # A file may cause any error in its reader. It must not affect the other files of its batch.
            detail = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            self._refuse(file, "unreadable_file", detail, raw)
            self.outcomes.append(FileOutcome(file))
            return []
        self.decoder.tally.unpacked_bytes += len(data)
        return read

    def _refuse(self, file: HashedFile, reason: str, detail: str, raw: bytes) -> None:
        self.decoder.refuse(file.source.path, self.organization_id, Rejected(reason, detail, 0, raw, "file"))

    def _lose(self, file: HashedFile, why: str, *, quarantined: bool = False) -> None:
        self.outcomes.append(FileOutcome(file, lost=why, quarantined=quarantined))

    def _read(self, file: HashedFile) -> bytes | None:
        """Return the bytes of a file if they are the planned ones. Otherwise the file is lost."""
        path = file.source.path
        if problem := self.wall(path):
            self._lose(file, f"it {problem}")
            return None
        try:
            filesystem, inner = resolve_filesystem(path, self.assignment.s3)
            with filesystem.open_input_stream(inner, compression=None) as stream:
                raw: bytes = stream.read(file.source.size + 1)
        except FileNotFoundError:
            self._lose(file, "it is missing")
            return None
        except OSError as error:
            self._lose(file, f"{type(error).__name__}: {error}")
            return None
        if hash_bytes(raw) != file.content_hash:
            self._lose(file, "it changed while it was being read")
            return None
        if problem := self.wall(path):  # a link that was created in the meantime
            self._lose(file, f"it {problem}")
            return None
        return raw


def _make_read_options(file: HashedFile) -> ReadOptions:
    return ReadOptions(Signal(file.signal) if file.signal else None, Format(file.format) if file.format else None)
