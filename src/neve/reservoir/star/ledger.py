"""The ledger of a target folder: which windows were sampled, from which files, into which files.

A document for each window, replaced whole. It is written before files are put in place and again when they are, so
that a run that was killed in between is recognised and done again, with the same names for the same files.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs

from neve.errors import InputError
from neve.lake.filesystem import filesystem_of
from neve.otap.files import put
from neve.reservoir.star.files import RootFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.lake.config import S3Config
    from neve.reservoir.window import Window

FOLDER = "_neve/reservoir"  # hidden from whoever reads the tables
VERSION = 1


@dataclass(frozen=True)
class Sampled:
    """A window that was sampled, or that was being put in place when its run ended.

    `by` is what its groups are told by, nothing where everything passed; none where a query alone knows it.
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

    def finished(self) -> Sampled:
        """The same, with everything in place."""
        return replace(self, done=True)


@dataclass(frozen=True)
class Ledger:
    """What is written down in a target folder about a signal."""

    filesystem: pafs.FileSystem
    base: str
    signal: str

    @classmethod
    def of(cls, target: str, signal: str, s3: S3Config) -> Ledger:
        """The ledger of a target folder."""
        filesystem, base = filesystem_of(target.rstrip("/"), s3)
        return cls(filesystem, base, signal)

    @property
    def folder(self) -> str:
        """Where the documents are."""
        return f"{self.base}/{FOLDER}/{self.signal}"

    def sampled(self) -> dict[int, Sampled]:
        """The windows, by their start."""
        found = self.filesystem.get_file_info(pafs.FileSelector(f"{self.folder}/windows", allow_not_found=True))
        paths = [info.path for info in found if info.path.endswith(".json")]
        with ThreadPoolExecutor(8) as readers:
            windows = list(readers.map(self._sampled, paths))
        return {one.start_ns: one for one in windows}

    def write(self, window: Window, sampled: Sampled) -> None:
        """Replace the document of a window."""
        self._put(f"windows/{window}.json", {"version": VERSION, **asdict(sampled)})

    def known_files(self, seconds: int) -> dict[tuple[str, int, int], RootFile]:
        """Files that were looked into before for windows of that length, and what they hold."""
        path = f"{self.folder}/files.json"
        if self.filesystem.get_file_info(path).type == pafs.FileType.NotFound:
            return {}
        document = self._get(path)
        if document["seconds"] != seconds:
            return {}
        files = [
            RootFile(**{**one, "windows": tuple(map(tuple, one["windows"])), "ids": one["ids"] and tuple(one["ids"])})
            for one in document["files"]
        ]
        return {file.identity: file for file in files}

    def remember_files(self, files: Iterable[RootFile], seconds: int) -> None:
        """Write down what files hold, so that they are looked into once."""
        self._put("files.json", {"version": VERSION, "seconds": seconds, "files": [asdict(file) for file in files]})

    def _sampled(self, path: str) -> Sampled:
        document = self._get(path)
        document.pop("version")
        files = tuple((path, size, modified) for path, size, modified in document.pop("files"))
        by = document.pop("by")
        return Sampled(
            files=files, outputs=tuple(document.pop("outputs")), by=None if by is None else tuple(by), **document
        )

    def _get(self, path: str) -> dict[str, Any]:
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

    def _put(self, name: str, document: dict[str, Any]) -> None:
        put(self.filesystem, f"{self.folder}/{name}", json.dumps(document).encode())
