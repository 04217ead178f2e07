"""The order of arrival of spans, from every source, and the count of repeats that were dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pytest

from neve.ingest import decoder as decoding
from neve.ingest.arrival import set_received
from neve.ingest.assignment import Assignment
from neve.ingest.config import IngestConfig, TopicConfig
from neve.ingest.decoder import Batch, Decoder
from neve.ingest.deduplication import DuplicateFilter
from neve.ingest.files.reader import FileTask
from neve.ingest.files.source_files import HashedFile, SourceFile, hash_bytes
from neve.ingest.stream.kafka import KafkaTask
from neve.ingest.stream.raw_zone import RawTask
from neve.lake.config import CatalogConfig, LakeConfig, S3Config
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.lake.write.layout import PartitionSlice
from neve.lake.write.table_writer import Target
from neve.model.signals import Signal
from neve.model.tables import QUARANTINE, SPANS
from neve.otlp.json import to_json
from neve.raw.frame import Frame, Kind
from tests.ingest.stream.frames import raw_config, receive, zone_of
from tests.telemetry import INTAKE, NOW, decoded, logs, traces

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyiceberg.io import FileIO

    from neve.lake.spark.exchange import ExchangeBlock

MILLISECOND = 1_000_000


@pytest.fixture
def assignment(tmp_path: Path, iceberg: None) -> Assignment:
    """A batch that is written to the tables of a lake in a folder."""
    lake = Lake(LakeConfig(warehouse=str(tmp_path / "w")), CatalogConfig(path=str(tmp_path / "c.db")))
    init_tables(lake)
    targets = {name: Target.of(lake.table(name)) for name in (SPANS.name, QUARANTINE.name, "logs")}
    return Assignment("batch", NOW, IngestConfig(), S3Config(), targets)


def numbers_in_order(blocks: Iterable[ExchangeBlock]) -> list[int]:
    """The numbers of the spans of `traces`, in the order of arrival."""
    rows = pa.concat_tables([block.rows for block in blocks if block.label == SPANS.name])
    ordered = rows.sort_by([("ingested_at", "ascending"), ("arrival_order", "ascending")])
    return [int(name.removeprefix("op-")) for name in ordered.column("operation_name").to_pylist()]


def test_spans_of_one_source_are_counted_over_its_messages(
    assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over chunks and batches; rejected spans leave no gap, and other signals have no such column."""
    monkeypatch.setattr(decoding, "FOREIGN_BYTES", 1)
    decoder = Decoder(assignment)
    for first in (0, 6):
        messages = pa.array([traces(2, first=first), b"\xff", traces(4, first=first + 2)], pa.binary())
        batch = Batch("one", Signal.TRACES, INTAKE, messages, range(3), bounds=assignment.config.bounds)
        assert not list(decoder.add(batch))
    assert not list(decoder.add(Batch("two", Signal.LOGS, INTAKE, pa.array([logs(2)], pa.binary()), [0])))
    blocks = list(decoder.finish(None))
    assert numbers_in_order(blocks) == list(range(12))
    [spans] = [block.rows for block in blocks if block.label == SPANS.name]
    assert sorted(spans.column("arrival_order").to_pylist()) == list(range(12))


def test_frames_of_the_raw_zone_keep_their_times(assignment: Assignment, tmp_path: Path) -> None:
    """Frames of two receivers interleave by the time at which each was received, not segment by segment."""
    config = raw_config(tmp_path)
    mine, others = (
        [Frame(Kind.TRACES, "acme", NOW + (2 * place + late) * MILLISECOND, traces(2, first=4 * place + 2 * late))
         for place in range(3)] for late in (0, 1)
    )  # fmt: skip
    receive(config, mine, others)
    zone = zone_of(config)
    segments = list(zone.segments())
    task = RawTask(assignment, zone, [segments], {SPANS.name: {}, QUARANTINE.name: {}})
    assert len(segments) == 2
    assert numbers_in_order(task.scatter([pa.record_batch({"id": [0]})])) == list(range(12))


def test_spans_of_files_follow_the_order_of_the_files(assignment: Assignment, tmp_path: Path) -> None:
    """Also if the files are read by several tasks."""
    files = []
    for place in range(4):
        path = tmp_path / f"traces-{place}.json"
        lines = [to_json(Signal.TRACES, traces(2, first=6 * place + 2 * line)) for line in range(3)]
        path.write_text("\n".join(lines))
        data = path.read_bytes()
        files.append(HashedFile(SourceFile(str(path), len(data), 0), hash_bytes(data)))
    task = FileTask(assignment, "acme", [tuple(files[:1]), tuple(files[1:])])
    blocks = [block for group in (1, 0) for block in task.scatter([pa.record_batch({"id": [group]})])]
    assert numbers_in_order(blocks) == list(range(24))


def test_messages_of_a_topic_are_ordered_by_time_and_offset(assignment: Assignment) -> None:
    """Partitions interleave by the times of their messages; in one of them the offset decides, whatever the format."""
    rows = [  # partition, offset, milliseconds, message
        (0, 7, 10, traces(1, first=0)),
        (1, 3, 11, to_json(Signal.TRACES, traces(1, first=1)).encode()),
        (0, 8, 12, to_json(Signal.TRACES, traces(1, first=2)).encode()),
        (0, 9, 5, traces(1, first=3)),  # a producer whose clock is behind
        (1, 4, 40, traces(1, first=4)),
        (0, 10, 41, traces(1, first=5)),
    ]
    batch = pa.record_batch(
        {
            "topic": ["otlp"] * len(rows),
            "partition": pa.array([row[0] for row in rows], pa.int32()),
            "offset": [row[1] for row in rows],
            "timestamp": pa.array([NOW // 1000 + row[2] * 1000 for row in rows], pa.timestamp("us", "UTC")),
            "value": [row[3] for row in rows],
        }
    )
    topic = TopicConfig(topic="otlp", signal=Signal.TRACES)
    task = KafkaTask(assignment, {"otlp": topic}, "acme", {SPANS.name: {}, QUARANTINE.name: {}})
    assert numbers_in_order(task.scatter([batch])) == list(range(6))


def test_a_source_without_order_has_no_numbers(assignment: Assignment) -> None:
    """Null means that the order is unknown."""
    decoder = Decoder(assignment)
    messages = pa.array([traces(2)], pa.binary())
    assert not list(decoder.add(Batch("otap", Signal.TRACES, INTAKE, messages, [0], is_ordered=False)))
    [spans] = [block.rows for block in decoder.finish(None) if block.label == SPANS.name]
    assert spans.column("arrival_order").null_count == 2


def test_dropped_repeats_are_counted_on_the_first_span() -> None:
    """In whatever order the rows of a batch meet; repeats in a later write are collected, each of them."""
    rows = decoded(Signal.TRACES, traces(3), traces(2), traces(1)).batch
    order = np.random.default_rng(3).permutation(rows.num_rows)
    sieve = DuplicateFilter(cast("FileIO", None), {}, keeps_repeats=True)
    kept = sieve(PartitionSlice(None, pa.Table.from_batches([rows]).take(pa.array(order)))).rows.sort_by(
        "arrival_order"
    )
    assert kept.column("operation_name").to_pylist() == ["op-0", "op-1", "op-2"]
    assert kept.column("arrival_order").to_pylist() == [0, 1, 2]
    assert kept.column("dropped_repeats").to_pylist() == [2, 1, None]
    assert sieve.take_repeats() is None
    assert sieve(PartitionSlice(None, pa.Table.from_batches([rows]))).rows.num_rows == 0
    assert sieve.dropped == 3 + 6
    repeats = sieve.take_repeats()
    assert repeats is not None
    assert sorted(repeats.column("operation_name").to_pylist()) == ["op-0"] * 3 + ["op-1"] * 2 + ["op-2"]


def test_a_time_of_arrival_beyond_the_column_is_its_latest() -> None:
    """Frames have one bit more for it than columns."""
    found = set_received(decoded(Signal.TRACES, traces(2)), [2**64 - 1]).column("ingested_at").cast(pa.int64())
    assert set(found.to_pylist()) == {(2**63 - 1) // 1000}
