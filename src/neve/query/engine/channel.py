"""Frames between a server and its worker processes: JSON documents, and Arrow batches without a copy."""

from __future__ import annotations

import json
import struct
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

Given = TypeVar("Given")
Read = TypeVar("Read", bytes, int)

HEADER = struct.Struct(">cQ")
READ_AHEAD_BYTES = 64 * 1024  # frames up to this size are read together with those that follow
MAX_FRAME_BYTES = 256 * 1024 * 1024  # of a frame: a statement with the paths of all its files, or a slice of a result


class Frame(Enum):
    """Type of a frame."""

    REQUEST = b"R"  # to the worker: a statement; the first one has the settings of DuckDB
    INTERRUPT = b"I"  # to the worker: interrupt the statement of that number
    REST = b"W"  # to the worker: release all files
    PLANNED = b"P"  # to the worker: a planned statement of its program, or a refusal
    READY = b"O"  # from the worker: DuckDB is open
    SCHEMA = b"S"
    BATCH = b"B"
    PLAN = b"N"  # from the worker: plan a statement of its program
    END = b"Z"
    ERROR = b"E"


class ChannelClosed(Exception):
    """Raised when the other side of a channel is closed."""


class Channel:
    """One end of a channel. A single thread reads, and one thread writes at a time.

    Each call of the system may wake the other process, which on a busy machine takes longer than the call. Frames that
    follow each other closely are therefore sent and read together.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._held = b""  # frames that wait for the next one
        self._ahead = b""  # bytes that were read and belong to the next frames

    def hold(self, frame: Frame, payload: Any) -> None:
        """Send a frame together with the next one, which follows soon. A large frame is sent at once."""
        if len(self._held) + memoryview(payload).nbytes > READ_AHEAD_BYTES:
            self.send(frame, payload)
        else:
            self._held = b"".join((self._held, _header(frame, payload), payload))

    def send(self, frame: Frame, payload: Any = b"") -> None:
        """Send one frame, after those that were held. Blocks while the other side does not read."""
        held, self._held = self._held, b""
        start, whole = held + _header(frame, payload), memoryview(payload).cast("B")
        try:
            if len(whole) <= READ_AHEAD_BYTES:
                self._end.sendall(start + whole)
            else:
                self._end.sendall(start)
                self._end.sendall(whole)
        except OSError as error:
            raise ChannelClosed from error

    def send_json(self, frame: Frame, document: dict[str, Any]) -> None:
        """Send a JSON document."""
        self.send(frame, json.dumps(document).encode())

    def receive(self) -> tuple[Frame, pa.Buffer]:
        """Wait for a frame."""
        kind, size = HEADER.unpack(self._exactly(HEADER.size))
        if size > MAX_FRAME_BYTES:
            raise ChannelClosed  # neither side sends such a frame
        return Frame(kind), self._exactly(size)

    def shut(self) -> None:
        """Close this end."""
        self._end.close()

    def set_timeout(self, seconds: float | None) -> None:
        """Set the timeout of `receive`."""
        self._end.settimeout(seconds)

    def _exactly(self, size: int) -> pa.Buffer:
        """Return the next bytes. Large payloads are read into place."""
        if size <= READ_AHEAD_BYTES:
            while len(self._ahead) < size:
                self._ahead += self._receive_some(self._end.recv, READ_AHEAD_BYTES)
            found, self._ahead = self._ahead[:size], self._ahead[size:]
            return pa.py_buffer(found)
        buffer = pa.allocate_buffer(size)
        view = memoryview(buffer).cast("B")
        at = len(self._ahead)
        view[:at], self._ahead = self._ahead, b""
        while at < size:
            at += self._receive_some(self._end.recv_into, view[at:])
        return buffer

    def _receive_some(self, read: Callable[[Given], Read], given: Given) -> Read:
        try:
            found = read(given)
        except OSError as error:
            raise ChannelClosed from error
        if not found:
            raise ChannelClosed
        return found


def _header(frame: Frame, payload: Any) -> bytes:
    return HEADER.pack(frame.value, memoryview(payload).nbytes)


def parse_document(payload: pa.Buffer) -> dict[str, Any]:
    """Return the document in a frame."""
    found: dict[str, Any] = json.loads(payload.to_pybytes())
    return found
