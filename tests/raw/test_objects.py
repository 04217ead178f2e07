"""A zone in object storage behaves like one on a disk."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import pytest

from neve.errors import RawZoneError
from neve.ingest.stream.raw_zone import RawFeed
from neve.lake.config import S3Config
from neve.lake.storage.filesystem import resolve_filesystem
from neve.raw import object_pages
from neve.raw.backlog_report import LIST_SECONDS, STALE_SECONDS, ReportedBacklog, write_report
from neve.raw.config import RawConfig
from neve.raw.frame import Frame, Kind, decode, encode
from neve.raw.segments import IDLE_SECONDS, PAGE_SEGMENTS, ObjectSink
from neve.raw.writer import open_writer
from neve.raw.zone import CONSUMED, OTLP, RawZone
from tests.parts.s3 import recorded

if TYPE_CHECKING:
    from tests.parts.s3 import S3

pytestmark = pytest.mark.parts
_numbers = itertools.count()


@pytest.fixture
def config(s3: S3) -> S3Config:
    """How to reach the server."""
    return S3Config.model_validate(
        {"endpoint": s3.endpoint, "region": s3.region, "access_key": s3.access_key, "secret_key": s3.secret_key}
    )


@pytest.fixture
def zone(s3: S3, config: S3Config) -> RawZone:
    """An empty zone in a bucket of its own."""
    filesystem = pafs.S3FileSystem(
        endpoint_override=s3.endpoint,
        access_key=s3.access_key,
        secret_key=s3.secret_key,
        region=s3.region,
        allow_bucket_creation=True,
    )
    bucket = f"raw-zone-{next(_numbers)}"
    filesystem.create_dir(bucket)
    return RawZone.of(f"s3://{bucket}/zone", config, OTLP)


def frame(number: int) -> Frame:
    """A frame that can be told from others."""
    return Frame(Kind.LOGS, "acme", number, b"payload")


def frames(zone: RawZone) -> list[int]:
    """The frames of all segments."""
    return [found.received_unix_nano for segment in zone.segments() for found in decode(zone.read(segment.path)).frames]


def test_a_group_is_an_object(zone: RawZone, config: S3Config) -> None:
    """Requests that come together share one; it is there when they are told so."""

    async def work() -> None:
        settings = RawConfig(location=zone.location.removesuffix(f"/{OTLP}"))
        writer = open_writer(settings, config, OTLP)
        await asyncio.gather(*(writer.append(frame(number)) for number in range(20)))
        assert sorted(frames(zone)) == list(range(20))
        await writer.append(frame(20))
        await writer.close()

    asyncio.run(work())
    segments = zone.segments()
    assert [segment.number for segment in segments] == list(range(len(segments)))
    assert 2 <= len(segments) <= 5
    assert all(segment.path.startswith("s3://") and segment.size > 0 for segment in segments)


def test_what_was_consumed_is_no_backlog_and_goes_in_time(zone: RawZone, config: S3Config) -> None:
    """The mark and the segments are objects, too."""
    assert (zone.segments(), zone.read_consumed(), zone.recover()) == ([], {}, [])
    sink = ObjectSink(zone.location, config)
    for number in range(3):
        sink.write(encode(frame(number)))
    zone.mark_consumed({sink.writer: 2})
    assert zone.read_consumed() == {sink.writer: 2}
    assert [segment.number for segment in zone.backlog()] == [2]
    assert (zone.clean(0), zone.purge()) == (0, 2)  # their writer may still add to their page
    assert frames(zone) == [2]
    zone.mark_consumed({sink.writer: 3})
    assert (zone.backlog(), zone.purge(), zone.segments()) == ([], 1, [])
    assert zone.read(f"{zone.location}/{CONSUMED}") == f'{{"{sink.writer}": 3}}'.encode()


def fill(sink: ObjectSink, numbers: range) -> None:
    """Write segments with these numbers, each with one frame of the same number."""
    for number in numbers:
        sink.number = number
        sink.write(encode(frame(number)))


def test_a_listing_starts_at_the_positions(zone: RawZone, config: S3Config, s3: S3) -> None:
    """Two requests for each writer and one for the zone, however many pages were ingested."""
    sinks = [ObjectSink(zone.location, config) for _ in range(2)]
    for sink in sinks:
        for page in range(4):
            fill(sink, range(page * PAGE_SEGMENTS, page * PAGE_SEGMENTS + 2))
    positions = {sink.writer: 3 * PAGE_SEGMENTS + 1 for sink in sinks}
    with recorded(s3) as methods:
        found = zone.segments(positions)
    assert [(segment.writer, segment.number) for segment in found] == sorted(
        (sink.writer, 3 * PAGE_SEGMENTS + 1) for sink in sinks
    )
    assert methods == ["GET"] * 5
    assert len(zone.segments()) == 16


def test_segments_of_an_earlier_release_are_read_and_removed(zone: RawZone, config: S3Config) -> None:
    """They have no pages, and come before those with pages."""
    sink = ObjectSink(zone.location, config)
    fill(sink, range(1, 2))
    filesystem, inner = resolve_filesystem(f"{zone.location}/{sink.writer}/000000000000.raw", config)
    with filesystem.open_output_stream(inner) as stream:
        stream.write(zone.read(zone.segments()[0].path))
    assert [segment.number for segment in zone.segments()] == [0, 1]
    assert [segment.number for segment in zone.segments({sink.writer: 1})] == [1]
    zone.mark_consumed({sink.writer: 2})
    assert (zone.clean(-1), [segment.number for segment in zone.segments()]) == (1, [1])


def test_pages_that_a_writer_has_left_are_removed_whole(zone: RawZone, config: S3Config, s3: S3) -> None:
    """A page with a young segment stays, and so does the page of the position."""
    sink = ObjectSink(zone.location, config)
    fill(sink, range(PAGE_SEGMENTS - 20, PAGE_SEGMENTS + 3))
    zone.mark_consumed({sink.writer: PAGE_SEGMENTS + 1})
    assert zone.clean(3600) == 0
    with recorded(s3) as methods:
        assert zone.clean(-1) == 20
    assert [segment.number for segment in zone.segments()] == [PAGE_SEGMENTS, PAGE_SEGMENTS + 1, PAGE_SEGMENTS + 2]
    assert (methods.count("POST"), methods.count("DELETE")) == (1, 1)  # the segments, and the mark of their folder


def test_a_dead_writer_is_removed(zone: RawZone, config: S3Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything that it wrote, once all of it is in the tables."""
    sink = ObjectSink(zone.location, config)
    fill(sink, range(PAGE_SEGMENTS - 2, PAGE_SEGMENTS + 2))
    zone.mark_consumed({sink.writer: PAGE_SEGMENTS + 1})
    monkeypatch.setattr(object_pages, "IDLE_SECONDS", -1.0)
    assert (zone.clean(-1), zone.writers()) == (2, {sink.writer})
    zone.mark_consumed({sink.writer: PAGE_SEGMENTS + 2})
    assert (zone.clean(-1), zone.writers()) == (2, set())


def test_a_writer_that_paused_gets_a_new_name(zone: RawZone, config: S3Config) -> None:
    """So that nothing is added to a folder that may be removed."""
    now = 0.0
    sink = ObjectSink(zone.location, config, clock=lambda: now)
    first = sink.writer
    for pause in (IDLE_SECONDS - 1, IDLE_SECONDS, 1):
        now += pause
        sink.write(encode(frame(1)))
    assert sink.writer != first
    assert [(segment.writer, segment.number) for segment in zone.segments()] == sorted(
        [(first, 0), (sink.writer, 0), (sink.writer, 1)]
    )
    assert [segment.number for segment in sink.waiting(0)] == [0, 1]


def test_a_receiver_reads_the_backlog_from_the_report(zone: RawZone, config: S3Config, s3: S3) -> None:
    """One small object instead of a listing; its own segments count at once."""
    own, other = ObjectSink(zone.location, config), ObjectSink(zone.location, config)
    fill(own, range(2))
    fill(other, range(4))
    size = zone.segments()[0].size
    write_report(zone, zone.segments({other.writer: 1}), {other.writer: 1}, now=1000.0)
    fill(own, range(2, 3))
    reader = ReportedBacklog(zone, own, clock=lambda: 1010.0)
    with recorded(s3) as methods:
        found = reader.read()
    assert methods == ["HEAD", "GET"]
    assert sum(segment.size for segment in found) == 6 * size
    assert [segment.number for segment in found if segment.writer == own.writer] == [0, 1, 2]


def test_without_a_report_receivers_list_the_zone_rarely(zone: RawZone, config: S3Config, s3: S3) -> None:
    """Between two listings, the segments of other writers are those of the last one."""
    own, other = ObjectSink(zone.location, config), ObjectSink(zone.location, config)
    fill(own, range(2))
    fill(other, range(2))
    now = 5000.0
    reader = ReportedBacklog(zone, own, clock=lambda: now)
    write_report(zone, [], {}, now=now - STALE_SECONDS - 1)
    assert len(reader.read()) == 4
    fill(own, range(2, 3))
    fill(other, range(2, 3))
    now += 1
    assert len(reader.read()) == 5
    now += LIST_SECONDS
    assert len(reader.read()) == 6


def test_a_feed_lists_the_zone_once_for_each_batch(zone: RawZone, config: S3Config, s3: S3) -> None:
    """Its other questions are answered by that listing, and by the list of writers."""
    sink = ObjectSink(zone.location, config)
    fill(sink, range(3))
    feed = RawFeed(zone, batch_bytes=1, keep_seconds=3600)
    feed.open(anew=False)
    assert (feed.waiting()[0] > 0, feed.caught_up()) == (True, False)
    with recorded(s3) as methods:
        for number in range(3):
            assert [segment.number for segment in feed.find()] == [number]
            feed.finish({sink.writer: number + 1})
            assert feed.caught_up() == (number == 2)
            feed.waiting()
    assert (feed.find(), feed.waiting()[0]) == ([], 0)
    assert len(methods) <= 3 * 10 + 4  # a batch: listing 3, positions 2 * 2 and 1, report 1, writers 1; one removal


def test_a_bucket_that_is_not_there_is_told(config: S3Config) -> None:
    """And the number of the object that failed is not used again: it may be there after all."""
    sink = ObjectSink("s3://no-such-bucket/zone", config)
    for number in range(2):
        with pytest.raises(RawZoneError, match=f"can't write to the raw zone no-such-bucket/.*{number}.raw"):
            sink.write(encode(frame(1)))
