"""A zone in object storage behaves like one on a disk."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import pytest

from neve.errors import RawZoneError
from neve.lake.config import S3Config
from neve.raw.config import RawConfig
from neve.raw.frame import Frame, Kind, decode, encode
from neve.raw.segments import ObjectSink
from neve.raw.writer import open_writer
from neve.raw.zone import CONSUMED, OTLP, RawZone

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
    assert zone.clean(3600) == 0
    assert zone.clean(0) == 2
    assert frames(zone) == [2]
    zone.mark_consumed({sink.writer: 3})
    assert (zone.backlog(), zone.clean(0), zone.segments()) == ([], 1, [])
    assert zone.read(f"{zone.location}/{CONSUMED}") == f'{{"{sink.writer}": 3}}'.encode()


def test_a_bucket_that_is_not_there_is_told(config: S3Config) -> None:
    """And the number of the object that failed is not used again: it may be there after all."""
    sink = ObjectSink("s3://no-such-bucket/zone", config)
    for number in range(2):
        with pytest.raises(RawZoneError, match=f"can't write to the raw zone no-such-bucket/.*{number}.raw"):
            sink.write(encode(frame(1)))
