"""Write segments to a local disk or to object storage.

On a disk, a writer adds frames to an open segment, syncs it and seals it by a rename. A writer has a folder that it
locks while it lives. An open segment ends in `.open` and may have zeros after its frames, a sealed one ends in `.raw`.
If the lock is free the writer is dead, and the next process cuts its open segment to the whole frames and seals it. In
object storage each group becomes one object, whole or not at all.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from neve.errors import RawZoneError
from neve.lake.storage.call_counters import CALLS, Operation
from neve.local_folders import make_private_folder
from neve.raw.frame import MAGIC, decode
from neve.raw.segment_files import OPEN, SEALED, SegmentFiles, format_segment_name, seal_file, sync_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from neve.lake.config import S3Config


LOCK = ".lock"
PIECES_AT_ONCE = 512  # below every system's limit for one writev
PAGE_SEGMENTS = 1000  # as many objects as one request lists


@dataclass(frozen=True)
class Segment:
    """A sealed segment: its writer, its number and its path."""

    writer: str
    number: int
    path: str
    size: int
    modified: float = 0.0


class StoredFile(NamedTuple):
    """A file of a zone."""

    path: str
    size: int
    modified: float


def format_page_name(number: int) -> str:
    """Return the name of the folder that holds a segment in object storage."""
    return f"{number // PAGE_SEGMENTS:09d}"


def format_object_name(number: int) -> str:
    """Return the name of a segment below its writer.

    >>> format_object_name(12345)
    '000000012/000000012345.raw'
    """
    return f"{format_page_name(number)}/{format_segment_name(number)}{SEALED}"


def parse_segment(file: StoredFile) -> Segment | None:
    """Return the segment that a file holds, None for other files.

    >>> for path in ("zone/w-1/000000000007.raw", "zone/w-1/000000002/000000002001.raw", "zone/w-1/000000000008.open"):
    ...     found = parse_segment(StoredFile(path, 1, 0.0))
    ...     print(found and (found.writer, found.number))
    ('w-1', 7)
    ('w-1', 2001)
    None
    """
    *above, name = file.path.split("/")
    number = name.removesuffix(SEALED)
    if number == name or not number.isdecimal() or not above:
        return None
    writer = above[-2] if above[-1].isdecimal() and len(above) > 1 else above[-1]
    return None if writer.startswith(".") else Segment(writer, int(number), *file)


def make_writer_name() -> str:
    """Return a unique writer name. Names sort by time."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


class LocalSink:
    """Segments of one writer on a local disk."""

    def __init__(
        self,
        zone: Path,
        *,
        segment_bytes: int,
        segment_seconds: float,
        min_free_bytes: int,
        executor: Executor | None = None,
    ) -> None:
        self._segment_bytes = segment_bytes
        self._segment_seconds = segment_seconds
        self._min_free_bytes = min_free_bytes
        self._folder, self._lock = _claim_folder(zone)
        self._files = SegmentFiles(self._folder, segment_bytes, executor)
        self._segment: int | None = None
        self._durable = 0
        self._opened = 0.0

    @property
    def writer(self) -> str:
        """The writer's name."""
        return self._folder.name

    @property
    def open_bytes(self) -> int:
        """Durable bytes that are in no sealed segment. Other threads read it as an estimate."""
        return self._durable if self._segment is not None else 0

    def write(self, pieces: Sequence[bytes]) -> None:
        """Add to the open segment and sync it."""
        try:
            with CALLS.time_call(Operation.PUT, "file", sum(map(len, pieces))):
                self._check_room()
                segment = self._open()
                written = _write_all(segment, pieces)
                os.fdatasync(segment)
        except OSError as error:
            self._abandon()
            raise RawZoneError(
                f"can't write to the raw zone {self._folder}: {error.strerror}",
                hint="free some space, or repair the disk",
                public=f"writing to its disk failed: {(error.strerror or 'unknown error').lower()}",
            ) from error
        self._durable += written
        if self._durable >= self._segment_bytes:
            self._seal(segment)

    def tick(self) -> None:
        """Seal a segment that is old, and segments that could not be sealed before."""
        if self._segment is not None and time.monotonic() - self._opened >= self._segment_seconds:
            self._seal(self._segment)
        else:
            self._files.retry()

    def close(self) -> None:
        """Seal the open segment and unlock the folder. Recovery seals segments that can't be sealed now."""
        if self._segment is not None:
            self._seal(self._segment)
        self._files.close()
        os.close(self._lock)

    def _check_room(self) -> None:
        free = find_free_bytes(self._folder)
        if free < self._min_free_bytes:
            raise RawZoneError(
                f"the disk of the raw zone {self._folder} has {free} bytes free, "
                f"raw.min_free_bytes is {self._min_free_bytes}",
                hint="free some space; clients get 503 and retry meanwhile",
                public=f"its disk has {free} bytes free, raw.min_free_bytes is {self._min_free_bytes}",
            )

    def _open(self) -> int:
        if self._segment is None:
            self._segment = self._files.open()
            self._opened = time.monotonic()
            self._durable = len(MAGIC)
        return self._segment

    def _seal(self, segment: int) -> None:
        self._files.seal(segment, self._durable)
        self._segment = None

    def _abandon(self) -> None:
        """Seal the segment after an error with the bytes that were synced before: the state of its end is unknown.

        The next write opens a new segment.
        """
        if self._segment is not None:
            self._seal(self._segment)


def recover_writers(zone: Path) -> list[str]:
    """Seal the open segments of dead writers. Return the names of the sealed segments."""
    if not zone.is_dir():
        return []
    return [name for folder in sorted(zone.iterdir()) if folder.is_dir() for name in _recover_writer(folder)]


def _recover_writer(folder: Path) -> list[str]:
    lock = take_lock(folder)
    if lock is None:
        return []
    try:
        return [name for path in sorted(folder.glob("*" + OPEN)) if (name := _seal_leftover(path))]
    finally:
        os.close(lock)


def take_lock(folder: Path) -> int | None:
    """Lock a writer's folder. Return None if its writer is alive."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return None  # still being created, or being removed
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _seal_leftover(path: Path) -> str | None:
    """Cut an open segment to its whole frames and seal it. The bytes after them were never acknowledged.

    A segment without frames, as the spare file of a writer, is removed.
    """
    contents = decode(path.read_bytes())
    if contents.frames:
        seal_file(path, contents.whole_bytes)
    else:
        path.unlink()
    sync_path(path.parent)
    return f"{path.parent.name}/{path.stem}" if contents.frames else None


def _claim_folder(zone: Path) -> tuple[Path, int]:
    """Create a folder that is locked before any other process can see it."""
    new = [path for path in (zone, *zone.parents) if not path.exists()]
    make_private_folder(zone)
    for path in new:
        sync_path(path.parent)
    name = make_writer_name()
    hidden = zone / f".{name}"
    hidden.mkdir()
    lock = os.open(hidden / LOCK, os.O_CREAT | os.O_RDWR, 0o640)
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder = hidden.rename(zone / name)
    sync_path(zone)
    return folder, lock


def _write_all(file: int, pieces: Sequence[bytes]) -> int:
    """Write pieces in order, in as many calls as necessary."""
    total = 0
    rest = [memoryview(piece) for piece in pieces if len(piece)]
    while rest:
        written = os.writev(file, rest[:PIECES_AT_ONCE])
        total += written
        done = 0
        while done < len(rest) and written >= len(rest[done]):
            written -= len(rest[done])
            done += 1
        rest = rest[done:]
        if written:
            rest[0] = rest[0][written:]
    return total


def find_free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of a folder."""
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


MIN_LINGER_SECONDS = 0.2  # one object per request would make many small objects
IDLE_SECONDS = 600.0  # a writer in object storage that wrote nothing for so long never writes again


class ObjectSink:
    """Segments of one writer in object storage. They are written in order, so none exists before its predecessor."""

    def __init__(self, zone: str, s3: S3Config, clock: Callable[[], float] = time.monotonic) -> None:
        from neve.lake.storage.filesystem import resolve_filesystem  # noqa: PLC0415 - Arrow, not for the status

        self._filesystem, self._prefix = resolve_filesystem(zone, s3)
        self.writer = make_writer_name()
        self.open_bytes = 0
        self.number = 0
        self._clock = clock
        self._last_write = clock()
        self._written: list[Segment] = []
        self._lock = threading.Lock()

    def write(self, pieces: Sequence[bytes]) -> None:
        """Put one object that holds the pieces."""
        self._change_writer_if_idle()
        path = f"{self._prefix.rstrip('/')}/{self.writer}/{format_object_name(self.number)}"
        try:
            with self._filesystem.open_output_stream(path, compression=None) as stream:
                size = stream.write(b"".join([MAGIC, *pieces]))
            with self._lock:
                self._written.append(Segment(self.writer, self.number, f"s3://{path}", size))
        except OSError as error:
            # It is unknown whether the object exists. If it does, its frames were sent again by clients, and ingestion
            # removes the duplicates.
            raise RawZoneError(
                f"can't write to the raw zone {path}: {error}",
                hint="check that the storage is reachable",
                public="writing to its object storage failed",
            ) from error
        finally:
            self.number += 1  # the number is never reused
            self._last_write = self._clock()

    def _change_writer_if_idle(self) -> None:
        """Begin a new writer after a pause: the folder of the earlier one may be deleted at any moment."""
        if self._clock() - self._last_write < IDLE_SECONDS:
            return
        with self._lock:
            self.writer, self.number, self._written = make_writer_name(), 0, []

    def waiting(self, position: int) -> list[Segment]:
        """Return the segments that this sink wrote at and behind a position, and forget the others."""
        with self._lock:
            self._written = [segment for segment in self._written if segment.number >= position]
            return list(self._written)

    def tick(self) -> None:
        """Do nothing: no segment is ever open."""

    def close(self) -> None:
        """Do nothing: no segment is ever open."""
