"""OTLP in Kafka to committed Iceberg rows on Spark, for each CPU second, beside decoding alone in the same run.

CPU seconds are those of the driver, the JVM and the Python workers; the broker is a part of the surroundings and is not
counted. All three signals of three generated hours, in exports of 500 records. The session has run once before, on
other topics, so that nothing is measured of its start. The same exports then go through the raw zone, and from Kafka
with ten rules that redact them.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.parts import kafka as broker_part
from tests.parts.build import main as build_parts

from bench.exports import Exports, exports
from bench.redact import TEN as TEN_RULES
from bench.report import Report
from bench.sizes import choose
from bench.usage import tree_cpu
from neve.ingest.batch_writer import Publisher
from neve.ingest.config import IngestConfig, KafkaConfig
from neve.ingest.stream.attempts import BatchAttempts
from neve.ingest.stream.kafka import KafkaStream
from neve.ingest.stream.query_job import QueryJob
from neve.ingest.stream.raw_zone import RawFeed, RawStream
from neve.ingest.stream.segment_job import SegmentJob
from neve.ingest.stream.writer import StreamWriter
from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.lake import Lake
from neve.lake.spark.jars import KAFKA
from neve.lake.tables import init_tables
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.raw.config import RawConfig
from neve.raw.frame import Frame, Kind
from neve.raw.writer import open_writer
from neve.raw.zone import OTLP, RawZone
from neve.redaction.config import RedactionConfig
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.ingest.results import StreamResult
    from neve.ingest.stream.job import StreamJob

SEEDS = choose((7, 8, 9), (7,))
ROUNDS = choose(3, 1)
PARTITIONS = 2
KINDS = {Signal.TRACES: Kind.TRACES, Signal.LOGS: Kind.LOGS, Signal.METRICS: Kind.METRICS}


def main() -> None:
    """A round to warm up, then the best of some."""
    if broker_part.missing():
        build_parts(["kafka"])
    if reason := broker_part.missing():
        raise SystemExit(reason)
    sent = [exports(signal, SEEDS) for signal in Signal]
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder, broker_part.kafka() as broker:
        bench = StreamBench(Path(folder), sent, broker.bootstrap)
        ways: dict[str, Callable[[], float]] = {"kafka": bench.kafka, "raw": bench.raw, "decode": bench.decode}
        ways["kafka_redacted"] = lambda: bench.kafka(
            RedactionConfig.model_validate({"rules": TEN_RULES, "salt": "a salt for benchmarks"})
        )
        best: dict[str, float] = {}
        for round_number in range(ROUNDS + 1):
            for name, way in ways.items():
                cpu = way()
                if round_number:
                    best[name] = min(cpu, best.get(name, cpu))
        _report(bench, best).show()


def _report(bench: StreamBench, best: dict[str, float]) -> Report:
    speed = {name: bench.records / cpu for name, cpu in best.items()}
    report = Report("stream")
    report.ours = {
        "rows_per_s_core": speed["kafka"],
        "compression": bench.source_bytes / bench.table_bytes,
        "rows": bench.records,
        "source_mb": bench.source_bytes / 1e6,
        "table_mb": bench.table_bytes / 1e6,
        "cpu_s": best["kafka"],
    }
    report.baselines = {
        "decode": {"rows_per_s_core": speed["decode"], "cpu_s": best["decode"]},
        "raw_zone": {"rows_per_s_core": speed["raw"], "cpu_s": best["raw"]},
    }
    report.ratios = {
        "vs_decode": speed["kafka"] / speed["decode"],
        "raw_zone_vs_decode": speed["raw"] / speed["decode"],
        "ten_redaction_rules_cpu": best["kafka_redacted"] / best["kafka"],
    }
    return report


class StreamBench:
    """The ways of getting the same exports into tables."""

    def __init__(self, folder: Path, sent: list[Exports], bootstrap: str) -> None:
        self.folder, self.sent, self.bootstrap = folder, sent, bootstrap
        self.records = sum(each.records for each in sent)
        self.source_bytes = sum(each.size for each in sent)
        self.table_bytes = 0
        self.runs = 0

    def kafka(self, redaction: RedactionConfig | None = None) -> float:
        """`neve ingest kafka --available-now`, with rules that redact or without."""
        topics = self._produce()
        config = KafkaConfig.model_validate({"bootstrap_servers": self.bootstrap, "topics": topics})
        documents = SqlDocuments(StateStore(StateConfig(path=str(self.folder / "state.db"))))

        def make(writer: StreamWriter) -> StreamJob:
            attempts = BatchAttempts(documents, writer.stream, str(self.folder))
            stream = KafkaStream(writer, config, "bench", attempts)
            return QueryJob(writer.publisher.lake, writer.publisher.config, "bench", stream)

        return self._measure(make, redaction)

    def raw(self) -> float:
        """`neve ingest raw --available-now`."""
        raw = RawConfig(location=str(self.folder / f"raw{self.runs}"))
        asyncio.run(self._receive(raw))
        feed = RawFeed(RawZone.of(raw.location, S3Config(), OTLP), IngestConfig().batch_bytes, 0)
        return self._measure(
            lambda writer: SegmentJob(writer.publisher.lake, writer.publisher.config, "bench", RawStream(writer, feed))
        )

    def decode(self) -> float:
        """Decoding in one process, nothing written."""
        intake = Intake("bench", time.time_ns())
        cpu = time.process_time()
        for each in self.sent:
            decode(each.signal, list(each.messages), intake)
        return time.process_time() - cpu

    def _measure(self, make: Callable[[StreamWriter], StreamJob], redaction: RedactionConfig | None = None) -> float:
        self.runs += 1
        home = self.folder / f"lake{self.runs}"
        lake = Lake(
            LakeConfig(warehouse=str(home / "warehouse")),
            CatalogConfig(name=f"bench{self.runs}", path=str(home / "catalog.db")),
            spark_config=SparkConfig(log_file=str(self.folder / "spark.log")),
            further_jars=KAFKA,
        )
        init_tables(lake)
        _ = lake.spark
        config = IngestConfig(checkpoints=str(home / "checkpoints"), redaction=redaction or RedactionConfig())
        job = make(StreamWriter("bench", Publisher(lake, config, "bench")))
        broker = [child for child in psutil.Process().children() if "kafka.Kafka" in " ".join(child.cmdline())]
        before = tree_cpu() - _cpu(broker)
        result = job.run(until_caught_up=True)
        used = tree_cpu() - _cpu(broker) - before
        self._check(result)
        return used

    def _check(self, result: StreamResult) -> None:
        taken = sum(result.records.values()) + sum(result.duplicates.values())
        assert taken == self.records, f"{taken} records were taken in, {self.records} were sent"
        self.table_bytes = result.bytes_out

    def _produce(self) -> list[dict[str, str]]:
        """New topics with all exports in them."""
        run = uuid4().hex[:8]
        names = {each.signal: f"{each.signal.value}.{run}" for each in self.sent}
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names.values()]).values():
            future.result(30)
        producer = Producer({"bootstrap.servers": self.bootstrap, "queue.buffering.max.kbytes": 2_000_000})
        for each in self.sent:
            for number, message in enumerate(each.messages):
                producer.produce(names[each.signal], message, partition=number % PARTITIONS)
                producer.poll(0)
        assert producer.flush(120) == 0
        return [{"topic": name, "signal": signal.value} for signal, name in names.items()]

    async def _receive(self, raw: RawConfig) -> None:
        writer = open_writer(raw, S3Config(), OTLP)
        for each in self.sent:
            kind = KINDS[each.signal]
            await asyncio.gather(
                *(writer.append(Frame(kind, "bench", time.time_ns(), message)) for message in each.messages)
            )
        await writer.close()


def _cpu(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(each.user + each.system for each in times)


if __name__ == "__main__":
    main()
