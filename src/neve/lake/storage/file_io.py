"""FileIO of tables for pyiceberg, with counted calls.

Python itself reads the metadata and the manifests of tables on this machine. Everything else is left to Arrow, which
takes 0.2 CPU seconds to import.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.io import FileIO, InputFile

from neve.lake.storage.call_counters import CALLS, Operation

if TYPE_CHECKING:
    from pyiceberg.io import InputStream, OutputFile

    from neve.lake.storage.arrow_file_io import ArrowFileIO

METADATA_SUFFIXES = (".json", ".avro")
LOCAL = "file"


class LocalFile(InputFile):
    """A file on this machine, for reading."""

    def __init__(self, location: str, path: str) -> None:
        super().__init__(location)
        self._path = path

    def __len__(self) -> int:
        with CALLS.time_call(Operation.HEAD, LOCAL):
            return os.stat(self._path).st_size

    def exists(self) -> bool:
        """Return whether the file exists."""
        with CALLS.time_call(Operation.HEAD, LOCAL):
            return os.path.isfile(self._path)

    def open(self, seekable: bool = True) -> InputStream:
        """Open the file."""
        del seekable  # every local file is
        with CALLS.time_call(Operation.GET, LOCAL):
            stream = open(self._path, "rb")  # noqa: SIM115 - the caller closes it
        CALLS.add_bytes((Operation.GET, LOCAL), os.fstat(stream.fileno()).st_size)
        return stream


class CountedFileIO(FileIO):
    """FileIO of tables."""

    @cached_property
    def arrow(self) -> ArrowFileIO:
        """The FileIO on Arrow."""
        from neve.lake.storage.arrow_file_io import ArrowFileIO  # noqa: PLC0415 - not for readers of metadata

        return ArrowFileIO(self.properties)

    def new_input(self, location: str) -> InputFile:
        """Return a file for reading."""
        path = find_local_metadata(location)
        return LocalFile(location, path) if path else self.arrow.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """Return a file for writing."""
        return self.arrow.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        self.arrow.delete(location)


def find_local_metadata(location: str) -> str | None:
    """Return the path of a metadata file or a manifest on this machine, or `None` for any other file.

    >>> find_local_metadata("file:///lake/a.avro"), find_local_metadata("/lake/a.metadata.json")
    ('/lake/a.avro', '/lake/a.metadata.json')
    >>> [find_local_metadata(place) for place in ("s3://lake/a.avro", "file:///lake/a.parquet", "a.avro")]
    [None, None, None]
    """
    path = location.removeprefix("file://") if location.startswith("file:///") else location
    return path if path.startswith("/") and path.endswith(METADATA_SUFFIXES) else None
