"""Kafka topics as a stream, and the Spark task that opens their messages and passes them to the decoder."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.ingest.arrival import rank_by_time
from neve.ingest.decoder import Batch, Decode, Decoder, decode_all
from neve.ingest.stream.attempts import FAILURES_BEFORE_ISOLATION, BatchAttempts
from neve.ingest.stream.poison_messages import Killers, MessagePlace, find_kafka_killers
from neve.ingest.stream.raw_frames import SIGNALS
from neve.ingest.stream.writer import Positions, merge_positions
from neve.lake.spark.tasks import find_parallelism
from neve.logger import get_logger
from neve.model.tables import BY_SIGNAL, QUARANTINE
from neve.otlp import Rejected
from neve.otlp.bounds import TooMany
from neve.otlp.json import check_json_bounds, measure_json, to_protobuf
from neve.raw.frame import Encoding, Frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from neve.ingest.assignment import Assignment
    from neve.ingest.batch_writer import Written
    from neve.ingest.config import KafkaConfig, TopicConfig
    from neve.ingest.results import BatchResult
    from neve.ingest.stream.job import StartEngine
    from neve.ingest.stream.writer import StreamWriter
    from neve.lake.spark.exchange import ExchangeBlock
    from neve.model.signals import Signal
    from neve.otlp.bounds import Bounds


COLUMNS = ("topic", "partition", "offset", "timestamp", "value")
KINDS = {signal: kind for kind, signal in SIGNALS.items()}
Offsets = npt.NDArray[np.int64]


@dataclass
class KafkaReport:
    """Positions that a task has reached, and the time of the newest message."""

    positions: Positions = field(default_factory=dict)
    newest_unix_nano: int = 0


@dataclass(frozen=True)
class KafkaTask:
    """Ingestion of Kafka messages. The Spark frame contains the messages."""

    assignment: Assignment
    topics: dict[str, TopicConfig]
    organization_id: str
    positions: dict[str, Positions]
    killers: Killers = field(default_factory=dict)
    decode: Decode = decode_all

    def scatter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[ExchangeBlock]:
        """Yield the rows of a task's messages."""
        decoder, report = Decoder(self.assignment, self.decode), KafkaReport()
        for batch in batches:
            if batch.num_rows:
                newest = pc.max(batch.column("timestamp")).cast(pa.timestamp("us", "UTC")).value * 1000
                report.newest_unix_nano = max(report.newest_unix_nano, newest)
            for (topic, partition), messages in _by_partition(batch):
                read = {f"{topic}/{partition}": int(messages.column("offset")[-1].as_py()) + 1}
                report.positions = merge_positions(report.positions, read)
                yield from self._decode_partition(decoder, topic, partition, messages)
        yield from decoder.finish(asdict(report))

    def _decode_partition(
        self, decoder: Decoder, topic: str, partition: int, rows: pa.RecordBatch
    ) -> Iterator[ExchangeBlock]:
        config = self.topics[topic]
        offsets: Offsets = rows.column("offset").to_numpy()
        values = rows.column("value")
        wants_rows = offsets >= self._position(BY_SIGNAL[config.signal].name, topic, partition)
        wants_rejects = offsets >= self._position(QUARANTINE.name, topic, partition)
        decoder.tally.unpacked_bytes += int(pc.sum(pc.binary_length(values)).as_py() or 0)
        decoder.tally.replayed += int((~wants_rows & ~wants_rejects).sum())
        intake = self.assignment.intake(config.organization or self.organization_id)
        bounds = self.assignment.config.bounds
        killers = self.killers.get(f"{topic}/{partition}", {})
        is_killer = np.isin(offsets, list(killers))
        self._refuse(decoder, f"kafka:{topic}/{partition}", rows.filter(pa.array(is_killer & wants_rejects)), killers)
        wants_rows, wants_rejects = wants_rows & ~is_killer, wants_rejects & ~is_killer
        times_ms = rows.column("timestamp").cast(pa.timestamp("ms", rows.column("timestamp").type.tz), safe=False)
        ranks = rank_by_time(times_ms.cast(pa.int64()).to_numpy(), self.assignment.started_unix_nano)
        for rows_too in (True, False):
            for rejects_too in (True, False):
                chosen = np.flatnonzero((wants_rows == rows_too) & (wants_rejects == rejects_too))
                if not len(chosen) or not (rows_too or rejects_too):
                    continue
                opened = _open_values(config, values.take(pa.array(chosen)), offsets[chosen], bounds)
                yield from decoder.add(
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
                        ranks=ranks[np.searchsorted(offsets, opened.offsets)],
                    )
                )

    def _refuse(self, decoder: Decoder, source: str, rows: pa.RecordBatch, killers: Mapping[int, str]) -> None:
        """Quarantine messages that killed the processes that decoded them."""
        for topic, offset, value in zip(
            rows.column("topic").to_pylist(),
            rows.column("offset").to_pylist(),
            rows.column("value").to_pylist(),
            strict=True,
        ):
            config = self.topics[topic]
            encoding = "otlp_json" if _is_json(config, value) else "otlp_proto"
            bad = Rejected("killed_worker", killers[offset], offset, value, encoding)
            decoder.refuse(source, config.organization or self.organization_id, bad, config.signal.value)

    def _position(self, table: str, topic: str, partition: int) -> int:
        return self.positions.get(table, {}).get(f"{topic}/{partition}", 0)


def open_messages(
    topics: Mapping[str, TopicConfig], organization_id: str, positions: Mapping[str, Positions], batch: pa.RecordBatch
) -> Iterator[tuple[MessagePlace, Frame]]:
    """Yield the messages of a batch that a table still needs, each as a frame that can be decoded alone."""
    for (topic, partition), rows in _by_partition(batch):
        config, source = topics[topic], f"{topic}/{partition}"
        tables = (BY_SIGNAL[config.signal].name, QUARANTINE.name)
        position = min(positions.get(table, {}).get(source, 0) for table in tables)
        organization = config.organization or organization_id
        for offset, value in zip(rows.column("offset").to_pylist(), rows.column("value").to_pylist(), strict=True):
            if value is not None and offset >= position:
                encoding = Encoding.JSON if _is_json(config, value) else Encoding.PROTOBUF
                yield MessagePlace(source, offset), Frame(KINDS[config.signal], organization, 0, value, encoding)


@dataclass(frozen=True)
class OpenedMessages:
    """Protobuf messages with their offsets, and rejected messages."""

    messages: pa.BinaryArray
    offsets: Offsets
    rejected: list[Rejected]


def _by_partition(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """Yield the messages of each partition of a topic, in the order of their offsets."""
    topics = batch.column("topic").dictionary_encode()
    partitions = batch.column("partition").to_numpy()
    key = topics.indices.to_numpy().astype(np.int64) << 32 | partitions
    order = np.lexsort((batch.column("offset").to_numpy(), key))
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        rows = batch.take(pa.array(order[start:end]))
        yield (rows.column("topic")[0].as_py(), rows.column("partition")[0].as_py()), rows


def _open_values(config: TopicConfig, values: pa.BinaryArray, offsets: Offsets, bounds: Bounds) -> OpenedMessages:
    """Return messages as protobuf. A tombstone is not a message."""
    there = values.is_valid().to_numpy(zero_copy_only=False)
    is_json = _are_json(config, values) & there
    plain = np.flatnonzero(there & ~is_json)
    if not is_json.any():
        whole = values if len(plain) == len(values) else values.take(pa.array(plain))
        return OpenedMessages(whole, offsets[plain], [])
    places = np.flatnonzero(is_json)
    read = _read_json(config.signal, values.take(pa.array(places)), offsets[places], bounds)
    messages = pa.concat_arrays([values.take(pa.array(plain)), read.messages])
    found = np.concatenate([offsets[plain], read.offsets])
    order = np.argsort(found, kind="stable")  # the order of arrival
    return OpenedMessages(messages.take(pa.array(order)), found[order], read.rejected)


def _read_json(signal: Signal, values: pa.BinaryArray, offsets: Offsets, bounds: Bounds) -> OpenedMessages:
    """Convert JSON messages to protobuf: all at once if each is one valid document, else one by one."""
    texts, places, overgrown = [], [], []
    for offset, value in zip(offsets.tolist(), values.to_pylist(), strict=True):
        try:
            check_json_bounds(measure_json(value), bounds)
        except TooMany as error:
            detail = f"{error.message} (ingest.{error.setting})"
            overgrown.append(Rejected("overgrown_message", detail, offset, value, "otlp_json"))
            continue
        texts.append(value.replace(b"\n", b" "))  # a line break in JSON is only white space
        places.append(offset)
    read = to_protobuf(signal, b"\n".join(texts)) if texts else None
    if read is not None and not read.rejected and len(read.messages) == len(texts):
        return OpenedMessages(read.messages.cast(pa.binary()), np.array(places, dtype=np.int64), overgrown)
    return _read_each(signal, texts, places, overgrown)


def _read_each(signal: Signal, texts: list[bytes], places: list[int], rejected: list[Rejected]) -> OpenedMessages:
    messages, found = [], []
    for offset, text in zip(places, texts, strict=True):
        alone = to_protobuf(signal, text)
        messages += alone.messages.to_pylist()
        found += [offset] * len(alone.messages)
        rejected += [Rejected(bad.reason, bad.detail, offset, bad.payload, bad.encoding) for bad in alone.rejected]
    return OpenedMessages(pa.array(messages, pa.binary()), np.array(found, dtype=np.int64), rejected)


def _is_json(config: TopicConfig, value: bytes) -> bool:
    return config.encoding == "otlp_json" or (config.encoding == "auto" and value[:1] == b"{")


def _are_json(config: TopicConfig, values: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Return a mask of the JSON messages. If the topic has no format, a message that begins with a brace is JSON."""
    if config.encoding != "auto":
        return np.full(len(values), config.encoding == "otlp_json")
    first = pc.fill_null(pc.equal(pc.binary_slice(values, 0, 1), b"{"), False)
    found: npt.NDArray[np.bool_] = first.to_numpy(zero_copy_only=False)
    return found


log = get_logger("neve.ingest")


@dataclass(frozen=True)
class KafkaMicroBatch:
    """The messages of one batch."""

    messages: DataFrame
    topics: dict[str, TopicConfig]
    organization_id: str
    writers: int
    killers: Killers = field(default_factory=dict)
    decode: Decode = decode_all

    def frame(self) -> DataFrame:
        """Return the messages, which Spark's source reads in the JVM."""
        return self.messages

    def task(self, assignment: Assignment, positions: dict[str, Positions]) -> KafkaTask:
        """Return the task that decodes messages."""
        return KafkaTask(assignment, self.topics, self.organization_id, positions, self.killers, self.decode)

    def prune(self, positions: Positions) -> Positions:
        """Return all positions: a deleted topic may be created again."""
        return positions

    def read(self, written: Written) -> tuple[Positions, int]:
        """Return the positions after the last message of each partition."""
        reports = [KafkaReport(**report) for report in written.reports]
        newest = max((report.newest_unix_nano for report in reports), default=0)
        return merge_positions(*(report.positions for report in reports)), newest


@dataclass
class KafkaStream:
    """Ingests topics of OTLP messages."""

    writer: StreamWriter
    config: KafkaConfig
    organization_id: str
    attempts: BatchAttempts
    decode: Decode = decode_all  # importable by name: worker processes import it
    _last_bytes: int = 0

    @property
    def topics(self) -> dict[str, TopicConfig]:
        """Topics by name."""
        return {topic.topic: topic for topic in self.config.topics}

    def load(self, spark: SparkSession) -> DataFrame:
        """Return a streaming frame of the messages.

        A stream that has positions in the tables and no checkpoint has lost its checkpoint. It is read from the
        beginning: messages that the tables have are skipped by their offset, without decoding. (Spark's source accepts
        offsets for all partitions of all topics or for none.)
        """
        known = any(self.writer.positions().values())
        starting = "earliest" if known else self.config.starting
        return read_topics(spark, self.config, list(self.topics), starting)

    def ingest(self, frame: DataFrame) -> BatchResult | None:
        """Ingest a batch of messages. The size of the last batch determines the number of writing tasks."""
        many = self._last_bytes > self.writer.publisher.config.task_bytes and frame.rdd.getNumPartitions() > 1
        writers = find_parallelism(frame.sparkSession) if many else 1
        killers = self._find_killers(frame)
        result = self.writer.write(
            KafkaMicroBatch(frame, self.topics, self.organization_id, writers, killers, self.decode)
        )
        self._last_bytes = result.bytes_in
        return result

    def _find_killers(self, frame: DataFrame) -> Killers:
        """Try the messages of a batch one by one if it has failed repeatedly."""
        positions = self.writer.positions()
        started = self.attempts.begin(positions)
        if started <= FAILURES_BEFORE_ISOLATION:
            return {}
        log.warning("a batch fails repeatedly: its messages are tried one by one", failures=started - 1)
        opened = partial(open_messages, self.topics, self.organization_id, positions)
        config = self.writer.publisher.config
        return find_kafka_killers(frame, opened, config, self.decode, started - 1)

    def retry(self, start_engine: StartEngine) -> BatchResult | None:
        """Return nothing: no message is ever postponed."""
        return None

    def caught_up(self) -> bool:
        """Return true: Spark reads everything that existed when the run began."""
        return True


def read_topics(spark: SparkSession, config: KafkaConfig, topics: list[str], starting: str) -> DataFrame:
    """Return a streaming frame of the messages of topics."""
    options = {
        "kafka.bootstrap.servers": config.bootstrap_servers,
        "subscribe": ",".join(topics),
        "startingOffsets": starting,
        "maxOffsetsPerTrigger": str(config.batch_messages),
        "failOnDataLoss": str(not config.allow_loss).lower(),
        **config.options,
    }
    return spark.readStream.format("kafka").options(**options).load().select(*COLUMNS)
