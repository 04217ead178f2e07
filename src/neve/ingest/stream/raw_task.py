"""What a Spark task does with segments of the raw zone: open them, hand their messages to the decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from neve.ingest.decoder import Batch, Decode, Decoder, decode_all
from neve.ingest.stream.open_frames import SIGNALS, open_frames
from neve.model.tables import BY_SIGNAL, QUARANTINE
from neve.otlp import Rejected
from neve.raw.frame import Frame, Kind, decode

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    import pyarrow as pa

    from neve.ingest.assignment import Assignment
    from neve.ingest.stream.positions import Positions
    from neve.lake.exchange import Parcel
    from neve.model.signals import Signal
    from neve.raw.zone import RawZone, Segment

# Frames that ended a process that decoded them, by the path of their segment: their places, and how it ended.
Killers = Mapping[str, Mapping[int, str]]


@dataclass(frozen=True)
class RawTask:
    """Groups of segments to take in; a row of the frame that Spark runs it over names a group."""

    assignment: Assignment
    zone: RawZone
    groups: Sequence[Sequence[Segment]]
    positions: dict[str, Positions]
    killers: Killers = field(default_factory=dict)
    decode: Decode = decode_all

    def scatter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """The rows of the groups that a task was given; its report says when the newest message came."""
        decoder = Decoder(self.assignment, self.decode)
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
        del data
        killers = self.killers.get(segment.path, {})
        frames = [(place, frame) for place, frame in enumerate(contents.frames) if frame.kind in SIGNALS]
        for place, frame in frames if QUARANTINE.name in wanted else ():
            if place in killers:
                bad = Rejected("killed_worker", killers[place], place, frame.payload, "file")
                decoder.refuse(source, frame.organization_id, bad, SIGNALS[frame.kind].value)
        frames = [(place, frame) for place, frame in frames if place not in killers]
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
        received = max(frame.received_unix_nano for _place, frame in frames)
        intake = self.assignment.intake(organization, received)
        config = self.assignment.config
        for opened in open_frames(signal, frames, config):
            yield from decoder.take(
                Batch(
                    source,
                    signal,
                    intake,
                    opened.messages,
                    opened.places,
                    opened.rejected,
                    wants_rows,
                    wants_rejects,
                    config.bounds,
                )
            )


def _group(item: tuple[int, Frame]) -> tuple[str, Kind]:
    return item[1].organization_id, item[1].kind
