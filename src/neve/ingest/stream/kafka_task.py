"""What a Spark task does with messages of Kafka: sort them by topic, hand them to the decoder."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.ingest.decoder import Batch, Decoder
from neve.ingest.stream.positions import Positions, furthest
from neve.model.tables import BY_SIGNAL, QUARANTINE
from neve.otlp import Rejected
from neve.otlp.bounds import TooMany
from neve.otlp.json import to_protobuf
from neve.otlp.json_bounds import check_json_bounds, measure_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from neve.ingest.assignment import Assignment
    from neve.ingest.stream.topics import TopicConfig
    from neve.lake.exchange import Parcel
    from neve.model.signals import Signal
    from neve.otlp.bounds import Bounds

COLUMNS = ("topic", "partition", "offset", "timestamp", "value")
Offsets = npt.NDArray[np.int64]


@dataclass
class KafkaReport:
    """How far a task read, and when the newest message was written."""

    positions: Positions = field(default_factory=dict)
    newest_unix_nano: int = 0


@dataclass(frozen=True)
class KafkaTask:
    """Messages to take in: the frame that Spark runs it over holds them."""

    assignment: Assignment
    topics: dict[str, TopicConfig]
    organization_id: str
    positions: dict[str, Positions]

    def scatter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """The rows of the messages of a task."""
        decoder, report = Decoder(self.assignment), KafkaReport()
        for batch in batches:
            if batch.num_rows:
                newest = pc.max(batch.column("timestamp")).cast(pa.timestamp("us", "UTC")).value * 1000
                report.newest_unix_nano = max(report.newest_unix_nano, newest)
            for (topic, partition), messages in _by_partition(batch):
                read = {f"{topic}/{partition}": int(messages.column("offset")[-1].as_py()) + 1}
                report.positions = furthest(report.positions, read)
                yield from self._take(decoder, topic, partition, messages)
        yield from decoder.finish(asdict(report))

    def _take(self, decoder: Decoder, topic: str, partition: int, rows: pa.RecordBatch) -> Iterator[Parcel]:
        config = self.topics[topic]
        offsets: Offsets = rows.column("offset").to_numpy()
        values = rows.column("value")
        wants_rows = offsets >= self._position(BY_SIGNAL[config.signal].name, topic, partition)
        wants_rejects = offsets >= self._position(QUARANTINE.name, topic, partition)
        decoder.tally.unpacked_bytes += int(pc.sum(pc.binary_length(values)).as_py() or 0)
        decoder.tally.replayed += int((~wants_rows & ~wants_rejects).sum())
        intake = self.assignment.intake(config.organization or self.organization_id)
        bounds = self.assignment.config.bounds
        for rows_too in (True, False):
            for rejects_too in (True, False):
                chosen = np.flatnonzero((wants_rows == rows_too) & (wants_rejects == rejects_too))
                if not len(chosen) or not (rows_too or rejects_too):
                    continue
                opened = _open_values(config, values.take(pa.array(chosen)), offsets[chosen], bounds)
                yield from decoder.take(
                    Batch(
                        f"kafka:{topic}/{partition}",
                        config.signal,
                        intake,
                        opened.messages,
                        opened.offsets.tolist(),
                        opened.rejected,
                        rows_too,
                        rejects_too,
                        bounds,
                    )
                )

    def _position(self, table: str, topic: str, partition: int) -> int:
        return self.positions.get(table, {}).get(f"{topic}/{partition}", 0)


@dataclass(frozen=True)
class Opened:
    """Protobuf messages with their offsets, and messages that are none."""

    messages: pa.BinaryArray
    offsets: Offsets
    rejected: list[Rejected]


def _by_partition(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """The messages of each topic's partition, in the order of their offsets."""
    topics = batch.column("topic").dictionary_encode()
    partitions = batch.column("partition").to_numpy()
    key = topics.indices.to_numpy().astype(np.int64) << 32 | partitions
    order = np.lexsort((batch.column("offset").to_numpy(), key))
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        rows = batch.take(pa.array(order[start:end]))
        yield (rows.column("topic")[0].as_py(), rows.column("partition")[0].as_py()), rows


def _open_values(config: TopicConfig, values: pa.BinaryArray, offsets: Offsets, bounds: Bounds) -> Opened:
    """Messages as protobuf; a tombstone is no message."""
    there = values.is_valid().to_numpy(zero_copy_only=False)
    is_json = _are_json(config, values) & there
    plain = np.flatnonzero(there & ~is_json)
    if not is_json.any():
        whole = values if len(plain) == len(values) else values.take(pa.array(plain))
        return Opened(whole, offsets[plain], [])
    places = np.flatnonzero(is_json)
    read = _read_json(config.signal, values.take(pa.array(places)), offsets[places], bounds)
    messages = pa.concat_arrays([values.take(pa.array(plain)), read.messages])
    return Opened(messages, np.concatenate([offsets[plain], read.offsets]), read.rejected)


def _read_json(signal: Signal, values: pa.BinaryArray, offsets: Offsets, bounds: Bounds) -> Opened:
    """JSON messages as protobuf: all at once where each is one good document, else one by one."""
    texts, places, overgrown = [], [], []
    for offset, value in zip(offsets.tolist(), values.to_pylist(), strict=True):
        try:
            check_json_bounds(measure_json(value), bounds)
        except TooMany as error:
            words = f"{error.message} (ingest.{error.setting})"
            overgrown.append(Rejected("overgrown_message", words, offset, value, "otlp_json"))
            continue
        texts.append(value.replace(b"\n", b" "))  # a line break in JSON is never more than a space
        places.append(offset)
    read = to_protobuf(signal, b"\n".join(texts)) if texts else None
    if read is not None and not read.rejected and len(read.messages) == len(texts):
        return Opened(read.messages.cast(pa.binary()), np.array(places, dtype=np.int64), overgrown)
    return _read_each(signal, texts, places, overgrown)


def _read_each(signal: Signal, texts: list[bytes], places: list[int], rejected: list[Rejected]) -> Opened:
    messages, found = [], []
    for offset, text in zip(places, texts, strict=True):
        alone = to_protobuf(signal, text)
        messages += alone.messages.to_pylist()
        found += [offset] * len(alone.messages)
        rejected += [Rejected(bad.reason, bad.detail, offset, bad.payload, bad.encoding) for bad in alone.rejected]
    return Opened(pa.array(messages, pa.binary()), np.array(found, dtype=np.int64), rejected)


def _are_json(config: TopicConfig, values: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Which messages are JSON; where the topic does not say, a message that begins with a brace is."""
    if config.encoding != "auto":
        return np.full(len(values), config.encoding == "otlp_json")
    first = pc.fill_null(pc.equal(pc.binary_slice(values, 0, 1), b"{"), False)
    found: npt.NDArray[np.bool_] = first.to_numpy(zero_copy_only=False)
    return found
