"""The raw zone as a stream: batches of sealed segments, and the Spark task that passes their frames to the decoder.

The driver lists the zone. Spark gets the names of segments, never the credentials of object storage in options of a
source, which are visible in plans, in events and on Spark's page.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from neve.ingest.decoder import Batch, Decode, Decoder, decode_all
from neve.ingest.metrics import watch_backlog
from neve.ingest.stream.attempts import FAILURES_BEFORE_ISOLATION
from neve.ingest.stream.poison_messages import Killers, find_killers
from neve.ingest.stream.raw_frames import SIGNALS, open_frames
from neve.ingest.stream.writer import Positions, merge_positions
from neve.lake.spark.tasks import find_parallelism
from neve.logger import get_logger
from neve.model.tables import BY_SIGNAL, QUARANTINE
from neve.otlp import Rejected
from neve.raw.backlog_report import write_report
from neve.raw.frame import Frame, Kind, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from neve.ingest.assignment import Assignment
    from neve.ingest.batch_writer import Written
    from neve.ingest.results import BatchResult
    from neve.ingest.stream.job import StartEngine
    from neve.ingest.stream.writer import StreamWriter
    from neve.lake.spark.exchange import ExchangeBlock
    from neve.model.signals import Signal
    from neve.raw.segments import Segment
    from neve.raw.zone import RawZone


CLEAN_SECONDS = 60.0  # between two removals of segments in object storage, each of which lists pages


@dataclass
class RawFeed:
    """Lists sealed segments, records the ingested ones, and removes them later."""

    zone: RawZone
    batch_bytes: int
    keep_seconds: float
    clock: Callable[[], float] = time.time
    _initial: Positions = field(default_factory=dict)
    _reached: Positions = field(default_factory=dict)
    _backlog: list[Segment] = field(default_factory=list)
    _cleaned_at: float = float("-inf")

    def open(self, *, anew: bool) -> None:
        """Seal the segments of dead writers, and remember the backlog. With `anew`, all segments are new."""
        self.zone.recover()
        if anew and self.zone.read_consumed():
            self.zone.mark_consumed({})
        self._look()
        self._initial = self._initial or positions_after(self._backlog)

    def find(self) -> list[Segment]:
        """Return the segments of the next batch: those that are not in the tables yet, up to `batch_bytes`."""
        self.zone.recover()  # a receiver may have crashed since the stream started
        self._look()
        return select_batch(self._backlog, self.batch_bytes)

    def finish(self, positions: Positions) -> None:
        """Record the positions of the tables, and remove segments that are no longer needed."""
        existing = self.zone.writers()
        consumed = merge_positions(self.zone.read_consumed(), positions)
        self._reached = consumed
        self.zone.mark_consumed({writer: position for writer, position in consumed.items() if writer in existing})
        if self.zone.is_local or self.clock() - self._cleaned_at >= CLEAN_SECONDS:
            self._cleaned_at = self.clock()
            self.zone.clean(self.keep_seconds)

    def caught_up(self) -> bool:
        """Return whether everything that existed when the stream began was ingested. More may have arrived since."""
        return not any(segment.number < self._initial.get(segment.writer, 0) for segment in self._waiting())

    def waiting(self) -> tuple[int, float]:
        """Return the bytes that wait, and the age of the oldest in seconds, in object storage as of the last look."""
        backlog = self.zone.backlog() if self.zone.is_local else self._waiting()
        oldest = min((segment.modified for segment in backlog), default=time.time())
        return sum(segment.size for segment in backlog), max(0.0, time.time() - oldest)

    def _waiting(self) -> list[Segment]:
        """Return the segments of the last look that were not ingested since."""
        return [segment for segment in self._backlog if segment.number >= self._reached.get(segment.writer, 0)]

    def _look(self) -> None:
        """List what waits. In object storage, receivers read the result instead of listing the zone themselves."""
        self._reached = self.zone.read_consumed()
        self._backlog = self.zone.segments(self._reached)
        if not self.zone.is_local:
            write_report(self.zone, self._backlog, self._reached, self.clock())


def select_batch(backlog: Sequence[Segment], batch_bytes: int) -> list[Segment]:
    """Return the first segments of each writer in turn, at least one, of about `batch_bytes` in total.

    So no writer waits until the backlog of another one is ingested.
    """
    turns: Counter[str] = Counter()
    in_turn = []
    for segment in backlog:
        turns[segment.writer] += 1
        in_turn.append((turns[segment.writer], segment))
    batch: list[Segment] = []
    size = 0
    for _turn, segment in sorted(in_turn, key=lambda entry: (entry[0], entry[1].writer)):
        if size and size + segment.size > batch_bytes:
            break
        size += segment.size
        batch.append(segment)
    return batch


def positions_after(segments: list[Segment]) -> Positions:
    """Return the positions after the last segment of each writer."""
    return merge_positions(*({segment.writer: segment.number + 1} for segment in segments))


@dataclass(frozen=True)
class RawTask:
    """Groups of segments to ingest. Each row of the Spark frame names a group."""

    assignment: Assignment
    zone: RawZone
    groups: Sequence[Sequence[Segment]]
    positions: dict[str, Positions]
    killers: Killers = field(default_factory=dict)
    decode: Decode = decode_all

    def scatter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[ExchangeBlock]:
        """Yield the rows of the task's groups. The report of the task has the time of the newest message."""
        decoder = Decoder(self.assignment, self.decode)
        newest = 0
        for batch in batches:
            for group in batch.column(0).to_pylist():
                for segment in self.groups[group]:
                    newest = max(newest, (yield from self._decode_segment(decoder, segment)))
        yield from decoder.finish(newest)

    def _decode_segment(self, decoder: Decoder, segment: Segment) -> Generator[ExchangeBlock, None, int]:
        """Decode a segment for the tables that do not have it. Return the time of its newest message."""
        wanted = {name for name, at in self.positions.items() if segment.number >= at.get(segment.writer, 0)}
        source = f"raw:{segment.writer}/{segment.number}"
        if not wanted:
            return 0
        try:
            data = self.zone.read(segment.path)
        except FileNotFoundError:
            decoder.refuse(source, "unknown", Rejected("missing_segment", f"{segment.path} is missing", 0, b"", "file"))
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
    ) -> Iterator[ExchangeBlock]:
        wants_rows, wants_rejects = BY_SIGNAL[signal].name in wanted, QUARANTINE.name in wanted
        if not (wants_rows or wants_rejects):
            decoder.tally.replayed += len(frames)
            return
        received = max(frame.received_unix_nano for _place, frame in frames)
        intake = self.assignment.intake(organization, received)
        config = self.assignment.config
        times = {place: frame.received_unix_nano for place, frame in frames}
        for opened in open_frames(signal, frames, config):
            yield from decoder.add(
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
                    [times[place] for place in opened.places],
                )
            )


def _group(item: tuple[int, Frame]) -> tuple[str, Kind]:
    return item[1].organization_id, item[1].kind


# Assumed compression ratio of payloads, to balance the work. The real size is known only when frames are opened, a few
# at a time: if the estimate is wrong a task takes longer, not more memory.
PACKED_FACTOR = 4

log = get_logger("neve.ingest")


@dataclass(frozen=True)
class RawMicroBatch:
    """The segments of one batch."""

    spark: SparkSession
    zone: RawZone
    groups: list[list[Segment]]
    killers: Killers = field(default_factory=dict)
    decode: Decode = decode_all

    @property
    def writers(self) -> int:
        """Number of groups of segments to read."""
        return len(self.groups)

    def frame(self) -> DataFrame:
        """Return a frame with a row for each group."""
        return self.spark.range(0, len(self.groups), 1, len(self.groups))

    def task(self, assignment: Assignment, positions: dict[str, Positions]) -> RawTask:
        """Return the task that reads and decodes segments."""
        return RawTask(assignment, self.zone, self.groups, positions, self.killers, self.decode)

    def prune(self, positions: Positions) -> Positions:
        """Drop writers without segments: their names are never used again."""
        existing = self.zone.writers()
        return {writer: position for writer, position in positions.items() if writer in existing}

    def read(self, written: Written) -> tuple[Positions, int]:
        """Return the positions after the last segment of each writer."""
        return positions_after([segment for group in self.groups for segment in group]), max(written.reports, default=0)


@dataclass(frozen=True)
class RawStream:
    """Ingests sealed segments of OTLP messages."""

    writer: StreamWriter
    feed: RawFeed
    decode: Decode = decode_all  # importable by name: worker processes import it

    def open(self, *, anew: bool) -> None:
        """Prepare a run."""
        self.writer.positions()  # a stream without readable positions in its tables must not start
        watch_backlog(self.writer.stream, self.feed.waiting)
        self.feed.open(anew=anew)

    def find(self) -> list[Segment]:
        """Return the segments of the next batch."""
        return self.feed.find()

    def ingest(self, segments: list[Segment]) -> BatchResult | None:
        """Ingest a batch of segments, and remove ingested segments."""
        publisher, zone = self.writer.publisher, self.feed.zone
        spark, config = publisher.lake.spark, publisher.config
        killers: Killers = {}
        attempt = zone.begin(segments)
        if attempt > FAILURES_BEFORE_ISOLATION:
            log.warning("a batch fails repeatedly: its messages are tried one by one", failures=attempt - 1)
            killers = find_killers(spark, zone, segments, config, self.decode, attempt - 1)
        groups = split_segments(segments, config.task_bytes, find_parallelism(spark))
        result = self.writer.write(RawMicroBatch(spark, zone, groups, killers, self.decode))
        self.feed.finish(result.positions)
        return result

    def retry(self, start_engine: StartEngine) -> BatchResult | None:
        """Return nothing: no segment is ever postponed."""
        return None

    def caught_up(self) -> bool:
        """Return whether all sealed segments are in the tables."""
        return self.feed.caught_up()


def split_segments(segments: Sequence[Segment], task_bytes: int, most_at_once: int) -> list[list[Segment]]:
    """Split segments into groups of about equal size. A small batch is one group and needs no exchange of rows."""
    total = sum(segment.size for segment in segments)
    groups = max(1, -(-total * PACKED_FACTOR // task_bytes))
    groups = min(len(segments), max(groups, most_at_once) if groups > 1 else 1)
    shared: list[list[Segment]] = [[] for _ in range(groups)]
    sizes = [0] * groups
    for segment in sorted(segments, key=lambda segment: -segment.size):
        smallest = sizes.index(min(sizes))
        shared[smallest].append(segment)
        sizes[smallest] += segment.size
    return shared
