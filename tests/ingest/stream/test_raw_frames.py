"""Frames are opened a few at a time, within bounds."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from neve.ingest.config import IngestConfig
from neve.ingest.stream import raw_frames as module
from neve.ingest.stream.raw_frames import open_frames
from neve.model.signals import Signal
from neve.raw.frame import Encoding, Kind, Packing
from tests.ingest.stream.frames import frame
from tests.receive.doubles import field
from tests.telemetry import logs

MB = 1024 * 1024
CONFIG = IngestConfig()


def packed(size: int) -> bytes:
    """A message of one log record whose body is long, packed to next to nothing."""
    body = field(5, field(1, b"x" * size))
    return gzip.compress(field(1, field(2, field(2, body))))


@pytest.mark.slow
def test_never_more_than_a_run_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty frames of a few kilobytes that hold 4 MB each: what is alive is a run, not 160 MB."""
    monkeypatch.setattr(module, "RUN_BYTES", 8 * MB)
    payload = packed(4 * MB)
    frames = [(place, frame(Kind.LOGS, payload, packing=Packing.GZIP)) for place in range(40)]
    seen = []
    tracemalloc.start()
    try:
        for opened in open_frames(Signal.LOGS, frames, CONFIG):
            seen += opened.places
            assert opened.messages.nbytes <= 9 * MB
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seen == list(range(40))
    assert peak < 40 * MB


def test_a_frame_over_size_is_refused_alone() -> None:
    """While it unfolds, before it is whole; those beside it are opened."""
    config = IngestConfig(max_message_bytes=MB)
    frames = [
        (0, frame(Kind.LOGS, packed(2 * MB), packing=Packing.GZIP)),
        (1, frame(Kind.LOGS, logs(3))),
        (2, frame(Kind.LOGS, b"no gzip", packing=Packing.GZIP)),
    ]
    [opened] = open_frames(Signal.LOGS, frames, config)
    assert (opened.messages.to_pylist(), opened.places) == ([logs(3)], [1])
    assert [(bad.reason, bad.message) for bad in opened.rejected] == [("overgrown_message", 0), ("unreadable_frame", 2)]
    assert opened.rejected[0].detail == "the frame unpacks to more than 1048576 bytes (ingest.max_message_bytes)"


def test_json_with_too_many_groups_is_refused_unread() -> None:
    """With the bound that it is over."""
    text = b'{"resourceLogs":[' + b"{}," * 50 + b"{}]}"
    [opened] = open_frames(
        Signal.LOGS, [(7, frame(Kind.LOGS, text, encoding=Encoding.JSON))], IngestConfig(max_groups=50)
    )
    [bad] = opened.rejected
    assert (bad.reason, bad.message, len(opened.messages)) == ("overgrown_message", 7, 0)
    assert bad.detail.endswith("(ingest.max_groups)")
