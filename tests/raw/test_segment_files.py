"""Spare files filled with zeros, and segments that are cut to their frames when they are sealed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from neve.raw.frame import MAGIC, Frame, Kind, decode, encode
from neve.raw.segment_files import MAX_ZERO_BYTES, MIN_ZERO_BYTES, SegmentFiles, format_segment_name
from neve.raw.segments import recover_writers
from tests.raw.test_seal import CallingThread, frame, numbers, sink

if TYPE_CHECKING:
    import pytest

LARGE = 64 * 1024 * 1024


def open_sizes(folder: Path) -> list[int]:
    """Sizes of the files that are not sealed, by number."""
    return [path.stat().st_size for path in sorted(folder.glob("**/*.open"))]


def test_frames_replace_zeros_that_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync of frames finds a file that neither grows nor is new, so that it waits for its bytes only."""
    writer = sink(tmp_path, segment_bytes=LARGE)
    before = open_sizes(tmp_path)
    synced: list[str | int] = []
    monkeypatch.setattr(os, "fsync", lambda _file: synced.append("fsync"))
    monkeypatch.setattr(os, "fdatasync", lambda file: synced.append(os.fstat(file).st_size))
    writer.write(encode(frame(1)))
    assert "fsync" in synced  # for the next spare file, in another thread than this one outside of tests
    del synced[:]
    writer.write(encode(frame(2)))
    assert synced == before == [len(MAGIC) + MIN_ZERO_BYTES]
    writer.close()


def test_a_sealed_segment_ends_with_its_last_frame(tmp_path: Path) -> None:
    """Readers of sealed segments, also of earlier releases, find no zeros, and no spare file is left."""
    writer = sink(tmp_path, segment_bytes=LARGE)
    for number in (1, 2):
        writer.write(encode(frame(number)))
    writer.close()
    assert numbers(tmp_path) == [(0, [1, 2])]
    [sealed] = tmp_path.glob("*/*.raw")
    assert sealed.stat().st_size == len(MAGIC) + 2 * sum(map(len, encode(frame(1))))
    assert open_sizes(tmp_path) == []


def test_a_group_larger_than_the_zeros_is_stored(tmp_path: Path) -> None:
    """The file grows then, as it would without zeros."""
    writer = sink(tmp_path, segment_bytes=LARGE)
    large = Frame(Kind.LOGS, "acme", 1, bytes(range(256)) * (MIN_ZERO_BYTES // 128))
    writer.write(encode(large))
    writer.write(encode(frame(2)))
    writer.close()
    assert numbers(tmp_path) == [(0, [1, 2])]


def test_without_space_for_zeros_frames_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file begins empty then, and the partly written spare file is gone."""
    write = os.write

    def no_room(file: int, data: bytes) -> int:
        if len(data) > len(MAGIC):
            raise OSError(errno.ENOSPC, "no space left")
        return write(file, data)

    monkeypatch.setattr(os, "write", no_room)
    writer = sink(tmp_path, segment_bytes=LARGE)
    assert open_sizes(tmp_path) == []
    writer.write(encode(frame(1)))
    assert open_sizes(tmp_path) == [len(MAGIC) + sum(map(len, encode(frame(1))))]
    writer.close()
    assert numbers(tmp_path) == [(0, [1])]


def test_a_spare_file_that_stays_after_a_failure_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that refused to write and to remove it for a while does not stop the writer for good."""

    def fail(*_given: object, **_named: object) -> int:
        raise OSError(errno.EROFS, "read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        patch.setattr(Path, "unlink", fail)
        writer = sink(tmp_path, segment_bytes=LARGE)
    assert open_sizes(tmp_path) == [0]
    writer.write(encode(frame(1)))
    writer.close()
    assert numbers(tmp_path) == [(0, [1])]


def test_zeros_follow_the_size_of_segments(tmp_path: Path) -> None:
    """Twice the last segment, within limits; a small segment after large ones halves it only."""
    files, sizes = SegmentFiles(tmp_path, LARGE, CallingThread()), []
    for size in (1_000_000, 100, LARGE, 100):
        files.seal(files.open(), size)
        os.close(files.open())  # prepared before the segment was sealed
        sizes.append(open_sizes(tmp_path)[-1] - len(MAGIC))
    files.close()
    assert sizes == [2_000_000, 1_000_000, MAX_ZERO_BYTES, MAX_ZERO_BYTES]


@given(
    payloads=st.lists(st.binary(max_size=30), max_size=5),
    zeros=st.integers(0, 500),
    torn=st.integers(0, 60),
)
def test_zeros_and_a_torn_frame_are_cut_off(payloads: list[bytes], zeros: int, torn: int) -> None:
    """All whole frames are found, also if they end in zeros, and nothing after them."""
    frames = [Frame(Kind.LOGS, "acme", 1, payload) for payload in payloads]
    segment = b"".join([MAGIC, *(piece for one in frames for piece in encode(one))])
    last = b"".join(encode(Frame(Kind.LOGS, "acme", 2, b"x" * 40)))[:torn]
    contents = decode(segment + last + bytes(zeros))
    assert contents.frames == frames
    assert contents.whole_bytes == len(segment)
    assert len(contents.damaged) <= 2


def test_recovery_keeps_frames_and_removes_the_spare_file(tmp_path: Path) -> None:
    """Also if the last page of a group is durable and an earlier one is not."""
    folder = tmp_path / "20260101T000000-00000000"
    folder.mkdir()
    (folder / ".lock").touch()
    whole = b"".join([MAGIC, *encode(frame(1))])
    lost_page = bytes(4096) + b"".join(encode(frame(2)))
    (folder / f"{format_segment_name(0)}.open").write_bytes(whole + lost_page + bytes(9000))
    (folder / f"{format_segment_name(1)}.open").write_bytes(MAGIC + bytes(9000))
    assert recover_writers(tmp_path) == [f"{folder.name}/{format_segment_name(0)}"]
    assert numbers(tmp_path) == [(0, [1])]
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "000000000000.raw"]
