"""OTLP files: what `neve ingest` and the collector's file receivers read.

A file is there as a whole or not at all, and is named by its batch, so that a batch that is brought again overwrites
itself. JSON has one message a line. Protobuf has each message behind its length in four bytes, the highest first, as
the collector's file exporter writes it.
"""

from __future__ import annotations

import os
import re
import struct
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from neve.lake.filesystem import S3_SCHEMES, filesystem_of, plain_path
from neve.model.signals import Signal
from neve.otlp.json import to_json
from neve.tail.export.otlp_message import otlp_message
from neve.tail.export.pieces import Sent, Unsayable, in_pieces, unsayable
from neve.tail.export.port import Delivery, DestinationAway

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.lake.config import S3Config
    from neve.tail.export.config import DestinationConfig

ENDINGS = {"proto": ".binpb", "json": ".jsonl"}
NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")


class OtlpFiles:
    """Writes a file for each batch, to a local folder or below a prefix in object storage."""

    def __init__(self, config: DestinationConfig, s3: S3Config) -> None:
        self.name = config.name
        self._folder, self._s3 = config.folder.rstrip("/") or "/", s3
        self._format, self._packing, self._most = config.format, config.packing, config.batch_spans

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Write the batch's file."""
        if not NAME.match(batch_id):
            raise ValueError(f"the batch id {batch_id!r} can't be part of a file's name")
        messages: list[bytes] = []
        delivery = in_pieces(batch, self._most, lambda piece: _write_message(piece, messages))
        if not messages:
            return delivery
        data = self._packing.pack(b"".join(map(self._framed, messages)))
        file = f"traces-{batch_id}{ENDINGS[self._format]}{self._packing.ending}"
        try:
            self._put(file, data)
        except OSError as error:
            raise DestinationAway(
                f"the destination {self.name} can't write {file} to {self._folder}: {error}",
                hint="what was kept for it waits, and is written when the folder can be",
            ) from error
        return delivery + Delivery(bytes_sent=len(data), attempts=1)

    def close(self) -> None:
        """Nothing is open."""

    def _framed(self, message: bytes) -> bytes:
        if self._format == "json":
            return to_json(Signal.TRACES, message).encode() + b"\n"
        return struct.pack(">I", len(message)) + message

    def _put(self, file: str, data: bytes) -> None:
        if self._folder.startswith(tuple(f"{scheme}://" for scheme in S3_SCHEMES)):
            filesystem, prefix = filesystem_of(self._folder, self._s3)
            with filesystem.open_output_stream(f"{prefix}/{file}", compression=None) as stream:
                stream.write(data)  # an object appears when it is complete
        else:
            folder = f"/{plain_path(self._folder)}" if self._folder.startswith("file:") else self._folder
            replace_file(Path(folder).expanduser() / file, data)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file under another name, make it durable, and give it its own; readers pass over the first one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with beside.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_message(piece: pa.RecordBatch, messages: list[bytes]) -> Sent:
    try:
        messages.append(otlp_message(piece))
    except Unsayable as error:
        return unsayable(piece, error)
    return Sent()
