"""Segments on a local disk: appended to, synced, sealed by a rename.

A writer has a folder that it locks while it lives. An open segment ends in `.open`, a sealed one in `.raw`. When the
lock can be taken the writer is dead, and what it left open is cut to its whole frames and sealed by whoever comes next.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from neve.errors import RawZoneError
from neve.lake.private_folders import make_private
from neve.lake.store_calls import CALLS, Operation
from neve.raw.frame import MAGIC, decode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OPEN, SEALED, LOCK = ".open", ".raw", ".lock"
PIECES_AT_ONCE = 512  # below every system's limit for one writev


def new_writer() -> str:
    """A name that no other writer has and that sorts by time."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


def segment_name(number: int) -> str:
    """The name of a segment, without its ending."""
    return f"{number:012d}"


class LocalSink:
    """One writer's segments."""

    def __init__(self, zone: Path, *, segment_bytes: int, segment_seconds: float, min_free_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self._segment_seconds = segment_seconds
        self._min_free_bytes = min_free_bytes
        self._folder, self._lock = _claim_folder(zone)
        self._number = 0
        self._segment: int | None = None
        self._unsealed: list[Path] = []
        self._durable = 0
        self._opened = 0.0

    @property
    def writer(self) -> str:
        """The writer's name."""
        return self._folder.name

    @property
    def open_bytes(self) -> int:
        """How many bytes are durable and in no sealed segment; read by other threads, for an estimate."""
        return self._durable if self._segment is not None else 0

    def write(self, pieces: Sequence[bytes]) -> None:
        """Append to the open segment and sync it."""
        try:
            with CALLS.timed(Operation.PUT, "file", sum(map(len, pieces))):
                self._check_room()
                segment = self._open()
                written = _write_all(segment, pieces)
                os.fdatasync(segment)
        except OSError as error:
            self._abandon()
            raise RawZoneError(
                f"can't write to the raw zone {self._folder}: {error.strerror}",
                hint="make room, or mend the disk",
                public=f"writing to its disk failed: {(error.strerror or 'unknown error').lower()}",
            ) from error
        self._durable += written
        if self._durable >= self._segment_bytes:
            self._seal(segment)

    def tick(self) -> None:
        """Seal a segment that is old, and those that could not be sealed before."""
        if self._segment is not None and time.monotonic() - self._opened >= self._segment_seconds:
            self._seal(self._segment)
        else:
            self._rename_sealed()

    def close(self) -> None:
        """Seal what is there and give the folder up; what can't be sealed is left to whoever recovers it."""
        if self._segment is not None:
            self._seal(self._segment)
        os.close(self._lock)

    def _check_room(self) -> None:
        free = free_bytes(self._folder)
        if free < self._min_free_bytes:
            raise RawZoneError(
                f"the disk of the raw zone {self._folder} has {free} bytes free, "
                f"raw.min_free_bytes is {self._min_free_bytes}",
                hint="make room; senders are told to come back later",
                public=f"its disk has {free} bytes free, raw.min_free_bytes is {self._min_free_bytes}",
            )

    def _open(self) -> int:
        if self._segment is None:
            path = self._folder / (segment_name(self._number) + OPEN)
            self._segment = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o640)
            self._opened = time.monotonic()
            self._durable = 0
            self._durable = _write_all(self._segment, [MAGIC])
            sync(self._folder)  # a file that the folder forgets was never durable
        return self._segment

    def _seal(self, segment: int) -> None:
        """End the open segment. Its frames are durable already: nothing that fails here is anyone's error."""
        with suppress(OSError):
            os.close(segment)
        self._segment = None
        self._unsealed.append(self._folder / segment_name(self._number))
        self._number += 1
        self._rename_sealed()

    def _rename_sealed(self) -> None:
        """Name segments as sealed; after a failure the next tick tries again.

        They are named in their order: a reader that has seen a segment does not look for one before it.
        """
        with suppress(OSError):
            while self._unsealed:
                path = self._unsealed[0]
                path.with_suffix(OPEN).rename(path.with_suffix(SEALED))
                del self._unsealed[0]
                sync(self._folder)

    def _abandon(self) -> None:
        """After an error the state of the file's end is unknown: keep what was synced before, go on in a new one."""
        if self._segment is None:
            return
        with suppress(OSError):
            os.ftruncate(self._segment, self._durable)
        self._seal(self._segment)


def recover(zone: Path) -> list[str]:
    """Seal what dead writers left open; the segments that were sealed, by name."""
    if not zone.is_dir():
        return []
    return [name for folder in sorted(zone.iterdir()) if folder.is_dir() for name in _recover_writer(folder)]


def _recover_writer(folder: Path) -> list[str]:
    lock = take_lock(folder)
    if lock is None:
        return []
    try:
        return [_seal_leftover(path) for path in sorted(folder.glob("*" + OPEN))]
    finally:
        os.close(lock)


def take_lock(folder: Path) -> int | None:
    """The lock of a writer's folder when nobody lives there."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return None  # still being made, or being removed
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _seal_leftover(path: Path) -> str:
    """Cut an open segment to its whole frames and seal it. What is cut off was never acknowledged."""
    whole = decode(path.read_bytes()).whole_bytes
    with path.open("r+b") as file:
        if whole == 0:
            file.write(MAGIC)
        file.truncate(max(whole, len(MAGIC)))
        os.fsync(file.fileno())
    path.rename(path.with_suffix(SEALED))
    sync(path.parent)
    return f"{path.parent.name}/{path.stem}"


def _claim_folder(zone: Path) -> tuple[Path, int]:
    """A new folder that is locked before anyone can see it."""
    new = [path for path in (zone, *zone.parents) if not path.exists()]
    make_private(zone)
    for path in new:
        sync(path.parent)
    name = new_writer()
    hidden = zone / f".{name}"
    hidden.mkdir()
    lock = os.open(hidden / LOCK, os.O_CREAT | os.O_RDWR, 0o640)
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder = hidden.rename(zone / name)
    sync(zone)
    return folder, lock


def _write_all(file: int, pieces: Sequence[bytes]) -> int:
    """Write pieces one after the other, however many calls it takes."""
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


def free_bytes(folder: Path) -> int:
    """How many bytes may still be written to the disk of a folder."""
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def sync(path: Path) -> None:
    """Make a file, or what a folder says of its files, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
