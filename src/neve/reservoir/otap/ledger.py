"""Ledger of a target folder: the windows that were sampled, their source files and their sample files.

One document for each window, replaced as a whole. It is written before files are put in place and again after, so
that a run that was killed in between is recognized and repeated, with the same names for the same files.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs

from neve.errors import InputError
from neve.lake.storage.filesystem import resolve_filesystem
from neve.otap.writer import put_file
from neve.reservoir.otap.root_files import RootFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.lake.config import S3Config
    from neve.reservoir.windows import Window

FOLDER = "_neve/reservoir"  # hidden from readers of the tables
VERSION = 1


@dataclass(frozen=True)
class SampledWindow:
    """A window that was sampled, or that was being published when its run ended.

    `by` are the attributes that define its groups: empty if all records passed, None if only a query defines them.
    """

    start_ns: int
    seconds: int
    policy: str
    how: str
    by: tuple[str, ...] | None
    files: tuple[tuple[str, int, int], ...]
    outputs: tuple[str, ...]
    generation: int
    records: int
    kept: int
    done: bool = False

    def mark_done(self) -> SampledWindow:
        """Return the window with all its files published."""
        return replace(self, done=True)


@dataclass(frozen=True)
class Ledger:
    """Ledger of a signal in a target folder."""

    filesystem: pafs.FileSystem
    base: str
    signal: str

    @classmethod
    def of(cls, target: str, signal: str, s3: S3Config) -> Ledger:
        """Return the ledger of a target folder."""
        filesystem, base = resolve_filesystem(target.rstrip("/"), s3)
        return cls(filesystem, base, signal)

    @property
    def folder(self) -> str:
        """The folder of the documents."""
        return f"{self.base}/{FOLDER}/{self.signal}"

    def read_windows(self) -> dict[int, SampledWindow]:
        """Return the sampled windows, by their start."""
        found = self.filesystem.get_file_info(pafs.FileSelector(f"{self.folder}/windows", allow_not_found=True))
        paths = [info.path for info in found if info.path.endswith(".json")]
        with ThreadPoolExecutor(8) as readers:
            windows = list(readers.map(self._read_window, paths))
        return {one.start_ns: one for one in windows}

    def write(self, window: Window, sampled: SampledWindow) -> None:
        """Replace the document of a window."""
        self._write_document(f"windows/{window}.json", {"version": VERSION, **asdict(sampled)})

    def known_files(self, seconds: int) -> dict[tuple[str, int, int], RootFile]:
        """Return the files that were scanned before for windows of that length, with their content."""
        path = f"{self.folder}/files.json"
        if self.filesystem.get_file_info(path).type == pafs.FileType.NotFound:
            return {}
        document = self._read_document(path)
        if document["seconds"] != seconds:
            return {}
        files = [
            RootFile(**{**one, "windows": tuple(map(tuple, one["windows"])), "ids": one["ids"] and tuple(one["ids"])})
            for one in document["files"]
        ]
        return {file.identity: file for file in files}

    def remember_files(self, files: Iterable[RootFile], seconds: int) -> None:
        """Record the content of files, so that each is scanned once."""
        self._write_document(
            "files.json", {"version": VERSION, "seconds": seconds, "files": [asdict(file) for file in files]}
        )

    def _read_window(self, path: str) -> SampledWindow:
        document = self._read_document(path)
        document.pop("version")
        files = tuple((path, size, modified) for path, size, modified in document.pop("files"))
        by = document.pop("by")
        return SampledWindow(
            files=files, outputs=tuple(document.pop("outputs")), by=None if by is None else tuple(by), **document
        )

    def _read_document(self, path: str) -> dict[str, Any]:
        with self.filesystem.open_input_stream(path) as stream:
            content = stream.read()
        try:
            document: dict[str, Any] = json.loads(content)
        except ValueError as error:
            raise InputError(f"{path} is not JSON: {error}", hint="remove it: its windows are sampled again") from error
        if document.get("version") != VERSION:
            raise InputError(
                f"{path} has version {document.get('version')}, expected {VERSION}", hint="use the Neve that wrote it"
            )
        return document

    def _write_document(self, name: str, document: dict[str, Any]) -> None:
        put_file(self.filesystem, f"{self.folder}/{name}", json.dumps(document).encode())
