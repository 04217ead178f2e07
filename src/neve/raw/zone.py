"""What is in a zone: its segments, which of them were committed, which can go."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from neve.lake.filesystem import filesystem_of
from neve.lake.private_folders import make_private
from neve.lake.store_calls import CALLS, Operation
from neve.raw.local import LOCK, OPEN, SEALED, free_bytes, recover, sync, take_lock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.lake.config import S3Config

OTLP, EVENTS = "otlp", "events"
CONSUMED = "consumed.json"
BEGUN = "begun.json"

Numbers = dict[str, int]


@dataclass(frozen=True)
class Segment:
    """A sealed segment: where it stands in its writer's row, and where it is kept."""

    writer: str
    number: int
    path: str
    size: int
    modified: float = 0.0


@dataclass(frozen=True)
class RawZone:
    """A folder or prefix of segments. It pickles."""

    location: str
    s3: S3Config

    @classmethod
    def of(cls, location: str, s3: S3Config, name: str) -> RawZone:
        """One of the zones below a location."""
        root = location if "://" in location else str(Path(location).expanduser().resolve())
        return cls(f"{root.rstrip('/')}/{name}", s3)

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk of this machine."""
        return not self.location.startswith("s3://")

    def free_bytes(self) -> int | None:
        """How many bytes its disk has free; nobody knows of object storage, and of a folder that is not there yet."""
        folder = Path(self.location)
        return free_bytes(folder) if self.is_local and folder.is_dir() else None

    def recover(self) -> list[str]:
        """Seal what dead writers left open, so that it can be read."""
        return recover(Path(self.location)) if self.is_local else []

    def segments(self) -> list[Segment]:
        """Every sealed segment, by writer and number."""
        found = (_segment(entry, self._scheme) for entry in self._entries() if entry.path.endswith(SEALED))
        return sorted((segment for segment in found if segment), key=lambda segment: (segment.writer, segment.number))

    def read(self, path: str) -> bytes:
        """The bytes of a segment."""
        filesystem, inner = filesystem_of(path, self.s3)
        with filesystem.open_input_stream(inner, compression=None) as stream:
            data: bytes = stream.read()
            CALLS.add_bytes((Operation.GET, "file" if self.is_local else "s3"), len(data))
            return data

    def consumed(self) -> Numbers:
        """The number of each writer's first segment that is not in the tables yet, as the stream last wrote it down.

        It is for measuring the backlog and for cleaning up; what decides what is read next are the tables.
        """
        return self._read_numbers(CONSUMED)

    def mark_consumed(self, positions: Numbers) -> None:
        """Write down how far the tables are."""
        self._write_numbers(CONSUMED, positions)

    def begin(self, segments: Iterable[Segment]) -> int:
        """Write down that a batch of segments begins; how often one of them has begun by now.

        A batch that succeeds is followed by others, which forget it. One that is begun again and again has failed.
        """
        before = self._read_numbers(BEGUN)
        names = [f"{segment.writer}/{segment.number}" for segment in segments]
        begun = {name: before.get(name, 0) + 1 for name in names}
        self._write_numbers(BEGUN, begun)
        return max(begun.values(), default=0)

    def backlog(self) -> list[Segment]:
        """The segments that are not in the tables yet."""
        consumed = self.consumed()
        return [segment for segment in self.segments() if segment.number >= consumed.get(segment.writer, 0)]

    def clean(self, keep_seconds: float) -> int:
        """Remove segments that were consumed long enough ago, and dead writers that have none left; how many went."""
        consumed, before = self.consumed(), time.time() - keep_seconds
        gone = [
            segment
            for segment in self.segments()
            if segment.number < consumed.get(segment.writer, 0) and segment.modified < before
        ]
        self._remove(gone)
        if self.is_local:
            self._remove_dead_writers()
        return len(gone)

    @property
    def _scheme(self) -> str:
        return "" if self.is_local else "s3://"

    def _read_numbers(self, name: str) -> Numbers:
        filesystem, inner = filesystem_of(f"{self.location}/{name}", self.s3)
        try:
            with filesystem.open_input_stream(inner) as stream:
                numbers: Numbers = json.loads(stream.read())
        except (FileNotFoundError, ValueError):
            return {}
        return numbers

    def _write_numbers(self, name: str, numbers: Numbers) -> None:
        filesystem, inner = filesystem_of(f"{self.location}/{name}", self.s3)
        if self.is_local:
            make_private(Path(self.location))
        written = f"{inner}.new" if self.is_local else inner  # an object is replaced as a whole, a file is not
        with filesystem.open_output_stream(written) as stream:
            stream.write(json.dumps(numbers, sort_keys=True).encode())
        if written != inner:
            sync(Path(written))
            filesystem.move(written, inner)
            sync(Path(self.location))

    def _entries(self) -> list[pafs.FileInfo]:
        filesystem, inner = filesystem_of(self.location, self.s3)
        selector = pafs.FileSelector(inner, recursive=True, allow_not_found=True)
        return [entry for entry in filesystem.get_file_info(selector) if entry.type == pafs.FileType.File]

    def _remove(self, segments: Iterable[Segment]) -> None:
        for segment in segments:
            filesystem, inner = filesystem_of(segment.path, self.s3)
            with suppress(FileNotFoundError):  # another cleaner was quicker
                filesystem.delete_file(inner)

    def _remove_dead_writers(self) -> None:
        for folder in Path(self.location).glob("*-*/"):
            if {path.name for path in folder.iterdir()} != {LOCK}:
                continue
            lock = take_lock(folder)
            if lock is not None:
                with suppress(OSError):
                    shutil.rmtree(folder)
                os.close(lock)


def _segment(entry: pafs.FileInfo, scheme: str) -> Segment | None:
    *_above, writer, name = entry.path.split("/")
    number = name.removesuffix(SEALED)
    if writer.startswith(".") or not number.isdecimal() or name.endswith(OPEN):
        return None
    return Segment(writer, int(number), scheme + entry.path, entry.size, (entry.mtime_ns or 0) / 1e9)
