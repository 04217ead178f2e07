"""A segment that can't be renamed waits for the next look at the clock, and nothing overtakes it."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from neve.lake.config import S3Config
from neve.raw.frame import Frame, Kind, decode, encode
from neve.raw.segments import LocalSink
from neve.raw.zone import RawZone

SMALL = 1  # every group fills a segment


class CallingThread(Executor):
    """Runs everything at once, so that a test sees the result."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function and keep its result or error."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except OSError as error:
            future.set_exception(error)
        return future


class Renames:
    """Whether renames fail."""

    fail = False


@pytest.fixture
def renames(monkeypatch: pytest.MonkeyPatch) -> Renames:
    """All renames of this process."""
    switch, rename = Renames(), Path.rename

    def maybe(path: Path, target: Path) -> Path:
        if switch.fail:
            raise OSError("the folder can't be changed")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", maybe)
    return switch


def sink(zone: Path, segment_bytes: int = SMALL) -> LocalSink:
    """A writer whose segments never grow old."""
    return LocalSink(
        zone, segment_bytes=segment_bytes, segment_seconds=3600, min_free_bytes=0, executor=CallingThread()
    )


def frame(number: int) -> Frame:
    """A frame that can be told from others."""
    return Frame(Kind.LOGS, "acme", number, b"payload")


def numbers(folder: Path) -> list[tuple[int, list[int]]]:
    """The sealed segments and the frames in each."""
    zone = RawZone(str(folder), S3Config())
    return [
        (segment.number, [found.received_unix_nano for found in decode(zone.read(segment.path)).frames])
        for segment in zone.segments()
    ]


def test_a_rename_that_fails_is_tried_again(tmp_path: Path, renames: Renames) -> None:
    """What was written is durable, so that its sender is told so; the next tick seals it."""
    writer = sink(tmp_path)
    renames.fail = True
    writer.write(encode(frame(1)))
    writer.tick()
    assert numbers(tmp_path) == []
    renames.fail = False
    writer.tick()
    assert numbers(tmp_path) == [(0, [1])]
    writer.close()


def test_segments_are_sealed_in_their_order(tmp_path: Path, renames: Renames) -> None:
    """A reader that has seen a segment never looks for one before it."""
    writer = sink(tmp_path)
    renames.fail = True
    writer.write(encode(frame(1)))
    writer.write(encode(frame(2)))
    renames.fail = False
    assert numbers(tmp_path) == []
    writer.write(encode(frame(3)))
    assert numbers(tmp_path) == [(0, [1]), (1, [2]), (2, [3])]
    writer.close()


def test_what_could_not_be_sealed_is_recovered_after_the_end(tmp_path: Path, renames: Renames) -> None:
    """The lock goes with its process, and whoever comes next seals what was left."""
    writer = sink(tmp_path, segment_bytes=2**20)
    writer.write(encode(frame(1)))
    renames.fail = True
    writer.close()
    renames.fail = False
    assert numbers(tmp_path) == []
    assert RawZone(str(tmp_path), S3Config()).recover() == [f"{writer.writer}/000000000000"]
    assert numbers(tmp_path) == [(0, [1])]
