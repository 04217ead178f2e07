"""Segments in object storage, in a folder for each thousand of a writer.

A listing returns a thousand objects for each request, and a zone holds an hour of objects of every receiver. With
pages, the segments behind a position are found by a request for the zone, and two for each writer, however many objects
were ingested and wait for their removal. Segments that an earlier release stored without pages are found, too.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from neve.raw.segments import IDLE_SECONDS, StoredFile, format_page_name, parse_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow.fs as pafs

    from neve.lake.config import S3Config
    from neve.raw.segments import Segment

Found = TypeVar("Found")
THREADS = 8


@dataclass(frozen=True)
class ObjectPages:
    """The writers and pages of a zone in object storage."""

    location: str
    s3: S3Config

    def writers(self) -> list[str]:
        """List the writers that have segments."""
        folders, _files = self._list(self.location)
        return sorted(path.rsplit("/", 1)[1] for path in folders)

    def segments(self, since: Mapping[str, int]) -> list[Segment]:
        """List the segments at and behind the positions of their writers. Writers without a position are read whole."""
        found = _for_each(self.writers(), lambda writer: self._list_writer(writer, since.get(writer, 0)))
        return [segment for segments in found for segment in segments]

    def clean(self, consumed: Mapping[str, int], keep_seconds: float) -> int:
        """Delete pages below the positions that are older than `keep_seconds`. Return the number of segments deleted.

        Object storage deletes a page in one request. The page of a position is deleted with its writer, when the writer
        can't add to it any more: see `IDLE_SECONDS`. Ages are compared with the time of the storage.
        """
        folders, files = self._list(self.location)
        now = max((file.modified for file in files), default=0.0)  # the stream has just written its positions
        known = [name for path in folders if (name := path.rsplit("/", 1)[1]) in consumed]
        before, dead_before = now - keep_seconds, now - 2 * IDLE_SECONDS

        def clean_writer(writer: str) -> int:
            return self._clean_writer(writer, consumed[writer], before, min(before, dead_before))

        return sum(_for_each(known, clean_writer))

    def purge(self, consumed: Mapping[str, int]) -> int:
        """Delete every segment below the positions, whatever its age. Return the number deleted."""

        def purge_writer(writer: str) -> int:
            pages, files = self._list(f"{self.location}/{writer}")
            files += [file for page in pages for file in self._list(page)[1]]
            return self._delete_files(files, consumed[writer], float("inf"))

        return sum(_for_each([writer for writer in self.writers() if writer in consumed], purge_writer))

    def _list_writer(self, writer: str, position: int) -> list[Segment]:
        pages, files = self._list(f"{self.location}/{writer}")
        for page in pages:
            if page.rsplit("/", 1)[1] >= format_page_name(position):
                files += self._list(page)[1]
        return [found for found in _parse_all(files) if found.number >= position]

    def _clean_writer(self, writer: str, position: int, before: float, dead_before: float) -> int:
        folder = f"{self.location}/{writer}"
        pages, files = self._list(folder)
        last = _parse_all(self._list(pages[-1])[1] if pages else ())
        if last and all(segment.number < position and segment.modified < dead_before for segment in last):
            count = len(files) + len(last) + sum(len(self._list(page)[1]) for page in pages[:-1])
            self._delete_folder(folder)
            return count
        return self._delete_files(files, position, before) + self._delete_pages(pages, position, before)

    def _delete_pages(self, pages: Iterable[str], position: int, before: float) -> int:
        """Delete pages that the writer has left, the oldest first, until one has a segment that is kept."""
        gone = 0
        for page in pages:
            files = self._list(page)[1] if page.rsplit("/", 1)[1] < format_page_name(position) else []
            if not files or any(file.modified >= before for file in files):
                break
            self._delete_folder(page)
            gone += len(files)
        return gone

    def _delete_files(self, files: Iterable[StoredFile], position: int, before: float) -> int:
        old = [found for found in _parse_all(files) if found.number < position and found.modified < before]
        for segment in old:
            filesystem, inner = self._resolve(segment.path)
            with suppress(FileNotFoundError):  # another cleaner was faster
                filesystem.delete_file(inner)
        return len(old)

    def _delete_folder(self, path: str) -> None:
        filesystem, inner = self._resolve(path)
        with suppress(FileNotFoundError):
            filesystem.delete_dir(inner)

    def _list(self, folder: str) -> tuple[list[str], list[StoredFile]]:
        """List the folders and files in a folder, in the order of their names."""
        import pyarrow.fs as pafs  # noqa: PLC0415 - Arrow, not for the status

        filesystem, inner = self._resolve(folder)
        entries = filesystem.get_file_info(pafs.FileSelector(inner, allow_not_found=True))
        folders = sorted(f"s3://{entry.path}" for entry in entries if entry.type == pafs.FileType.Directory)
        files = [entry for entry in entries if entry.type == pafs.FileType.File]
        return folders, [StoredFile(f"s3://{entry.path}", entry.size, (entry.mtime_ns or 0) / 1e9) for entry in files]

    def _resolve(self, path: str) -> tuple[pafs.FileSystem, str]:
        from neve.lake.storage.filesystem import resolve_filesystem  # noqa: PLC0415 - as above

        return resolve_filesystem(path, self.s3)


def _parse_all(files: Iterable[StoredFile]) -> list[Segment]:
    return [segment for file in files if (segment := parse_segment(file))]


def _for_each(writers: Sequence[str], work: Callable[[str], Found]) -> list[Found]:
    """Do the requests of several writers at once: each waits for object storage most of the time."""
    with ThreadPoolExecutor(min(THREADS, max(1, len(writers)))) as threads:
        return list(threads.map(work, writers))
