"""Files of a writer on a local disk: a spare segment that holds zeros, and sealing in the background.

A sync of a file that grows waits until the file system has recorded new blocks and the new size. On ext4, threads of
the kernel do that. On a busy machine they wait for a processor, and all acknowledgements wait for them. A sync of bytes
that replace written zeros waits for the disk only. So a thread of the writer fills the next file with zeros in advance.
It also cuts a full file to its frames and renames it, which takes two more syncs of the file system's journal.
"""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.raw.frame import MAGIC

if TYPE_CHECKING:
    from pathlib import Path

OPEN, SEALED = ".open", ".raw"
MIN_ZERO_BYTES = 256 * 1024
MAX_ZERO_BYTES = 8 * 1024 * 1024  # a larger segment grows at its end; under such a load one sync serves many requests
ZEROS = memoryview(bytes(256 * 1024))


@dataclass(frozen=True)
class FullSegment:
    """A segment that gets no more frames: its path while it is open, and the bytes of its frames."""

    path: Path
    size: int


class SegmentFiles:
    """Files of one writer. One thread calls the methods, and an executor with one thread does the slow part."""

    def __init__(self, folder: Path, segment_bytes: int, executor: Executor | None = None) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._expected_bytes = MIN_ZERO_BYTES
        self._number = 0
        self._full: list[FullSegment] = []  # in the order of their numbers
        self._executor = executor or ThreadPoolExecutor(1, thread_name_prefix="raw-zone-files")
        self._sealing: Future[None] = Future()
        self._sealing.set_result(None)
        self._spare = self._prepare()

    def open(self) -> int:
        """Return the file of the next segment, positioned after the magic number. Its folder entry is durable.

        Raises `OSError` if the file can't be created.
        """
        try:
            file = self._spare.result()
        except OSError:  # no space for the zeros, for example: a file without them is slower and has the same content
            file = create_segment(self._path(self._number), 0)
        self._number += 1
        self._spare = self._prepare()
        return file

    def seal(self, file: int, size: int) -> None:
        """Close the segment that was opened last, cut it to a size and rename it in the background.

        Its frames are durable already, so a failure is not reported to clients. `retry` repeats it.
        """
        with suppress(OSError):
            os.close(file)
        self._full.append(FullSegment(self._path(self._number - 1), size))
        self._expected_bytes = max(2 * size, self._expected_bytes // 2)
        self._sealing = self._executor.submit(self._seal_full)

    def retry(self) -> None:
        """Seal segments that could not be sealed before."""
        if self._full and self._sealing.done():
            self._sealing = self._executor.submit(self._seal_full)

    def close(self) -> None:
        """Finish sealing, and remove the spare file. Recovery does what fails here."""
        self._executor.submit(self._seal_full).result()
        with suppress(OSError):
            os.close(self._spare.result())
            self._path(self._number).unlink()
        self._executor.shutdown()

    def _path(self, number: int) -> Path:
        return self._folder / (format_segment_name(number) + OPEN)

    def _prepare(self) -> Future[int]:
        """Create the next file in the background, with zeros for twice the frames of the last one."""
        size = min(max(self._expected_bytes, MIN_ZERO_BYTES), MAX_ZERO_BYTES, self._segment_bytes)
        return self._executor.submit(create_segment, self._path(self._number), size)

    def _seal_full(self) -> None:
        """Seal segments in order: a reader that has seen a segment does not look for an earlier one."""
        with suppress(OSError):
            while self._full:
                segment = self._full[0]
                seal_file(segment.path, segment.size)
                del self._full[0]
                sync_path(self._folder)


def format_segment_name(number: int) -> str:
    """Return the file name of a segment without its suffix."""
    return f"{number:012d}"


def create_segment(path: Path, zero_bytes: int) -> int:
    """Create a segment without frames, followed by zeros. Return the file, positioned at the zeros.

    The zeros and the folder entry are durable. Raises `OSError`, and removes the file then. One that could not be
    removed before never had frames, and is replaced: a folder has one writer.
    """
    file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o640)
    try:
        os.write(file, MAGIC)
        left = zero_bytes
        while left > 0:
            left -= os.write(file, ZEROS[:left])
        if zero_bytes:
            os.fsync(file)
        os.lseek(file, len(MAGIC), os.SEEK_SET)
        sync_path(path.parent)  # a file without a durable folder entry is not durable
    except OSError:
        os.close(file)
        path.unlink(missing_ok=True)
        raise
    return file


def seal_file(path: Path, size: int) -> None:
    """Cut an open segment to its whole frames and seal it. The caller syncs the folder."""
    with path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())  # a sealed segment has no zeros at its end, also after a crash
    path.rename(path.with_suffix(SEALED))


def sync_path(path: Path) -> None:
    """Sync a file, or the entries of a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
