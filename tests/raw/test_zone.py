"""Writers, segments and what becomes of them."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from neve.errors import RawZoneError
from neve.lake.config import S3Config
from neve.raw.config import RawConfig
from neve.raw.frame import MAGIC, Frame, Kind, decode, encode
from neve.raw.writer import open_writer
from neve.raw.zone import OTLP, RawZone

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FRAME = Frame(Kind.TRACES, "acme", 1, b"payload")
WRITER_THAT_DIES = """
import asyncio, os, sys
from neve.lake.config import S3Config
from neve.raw.config import RawConfig
from neve.raw.frame import Frame, Kind
from neve.raw.writer import open_writer

async def main():
    writer = open_writer(RawConfig(location=sys.argv[1], min_free_bytes=0, segment_seconds=60), S3Config(), "otlp")
    for number in range(3):
        await writer.append(Frame(Kind.LOGS, "acme", number, b"acknowledged"))
    print("written", flush=True)
    if sys.argv[2] == "die":
        os.kill(os.getpid(), 9)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def config(folder: Path, **settings: float) -> RawConfig:
    """A zone without a demand for free space."""
    return RawConfig.model_validate({"location": str(folder), "min_free_bytes": 0, **settings})


def zone(folder: Path) -> RawZone:
    """The zone of messages."""
    return RawZone.of(str(folder), S3Config(), OTLP)


def frames(zone: RawZone) -> list[Frame]:
    """All frames of all sealed segments."""
    return [frame for segment in zone.segments() for frame in decode(zone.read(segment.path)).frames]


def write(settings: RawConfig, count: int, pause: float = 0.0) -> None:
    """Write frames one after the other."""

    async def work() -> None:
        writer = open_writer(settings, S3Config(), OTLP)
        for _ in range(count):
            await writer.append(FRAME)
            await asyncio.sleep(pause)
        await writer.close()

    asyncio.run(work())


def test_segments_are_sealed_by_size_and_at_the_end(tmp_path: Path) -> None:
    """They are numbered from nought, and each holds whole frames."""
    write(config(tmp_path, segment_bytes=4096), 400)
    segments = zone(tmp_path).segments()
    assert [segment.number for segment in segments] == list(range(len(segments)))
    assert len(segments) > 2
    assert frames(zone(tmp_path)) == [FRAME] * 400


def test_a_segment_is_sealed_when_it_is_old(tmp_path: Path) -> None:
    """Without waiting for more, so that little traffic arrives in time, too."""

    async def work() -> None:
        writer = open_writer(config(tmp_path, segment_seconds=0.3), S3Config(), OTLP)
        await writer.append(FRAME)
        until = time.monotonic() + 600
        while not zone(tmp_path).segments():
            assert time.monotonic() < until
            await asyncio.sleep(0.05)
        await writer.close()

    asyncio.run(work())


@pytest.mark.slow
def test_what_a_dead_writer_left_open_is_sealed(tmp_path: Path) -> None:
    """With all that was acknowledged, and without the frame that it was killed in."""
    subprocess.run([sys.executable, "-c", WRITER_THAT_DIES, str(tmp_path), "die"], check=False, capture_output=True)
    left, *_spare = sorted((tmp_path / OTLP).glob("*/*.open"))
    with left.open("r+b") as file:
        file.seek(decode(left.read_bytes()).whole_bytes)
        file.write(encode(FRAME)[0])  # a header whose payload never came
    assert zone(tmp_path).segments() == []
    assert len(zone(tmp_path).recover()) == 1
    assert [frame.received_unix_nano for frame in frames(zone(tmp_path))] == [0, 1, 2]


@pytest.mark.slow
def test_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    """Another process sees by its lock that it lives."""
    command = [sys.executable, "-c", WRITER_THAT_DIES, str(tmp_path), "live"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writing:
        assert writing.stdout is not None
        writing.stdout.readline()
        assert zone(tmp_path).recover() == []
        assert zone(tmp_path).segments() == []
        writing.kill()
    assert len(zone(tmp_path).recover()) == 1


def test_a_sync_that_fails_is_told_and_the_next_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was acknowledged before stays, what was not is not kept, and a new segment is begun."""
    fails = [False]
    sync = os.fdatasync

    def fdatasync(file: int) -> None:
        if fails[0]:
            raise OSError(errno.EIO, "the disk is ill")
        sync(file)

    monkeypatch.setattr(os, "fdatasync", fdatasync)

    async def work() -> None:
        writer = open_writer(config(tmp_path), S3Config(), OTLP)
        await writer.append(FRAME)
        fails[0] = True
        with pytest.raises(RawZoneError, match="the disk is ill"):
            await writer.append(Frame(Kind.LOGS, "acme", 2, b"lost"))
        fails[0] = False
        await writer.append(FRAME)
        await writer.close()

    asyncio.run(work())
    assert frames(zone(tmp_path)) == [FRAME, FRAME]
    assert len(zone(tmp_path).segments()) == 2


def test_a_full_disk_refuses_and_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that finds no room fails as a whole; nothing of it is left behind."""
    whole = os.writev

    def no_room(file: int, pieces: Sequence[memoryview]) -> int:
        if len(pieces) > 1:
            whole(file, pieces[:1])
            raise OSError(errno.ENOSPC, "no space left")
        return whole(file, pieces)

    async def work() -> None:
        writer = open_writer(config(tmp_path), S3Config(), OTLP)
        with monkeypatch.context() as patch:
            patch.setattr(os, "writev", no_room)
            with pytest.raises(RawZoneError, match="no space left"):
                await writer.append(FRAME)
        await writer.append(FRAME)
        await writer.close()

    asyncio.run(work())
    assert frames(zone(tmp_path)) == [FRAME]


def test_what_was_consumed_is_no_backlog_and_goes_in_time(tmp_path: Path) -> None:
    """Segments above the mark stay; dead writers that have none left go with them."""
    write(config(tmp_path, segment_bytes=4096), 400)
    here = zone(tmp_path)
    writer = here.segments()[0].writer
    last = here.segments()[-1].number
    here.mark_consumed({writer: last})
    assert [segment.number for segment in here.backlog()] == [last]
    assert here.clean(3600) == 0
    assert here.clean(0) == last
    assert [segment.number for segment in here.segments()] == [last]
    here.mark_consumed({writer: last + 1})
    here.clean(0)
    assert not (tmp_path / OTLP / writer).exists()


@pytest.mark.parametrize(
    "content", [b"", MAGIC, MAGIC + bytes(5000), bytes(5000)], ids=["empty", "new", "spare", "zeros"]
)
def test_a_leftover_without_frames_is_removed(tmp_path: Path, content: bytes) -> None:
    """A writer that was killed before its first frame leaves nothing that the reader has to open."""
    folder = tmp_path / OTLP / "20260101T000000-00000000"
    folder.mkdir(parents=True)
    (folder / ".lock").touch()
    (folder / "000000000000.open").write_bytes(content)
    assert zone(tmp_path).recover() == []
    assert zone(tmp_path).segments() == []
    assert [path.name for path in folder.iterdir()] == [".lock"]
