"""FileIO of pyiceberg on Arrow that counts storage calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow.fs as pafs
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from neve.lake.storage.call_counters import CALLS, Operation
from neve.lake.storage.filesystem import ONE_REQUEST, open_counted_output

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import InputFile, InputStream, OutputFile, OutputStream


class CountedFile(PyArrowFile):
    """One file of a table, with counted calls."""

    @classmethod
    def of(cls, file: PyArrowFile) -> CountedFile:
        """Return the same file with counted calls."""
        return cls(file.location, file._path, file._filesystem, file._buffer_size)

    def __len__(self) -> int:
        with CALLS.time_call(Operation.HEAD, self._scheme):
            return super().__len__()

    def exists(self) -> bool:
        """Return whether the file exists."""
        with CALLS.time_call(Operation.HEAD, self._scheme):
            return super().exists()

    def open(self, seekable: bool = True) -> InputStream:
        """Open the file for reading."""
        with CALLS.time_call(Operation.GET, self._scheme):
            stream = super().open(seekable)
        if seekable:
            CALLS.add_bytes((Operation.GET, self._scheme), cast("pa.NativeFile", stream).size())
        return stream

    def create(self, overwrite: bool = False) -> OutputStream:
        """Open the file for writing."""
        opened = open_counted_output(lambda: super(CountedFile, self).create(overwrite), self._scheme)
        return cast("OutputStream", opened)

    def to_input_file(self) -> CountedFile:
        """Return the file for reading: itself."""
        return self

    @property
    def _scheme(self) -> str:
        return "file" if self._filesystem.type_name == "local" else str(self._filesystem.type_name)


class ArrowFileIO(PyArrowFileIO):
    """FileIO on Arrow with counted calls."""

    def _initialize_s3_fs(self, netloc: str | None) -> pafs.FileSystem:
        _function, (options,) = super()._initialize_s3_fs(netloc).__reduce__()
        return pafs.S3FileSystem(**{**options, **ONE_REQUEST})

    def new_input(self, location: str) -> CountedFile:
        """Return a file for reading."""
        return CountedFile.of(super().new_input(location))

    def new_output(self, location: str) -> CountedFile:
        """Return a file for writing."""
        return CountedFile.of(super().new_output(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        place = location if isinstance(location, str) else location.location
        scheme, _netloc, _path = self.parse_location(place, self.properties)
        with CALLS.time_call(Operation.DELETE, scheme):
            super().delete(location)
