"""The receiver's side of a zone: frames in, durable when told so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neve.raw.group import GroupCommit
from neve.raw.local import LocalSink
from neve.raw.objects import LEAST_LINGER_SECONDS, ObjectSink
from neve.raw.zone import RawZone

if TYPE_CHECKING:
    from neve.lake.config import S3Config
    from neve.raw.config import RawConfig


def open_writer(config: RawConfig, s3: S3Config, name: str) -> GroupCommit:
    """A new writer of the zone `name`; must be called where an event loop runs."""
    zone = RawZone.of(config.location, s3, name)
    linger = config.linger_ms / 1000
    if not zone.is_local:
        return GroupCommit(ObjectSink(zone.location, s3), linger_seconds=max(linger, LEAST_LINGER_SECONDS))
    zone.recover()
    sink = LocalSink(
        Path(zone.location),
        segment_bytes=config.segment_bytes,
        segment_seconds=config.segment_seconds,
        min_free_bytes=config.min_free_bytes,
    )
    return GroupCommit(sink, linger_seconds=linger)
