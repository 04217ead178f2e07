"""What a Spark task does with segments of the raw zone: open them, hand their messages to the decoder."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.ingest.decoder import Batch, Decoder
from neve.model.signals import Signal
from neve.model.tables import BY_SIGNAL, QUARANTINE
from neve.otlp import Rejected
from neve.otlp.json import to_protobuf
from neve.raw.frame import Encoding, Frame, Kind, decode
from neve.raw.unpack import Unpackable
from neve.raw.unpack import unpack as unpacked

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from neve.ingest.assignment import Assignment
    from neve.ingest.stream.positions import Positions
    from neve.lake.exchange import Parcel
    from neve.raw.zone import RawZone, Segment

SIGNALS = {Kind.TRACES: Signal.TRACES, Kind.LOGS: Signal.LOGS, Kind.METRICS: Signal.METRICS}


@dataclass(frozen=True)
class RawTask:
    """Groups of segments to take in; a row of the frame that Spark runs it over names a group."""

    assignment: Assignment
    zone: RawZone
    groups: Sequence[Sequence[Segment]]
    positions: dict[str, Positions]

    def scatter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """The rows of the groups that a task was given; its report says when the newest message came."""
        decoder = Decoder(self.assignment)
        newest = 0
        for batch in batches:
            for group in batch.column(0).to_pylist():
                for segment in self.groups[group]:
                    newest = max(newest, (yield from self._take(decoder, segment)))
        yield from decoder.finish(newest)

    def _take(self, decoder: Decoder, segment: Segment) -> Generator[Parcel, None, int]:
        """Decode a segment for the tables that do not have it; the time when its newest message came."""
        wanted = {name for name, at in self.positions.items() if segment.number >= at.get(segment.writer, 0)}
        source = f"raw:{segment.writer}/{segment.number}"
        if not wanted:
            return 0
        try:
            data = self.zone.read(segment.path)
        except FileNotFoundError:
            decoder.refuse(source, "unknown", Rejected("missing_segment", f"{segment.path} is gone", 0, b"", "file"))
            return 0
        contents = decode(data)
        for damage in contents.damaged if QUARANTINE.name in wanted else ():
            lost = Rejected("damaged_segment", damage.reason, len(contents.frames), damage.data, "file")
            decoder.refuse(source, contents.frames[0].organization_id if contents.frames else "unknown", lost)
        decoder.tally.unpacked_bytes += len(data)
        frames = [(place, frame) for place, frame in enumerate(contents.frames) if frame.kind in SIGNALS]
        frames.sort(key=_group)
        for (organization, kind), group in groupby(frames, key=_group):
            signal = SIGNALS[kind]
            yield from self._decode(decoder, source, organization, signal, list(group), wanted)
        return max((frame.received_unix_nano for frame in contents.frames), default=0)

    def _decode(
        self,
        decoder: Decoder,
        source: str,
        organization: str,
        signal: Signal,
        frames: list[tuple[int, Frame]],
        wanted: set[str],
    ) -> Iterator[Parcel]:
        wants_rows, wants_rejects = BY_SIGNAL[signal].name in wanted, QUARANTINE.name in wanted
        if not (wants_rows or wants_rejects):
            decoder.tally.replayed += len(frames)
            return
        opened = _open_frames(signal, frames)
        received = max(frame.received_unix_nano for _place, frame in frames)
        intake = self.assignment.intake(organization, received)
        yield from decoder.take(
            Batch(source, signal, intake, opened.messages, opened.places, opened.rejected, wants_rows, wants_rejects)
        )


@dataclass(frozen=True)
class Opened:
    """Messages out of frames, each with the place of its frame, and frames that could not be opened."""

    messages: pa.BinaryArray
    places: list[int]
    rejected: list[Rejected]


def _open_frames(signal: Signal, frames: list[tuple[int, Frame]]) -> Opened:
    messages, places, rejected = [], [], []
    for place, frame in frames:
        try:
            data = unpack(frame)
        except Unpackable as error:
            rejected.append(Rejected("unreadable_frame", f"the frame {error}", place, frame.payload, "file"))
            continue
        if frame.encoding is Encoding.PROTOBUF:
            messages.append(data)
            places.append(place)
            continue
        read = to_protobuf(signal, data)
        messages += read.messages.to_pylist()
        places += [place] * len(read.messages)
        rejected += [Rejected(bad.reason, bad.detail, place, bad.payload, bad.encoding) for bad in read.rejected]
    return Opened(pa.array(messages, pa.binary()), places, rejected)


def unpack(frame: Frame) -> bytes:
    """A frame's message; its size was bounded when it was received."""
    return unpacked(frame.payload, frame.packing)


def _group(item: tuple[int, Frame]) -> tuple[str, Kind]:
    return item[1].organization_id, item[1].kind
