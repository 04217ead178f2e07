"""Frames between a server and a process that runs its statements: JSON, and Arrow batches without a copy."""

from __future__ import annotations

import json
import struct
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import socket

HEADER = struct.Struct(">cQ")
MOST_BYTES = 256 * 1024 * 1024  # of a frame: a statement with the paths of all its files, or a slice of a result


class Frame(Enum):
    """What a frame holds."""

    REQUEST = b"R"  # to the worker: a statement; its first one says how to open DuckDB
    INTERRUPT = b"I"  # to the worker: end the statement of that number
    REST = b"W"  # to the worker: let go of all files
    READY = b"O"  # from the worker: DuckDB is open
    SCHEMA = b"S"
    BATCH = b"B"
    END = b"Z"
    ERROR = b"E"


class ChannelClosed(Exception):
    """Raised when the other side of a channel is gone."""


class Channel:
    """One end; a single thread reads, and one writes at a time."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, frame: Frame, payload: Any = b"") -> None:
        """Send one frame; blocks while the other side does not read."""
        whole = memoryview(payload).cast("B")
        try:
            self._end.sendall(HEADER.pack(frame.value, len(whole)))
            self._end.sendall(whole)
        except OSError as error:
            raise ChannelClosed from error

    def send_json(self, frame: Frame, document: dict[str, Any]) -> None:
        """Send a document."""
        self.send(frame, json.dumps(document).encode())

    def receive(self) -> tuple[Frame, pa.Buffer]:
        """Wait for a frame."""
        kind, size = HEADER.unpack(self._exactly(HEADER.size))
        if size > MOST_BYTES:
            raise ChannelClosed  # no side of ours sends that
        return Frame(kind), self._exactly(size)

    def shut(self) -> None:
        """Close this end."""
        self._end.close()

    def set_timeout(self, seconds: float | None) -> None:
        """Let `receive` fail after so long."""
        self._end.settimeout(seconds)

    def _exactly(self, size: int) -> pa.Buffer:
        buffer = pa.allocate_buffer(size)
        view = memoryview(buffer).cast("B") if size else memoryview(b"")
        at = 0
        while at < size:
            try:
                read = self._end.recv_into(view[at:])
            except OSError as error:
                raise ChannelClosed from error
            if not read:
                raise ChannelClosed
            at += read
        return buffer


def document_of(payload: pa.Buffer) -> dict[str, Any]:
    """The document in a frame."""
    found: dict[str, Any] = json.loads(payload.to_pybytes())
    return found
