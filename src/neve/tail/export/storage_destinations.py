"""Destinations in storage: OTLP files in a folder or bucket, and an Iceberg table of the lake.

Both know a batch by its id, so that a batch that is delivered again is stored once. A file is there as a whole or
not at all. JSON files have one message a line. Protobuf files have each message behind its length in four bytes,
big-endian, as the collector's file exporter writes it.
"""

from __future__ import annotations

import os
import re
import struct
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.lake.commit.append import append_once, find_batch
from neve.lake.storage.filesystem import resolve_filesystem
from neve.lake.storage.paths import S3_SCHEMES, strip_scheme
from neve.lake.write.table_writer import Target, write_files
from neve.model.commits import RECORDS
from neve.model.signals import Signal
from neve.otlp.json import to_json
from neve.tail.export.destination import (
    Delivery,
    DestinationUnavailable,
    SendResult,
    SpanEncodingError,
    reject_unencodable,
    send_in_pieces,
)
from neve.tail.export.otlp import encode_message

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.lake.config import S3Config
    from neve.lake.lake import Lake
    from neve.tail.config import DestinationConfig


FILE_SUFFIXES = {"proto": ".binpb", "json": ".jsonl"}
BATCH_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")


class OtlpFilesDestination:
    """Destination that writes a file for each batch, to a local folder or below a prefix in object storage."""

    def __init__(self, config: DestinationConfig, s3: S3Config) -> None:
        self.name = config.name
        self._folder, self._s3 = config.folder.rstrip("/") or "/", s3
        self._format, self._packing, self._most = config.format, config.packing, config.batch_spans

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Write the file of a batch."""
        if not BATCH_NAME.match(batch_id):
            raise ValueError(f"the batch id {batch_id!r} can't be part of a file's name")
        messages: list[bytes] = []
        delivery = send_in_pieces(batch, self._most, lambda piece: _append_message(piece, messages))
        if not messages:
            return delivery
        data = self._packing.pack(b"".join(map(self._frame, messages)))
        file = f"traces-{batch_id}{FILE_SUFFIXES[self._format]}{self._packing.ending}"
        try:
            self._write(file, data)
        except OSError as error:
            raise DestinationUnavailable(
                f"the destination {self.name} can't write {file} to {self._folder}: {error}",
                hint="kept spans are written when the folder is writable",
            ) from error
        return delivery + Delivery(bytes_sent=len(data), attempts=1)

    def close(self) -> None:
        """Do nothing, as no connection is open."""

    def _frame(self, message: bytes) -> bytes:
        if self._format == "json":
            return to_json(Signal.TRACES, message).encode() + b"\n"
        return struct.pack(">I", len(message)) + message

    def _write(self, file: str, data: bytes) -> None:
        if self._folder.startswith(tuple(f"{scheme}://" for scheme in S3_SCHEMES)):
            filesystem, prefix = resolve_filesystem(self._folder, self._s3)
            with filesystem.open_output_stream(f"{prefix}/{file}", compression=None) as stream:
                stream.write(data)  # an object appears when it is complete
        else:
            folder = f"/{strip_scheme(self._folder)}" if self._folder.startswith("file:") else self._folder
            replace_file(Path(folder).expanduser() / file, data)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, sync it, and rename it.

    Readers ignore the temporary name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with draft.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _append_message(piece: pa.RecordBatch, messages: list[bytes]) -> SendResult:
    try:
        messages.append(encode_message(piece))
    except SpanEncodingError as error:
        return reject_unencodable(piece, error)
    return SendResult()


OPERATION = "tail-export"


class IcebergDestination:
    """Destination that appends each batch in a snapshot with the batch id, so that a repeated batch is stored once."""

    def __init__(self, config: DestinationConfig, lake: Lake) -> None:
        self.name = config.name
        self._table, self._lake = config.table, lake

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Write the batch's files and commit them, unless the table already has the batch."""
        if batch.num_rows == 0:
            return Delivery()
        try:
            return self._append(batch, batch_id)
        except Exception as error:  # any error by which the catalog, its driver or the storage is unavailable
            raise DestinationUnavailable(
                f"the destination {self.name} can't append to {self._table}: {_first_line(error)}",
                hint="kept spans are delivered later; a batch that was stored is recognized by its id",
            ) from error

    def close(self) -> None:
        """Do nothing, as no connection is open."""

    def _append(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        table = self._lake.table(self._table)
        if find_batch(table, batch_id) is not None:
            return Delivery(accepted=batch.num_rows)
        try:
            files = write_files(Target.of(table), pa.Table.from_batches([batch]))
        except (ValueError, TypeError, pa.ArrowNotImplementedError) as error:  # for example a null in a required column
            message = f"the spans don't fit the table {self._table}: {_first_line(error)}"
            return Delivery(rejected=batch.num_rows, messages=(message,), attempts=1)
        summary = {RECORDS: str(batch.num_rows)}
        commit = append_once(table, files, batch_id=batch_id, operation=OPERATION, summary=summary)
        if not commit.new:
            _delete_files(table, files)  # another process has committed the same batch
        return Delivery(accepted=batch.num_rows, bytes_sent=sum(file.file_size_in_bytes for file in files), attempts=1)


def _delete_files(table: Table, files: list[DataFile]) -> None:
    for file in files:
        table.io.delete(file.file_path)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
