"""Contents of a zone: its segments, which of them are committed, which can be deleted."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.lake.storage.call_counters import CALLS, Operation
from neve.local_folders import make_private_folder
from neve.raw.object_pages import ObjectPages
from neve.raw.segment_files import sync_path
from neve.raw.segments import LOCK, StoredFile, find_free_bytes, parse_segment, recover_writers, take_lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow.fs as pafs

    from neve.lake.config import S3Config
    from neve.raw.segments import Segment

OTLP, EVENTS = "otlp", "events"
CONSUMED = "consumed.json"
BEGUN = "begun.json"

Numbers = dict[str, int]


@dataclass(frozen=True)
class RawZone:
    """A folder or prefix of segments. Can be pickled."""

    location: str
    s3: S3Config

    @classmethod
    def of(cls, location: str, s3: S3Config, name: str) -> RawZone:
        """Return one of the zones below a location."""
        root = location if "://" in location else str(Path(location).expanduser().resolve())
        return cls(f"{root.rstrip('/')}/{name}", s3)

    @property
    def is_local(self) -> bool:
        """Return whether the zone is on a disk of this machine."""
        return not self.location.startswith("s3://")

    def free_bytes(self) -> int | None:
        """Return the free bytes of the disk; None for object storage and for a folder that does not exist yet."""
        folder = Path(self.location)
        return find_free_bytes(folder) if self.is_local and folder.is_dir() else None

    def recover(self) -> list[str]:
        """Seal the open segments of dead writers, so that they can be read."""
        return recover_writers(Path(self.location)) if self.is_local else []

    def writers(self) -> set[str]:
        """List the writers that may have segments."""
        if not self.is_local:
            return set(self._pages.writers())
        folder = Path(self.location)
        with CALLS.time_call(Operation.LIST, "file"):
            return {path.name for path in folder.glob("*-*/")} if folder.is_dir() else set()

    def segments(self, since: Mapping[str, int] | None = None) -> list[Segment]:
        """List the sealed segments by writer and number, from the positions in `since` on.

        In object storage that takes a few requests for each writer, however many segments are below the positions.
        """
        start = since or {}
        if self.is_local:
            with CALLS.time_call(Operation.LIST, "file"):
                found = [segment for file in _list_local_files(self.location) if (segment := parse_segment(file))]
        else:
            found = self._pages.segments(start)
        waiting = (segment for segment in found if segment.number >= start.get(segment.writer, 0))
        return sorted(waiting, key=lambda segment: (segment.writer, segment.number))

    def read(self, path: str) -> bytes:
        """Read the bytes of a segment."""
        filesystem, inner = self._resolve(path)
        with filesystem.open_input_stream(inner, compression=None) as stream:
            data: bytes = stream.read()
            CALLS.add_bytes((Operation.GET, "file" if self.is_local else "s3"), len(data))
            return data

    def read_consumed(self) -> Numbers:
        """Read each writer's first segment number that is not in the tables yet, as the stream last recorded it.

        It is used to measure the backlog and to clean up. The positions in the tables decide which segment is read
        next.
        """
        return self._read_numbers(CONSUMED)

    def mark_consumed(self, positions: Numbers) -> None:
        """Record the positions up to which segments are in the tables."""
        self.write_document(CONSUMED, positions)

    def begin(self, segments: Iterable[Segment]) -> int:
        """Record the start of a batch of segments. Return the number of starts of the segment that started most often.

        Later batches delete the record of a successful batch. A batch that starts repeatedly has failed.
        """
        before = self._read_numbers(BEGUN)
        names = [f"{segment.writer}/{segment.number}" for segment in segments]
        begun = {name: before.get(name, 0) + 1 for name in names}
        self.write_document(BEGUN, begun)
        return max(begun.values(), default=0)

    def backlog(self) -> list[Segment]:
        """List the segments that are not in the tables yet."""
        return self.segments(self.read_consumed())

    def clean(self, keep_seconds: float) -> int:
        """Delete segments that were consumed long enough ago, and dead writers. Return the number of segments deleted.

        In object storage, segments are deleted by pages: some of them live longer.
        """
        consumed, before = self.read_consumed(), time.time() - keep_seconds
        if not self.is_local:
            return self._pages.clean(consumed, keep_seconds)
        gone = [
            segment
            for segment in self.segments()
            if segment.number < consumed.get(segment.writer, 0) and segment.modified < before
        ]
        for segment in gone:
            with suppress(FileNotFoundError), CALLS.time_call(Operation.DELETE, "file"):  # another one was faster
                os.unlink(segment.path)
        self._remove_dead_writers()
        return len(gone)

    def purge(self) -> int:
        """Delete every segment that is in the tables, whatever its age. Return the number deleted."""
        return self.clean(0) if self.is_local else self._pages.purge(self.read_consumed())

    def read_document(self, name: str) -> Any:
        """Read a JSON document of the zone. Return None if there is none, or an unreadable one."""
        try:
            return json.loads(self._read_small(f"{self.location}/{name}"))
        except (FileNotFoundError, ValueError):
            return None

    def _read_numbers(self, name: str) -> Numbers:
        numbers: Numbers = self.read_document(name) or {}
        return numbers

    @property
    def _pages(self) -> ObjectPages:
        return ObjectPages(self.location, self.s3)

    def _read_small(self, path: str) -> bytes:
        if self.is_local:
            with CALLS.time_call(Operation.GET, "file"):
                return Path(path).read_bytes()
        filesystem, inner = self._resolve(path)
        with filesystem.open_input_stream(inner) as stream:
            data: bytes = stream.read()
            return data

    def write_document(self, name: str, document: Mapping[str, Any]) -> None:
        """Replace a JSON document of the zone, durably and as a whole."""
        filesystem, inner = self._resolve(f"{self.location}/{name}")
        if self.is_local:
            make_private_folder(Path(self.location))
        written = f"{inner}.new" if self.is_local else inner  # an object is replaced atomically, a file is not
        with filesystem.open_output_stream(written) as stream:
            stream.write(json.dumps(document, sort_keys=True).encode())
        if written != inner:
            sync_path(Path(written))
            filesystem.move(written, inner)
            sync_path(Path(self.location))

    def _resolve(self, path: str) -> tuple[pafs.FileSystem, str]:
        from neve.lake.storage.filesystem import resolve_filesystem  # noqa: PLC0415 - Arrow, not for the status

        return resolve_filesystem(path, self.s3)

    def _remove_dead_writers(self) -> None:
        for folder in Path(self.location).glob("*-*/"):
            if {path.name for path in folder.iterdir()} != {LOCK}:
                continue
            lock = take_lock(folder)
            if lock is not None:
                with suppress(OSError):
                    shutil.rmtree(folder)
                os.close(lock)


def _list_local_files(folder: str) -> list[StoredFile]:
    """List the files in a folder and below it. None if there is no such folder."""
    found = []
    for above, _folders, names in os.walk(folder):
        for name in names:
            path = f"{above}/{name}"
            with suppress(FileNotFoundError):  # deleted or renamed in between
                status = os.stat(path)
                found.append(StoredFile(path, status.st_size, status.st_mtime_ns / 1e9))
    return found
