"""Open frames of the raw zone as OTLP messages, a few at a time: a compressed frame may expand a thousandfold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.model.signals import Signal
from neve.otlp import Rejected
from neve.otlp.bounds import TooMany
from neve.otlp.json import check_json_bounds, measure_json, to_protobuf
from neve.raw.compression import CorruptPayload, decompress_pieces, join_pieces
from neve.raw.frame import Encoding, Frame, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from neve.ingest.config import IngestConfig

SIGNALS = {Kind.TRACES: Signal.TRACES, Kind.LOGS: Signal.LOGS, Kind.METRICS: Signal.METRICS}
RUN_BYTES = 16 * 1024 * 1024  # of unpacked messages in memory; a larger message is held alone


@dataclass(frozen=True)
class OpenedFrames:
    """Messages of frames, each with the position of its frame, and frames that could not be opened."""

    messages: pa.BinaryArray
    places: list[int]
    rejected: list[Rejected]


def open_frames(signal: Signal, frames: Iterable[tuple[int, Frame]], config: IngestConfig) -> Iterator[OpenedFrames]:
    """Open frames lazily, in runs of bounded size. A run is released before the next is made."""
    run = _Run()
    for place, frame in frames:
        messages, rejected = open_frame(signal, place, frame, config)
        size = sum(map(len, messages))
        if run.size and run.size + size > RUN_BYTES:
            yield run.end()
            run = _Run()
        run.messages += messages
        run.places += [place] * len(messages)
        run.rejected += rejected
        run.size += size
        del messages
    if run.messages or run.rejected:
        yield run.end()


def open_frame(signal: Signal, place: int, frame: Frame, config: IngestConfig) -> tuple[list[bytes], list[Rejected]]:
    """Return the messages of one frame, and the reasons for its rejection."""
    try:
        data = unpack_payload(frame, config.max_message_bytes)
        if frame.encoding is Encoding.PROTOBUF:
            return [data], []
        check_json_bounds(measure_json(data), config.bounds)
    except CorruptPayload as error:
        return [], [Rejected("unreadable_frame", f"the frame {error}", place, frame.payload, "file")]
    except FrameTooLarge as error:
        return [], [Rejected("overgrown_message", str(error), place, frame.payload, "file")]
    except TooMany as error:
        detail = f"{error.message} (ingest.{error.setting})"
        return [], [Rejected("overgrown_message", detail, place, frame.payload, "file")]
    read = to_protobuf(signal, data)
    rejected = [Rejected(bad.reason, bad.detail, place, bad.payload, bad.encoding) for bad in read.rejected]
    return read.messages.to_pylist(), rejected


class FrameTooLarge(ValueError):
    """Raised when a frame unpacks to more bytes than a message may have."""


def unpack_payload(frame: Frame, limit: int) -> bytes:
    """Return the message of a frame. Its size was limited by the receiver, and is limited again here."""
    found, size = [], 0
    for piece in decompress_pieces(frame.payload, frame.packing):
        size += len(piece)
        if size > limit:
            raise FrameTooLarge(f"the frame unpacks to more than {limit} bytes (ingest.max_message_bytes)")
        found.append(piece)
    return join_pieces(found) if found else b""


class _Run:
    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.places: list[int] = []
        self.rejected: list[Rejected] = []
        self.size = 0

    def end(self) -> OpenedFrames:
        """Return the run as a column without a second copy of its messages."""
        opened = OpenedFrames(pa.array(self.messages, pa.binary()), self.places, self.rejected)
        self.messages = []
        return opened
