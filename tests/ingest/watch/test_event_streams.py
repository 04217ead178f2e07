"""Announced files into the tables, from the raw zone and from Kafka."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from neve.ingest.config import IngestConfig, KafkaConfig, WatchConfig
from neve.ingest.stream.query_job import QueryJob
from neve.ingest.stream.raw_zone import RawFeed
from neve.ingest.stream.segment_job import SegmentJob
from neve.ingest.watch.event_ingest import EventIngester
from neve.ingest.watch.event_streams import KafkaEvents, RawEvents
from neve.ingest.watch.places import Places
from neve.lake.config import S3Config
from neve.raw.frame import Encoding, Frame, Kind
from neve.raw.writer import open_writer
from neve.raw.zone import EVENTS, RawZone
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.ingest.stream.frames import raw_config
from tests.ingest.watch.scripted_s3 import scripted_store
from tests.telemetry import logs, traces

if TYPE_CHECKING:
    from pathlib import Path

    from neve.ingest.results import StreamResult
    from neve.lake.lake import Lake
    from neve.raw.config import RawConfig
    from tests.parts.kafka import Kafka


def announce(raw: RawConfig, *documents: object) -> None:
    """Put events into the raw zone, as the webhook does."""

    async def write() -> None:
        writer = open_writer(raw, S3Config(), EVENTS)
        for document in documents:
            payload = document if isinstance(document, bytes) else json.dumps(document).encode()
            await writer.append(Frame(Kind.EVENT, "acme", time.time_ns(), payload, Encoding.JSON))
        await writer.close()

    asyncio.run(write())


def intake(lake: Lake, config: IngestConfig, folder: Path, organization: str, stream: str) -> EventIngester:
    """An intake for one organization and one folder."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db"))))
    return EventIngester(lake, config, WatchConfig(), Places({organization: (str(folder),)}), documents, stream)


def run(lake: Lake, folder: Path, raw: RawConfig) -> StreamResult:
    """Take in all that was announced."""
    config = IngestConfig.model_validate({"checkpoints": str(folder / "checkpoints")})
    feed = RawFeed(RawZone.of(raw.location, S3Config(), EVENTS), config.batch_bytes, 0)
    stream = RawEvents(intake(lake, config, folder, "acme", "watch"), feed)
    return SegmentJob(lake, config, "watch", stream).run(until_caught_up=True)


def test_announced_files_are_taken_in_once(spark_lake: Lake, tmp_path: Path) -> None:
    """Good files are in the tables; missing, cut, foreign and malformed announcements are on record, each once."""
    raw = raw_config(tmp_path)
    good, packed, cut = tmp_path / "traces.binpb", tmp_path / "logs.binpb.gz", tmp_path / "logs-cut.binpb.gz"
    good.write_bytes(traces(5))
    packed.write_bytes(gzip.compress(logs(4)))
    cut.write_bytes(gzip.compress(logs(40, first=100))[:-20])
    announce(
        raw,
        {"paths": [str(good), str(packed), str(cut), str(tmp_path / "gone.json")]},
        {"path": "/etc/hosts.json"},
        b"no event at all",
    )
    first = run(spark_lake, tmp_path, raw)
    assert first.records == {"traces": 5, "logs": 4}
    expected = {"unreadable_file", "announced_file_missing", "refused_announcement", "malformed_event"}
    assert first.rejected == dict.fromkeys(expected, 1)
    refused = spark_lake.table("quarantine").scan().to_arrow().to_pylist()
    assert {row["reason"] for row in refused} == expected
    assert len(refused) == len(expected)
    announce(raw, {"path": str(good)})
    again = run(spark_lake, tmp_path, raw)
    assert (again.records, spark_lake.table("spans").scan().count()) == ({}, 5)


def test_a_file_that_was_put_off_is_in_when_its_store_is_back(spark_lake: Lake, tmp_path: Path) -> None:
    """A later run of the stream tries it again, though no new event came; the stream itself had gone on."""
    raw = raw_config(tmp_path)
    announce(raw, {"path": "s3://raw/traces.binpb"})
    with scripted_store() as store:
        store.away.add("raw")
        store.objects["raw/traces.binpb"] = traces(3)
        lake = replace(spark_lake, s3=store.config)
        watch = WatchConfig.model_validate({"retry_seconds": 0, "attempts": 3})
        documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
        config = IngestConfig.model_validate({"checkpoints": str(tmp_path / "checkpoints")})

        def once() -> StreamResult:
            places = Places({"acme": ("s3://raw",)})
            feed = RawFeed(RawZone.of(raw.location, S3Config(), EVENTS), config.batch_bytes, 0)
            stream = RawEvents(EventIngester(lake, config, watch, places, documents, "watch"), feed)
            return SegmentJob(lake, config, "watch", stream).run(until_caught_up=True)

        first = once()
        assert (first.messages, first.records) == (1, {})
        store.away.clear()
        second = once()
        assert (second.messages, second.records, second.rejected) == (0, {"traces": 3}, {})
    assert spark_lake.table("spans").scan().count() == 3


@pytest.mark.parts
def test_events_in_kafka(spark_lake: Lake, tmp_path: Path, kafka: Kafka) -> None:
    """The topic says the signal that a file's name leaves open; an event may name the organization."""
    topic = f"{uuid4().hex[:8]}.logs"
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"time": "2026-11-15T10:00:00Z", "message": "hello"}\n')
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, json.dumps({"path": str(lines), "organization": "umbrella"}).encode())
    assert producer.flush(20) == 0
    config = IngestConfig.model_validate({"checkpoints": str(tmp_path / "checkpoints")})
    topics = KafkaConfig.model_validate({"bootstrap_servers": kafka.bootstrap, "events": [topic]})
    stream = KafkaEvents(intake(spark_lake, config, tmp_path, "umbrella", "events"), topics, "acme")
    result = QueryJob(spark_lake, config, "events", stream).run(until_caught_up=True)
    assert result.records == {"logs": 1}
    row = spark_lake.table("logs").scan().to_arrow().to_pylist()[0]
    assert (row["organization_id"], row["message"]) == ("umbrella", "hello")
