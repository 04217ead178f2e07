"""Frames and zones for tests of streams."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from neve.lake.config import S3Config
from neve.raw.config import RawConfig
from neve.raw.frame import Frame, Kind
from neve.raw.writer import open_writer
from neve.raw.zone import OTLP, RawZone

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def raw_config(folder: Path, **settings: float) -> RawConfig:
    """A raw zone in a folder, without a demand for free space."""
    return RawConfig.model_validate({"location": str(folder / "raw"), "min_free_bytes": 0, **settings})


def zone_of(config: RawConfig) -> RawZone:
    """The zone of OTLP messages."""
    return RawZone.of(config.location, S3Config(), OTLP)


def receive(config: RawConfig, *groups: Sequence[Frame]) -> None:
    """Make frames durable; each group by a writer of its own."""

    async def write(frames: Sequence[Frame]) -> None:
        writer = open_writer(config, S3Config(), OTLP)
        await asyncio.gather(*(writer.append(frame) for frame in frames))
        await writer.close()

    for group in groups:
        asyncio.run(write(group))


def frame(kind: Kind, payload: bytes, organization: str = "acme", **settings: int) -> Frame:
    """A frame that came now."""
    return Frame(kind, organization, time.time_ns(), payload, **settings)  # type: ignore[arg-type]
