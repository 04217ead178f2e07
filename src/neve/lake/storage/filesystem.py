"""Local folders and object storage as Arrow file systems that count their calls, without a JVM.

The counting classes derive from Arrow's own, so type checks see the same kind of file system. Reading stays Arrow's
own: an opened file is counted, not each of its reads, which would take the interpreter's lock. A written file is
closed through Python, because storage confirms it only when it is closed.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.fs as pafs

from neve.lake.storage.call_counters import CALLS, Operation
from neve.lake.storage.paths import S3_SCHEMES, strip_scheme

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lake.config import S3Config


# A small object is one request. Otherwise Arrow begins an upload in parts when it opens a file, which makes three.
ONE_REQUEST = {"allow_delayed_open": True}


class CountedSink:
    """A file that is being written. It counts as one call, which ends at `close`."""

    def __init__(self, stream: pa.NativeFile, scheme: str, seconds: float) -> None:
        self.stream = stream
        self._scheme = scheme
        self._seconds = seconds
        self._failed = False

    @property
    def closed(self) -> bool:
        """Return whether the file is closed."""
        return bool(self.stream.closed)

    def write(self, data: Any) -> int:
        """Write bytes."""
        started, failed = time.perf_counter(), True
        try:
            size = int(self.stream.write(data))
            failed = False
        finally:
            self._seconds += time.perf_counter() - started
            self._failed |= failed
        return size

    def flush(self) -> None:
        """Flush buffered bytes."""
        self.stream.flush()

    def close(self) -> None:
        """Close the file."""
        if self.closed:
            return
        size, started, failed = self.stream.tell(), time.perf_counter(), True
        try:
            self.stream.close()
            failed = False
        finally:
            seconds = self._seconds + time.perf_counter() - started
            CALLS.count((Operation.PUT, self._scheme), seconds, size, failed=failed or self._failed)


class CountedOutput(pa.PythonFile):  # type: ignore[misc] # Arrow has no types
    """A counted file for Arrow's writers."""

    def __init__(self, sink: CountedSink, mode: str) -> None:
        super().__init__()
        self.direct = sink.stream

    def tell(self) -> int:
        """Return the number of bytes written, directly or through the unwrapped stream."""
        return int(self.direct.tell())


def unwrap_output(output: Any) -> Any:
    """Return the stream below a counted one, for a writer of many pieces, because Python would copy each of them.

    The counted stream must be closed, not this one.
    """
    return output.direct if isinstance(output, CountedOutput) else output


def open_counted_output(open_stream: Callable[[], pa.NativeFile], scheme: str) -> pa.NativeFile:
    """Open an output stream and count its writes. A stream that can't be opened counts as a failed call."""
    started = time.perf_counter()
    try:
        stream = open_stream()
    except Exception:
        CALLS.count((Operation.PUT, scheme), time.perf_counter() - started, failed=True)
        raise
    return CountedOutput(CountedSink(stream, scheme, time.perf_counter() - started), "w")


class _CountedFileSystem:
    """Counted versions of the methods of Arrow's file systems that Neve calls."""

    scheme: str

    def get_file_info(self, paths_or_selector: Any) -> Any:
        """Return the info of paths, or list a folder."""
        lists = isinstance(paths_or_selector, pafs.FileSelector)
        with CALLS.time_call(Operation.LIST if lists else Operation.HEAD, self.scheme):
            return self._arrow.get_file_info(paths_or_selector)

    def open_input_file(self, path: Any) -> pa.NativeFile:
        """Open a file for random access."""
        with CALLS.time_call(Operation.GET, self.scheme):
            opened = self._arrow.open_input_file(path)
        CALLS.add_bytes((Operation.GET, self.scheme), opened.size())
        return opened

    def open_input_stream(self, path: Any, *options: Any, **named: Any) -> pa.NativeFile:
        """Open a file for sequential reading."""
        with CALLS.time_call(Operation.GET, self.scheme):
            return self._arrow.open_input_stream(path, *options, **named)

    def open_output_stream(self, path: Any, *options: Any, **named: Any) -> pa.NativeFile:
        """Open a file for writing."""
        return open_counted_output(lambda: self._arrow.open_output_stream(path, *options, **named), self.scheme)

    def move(self, src: Any, dest: Any) -> None:
        """Rename a file. Object storage copies it."""
        with CALLS.time_call(Operation.PUT, self.scheme):
            self._arrow.move(src, dest)

    def delete_file(self, path: Any) -> None:
        """Delete a file."""
        with CALLS.time_call(Operation.DELETE, self.scheme):
            self._arrow.delete_file(path)

    def delete_dir(self, path: Any) -> None:
        """Delete a folder with its content."""
        with CALLS.time_call(Operation.DELETE, self.scheme):
            self._arrow.delete_dir(path)

    def delete_dir_contents(self, path: Any, **named: Any) -> None:
        """Delete the content of a folder."""
        with CALLS.time_call(Operation.DELETE, self.scheme):
            self._arrow.delete_dir_contents(path, **named)

    @property
    def _arrow(self) -> Any:
        """The methods of the base class."""
        return cast("Any", super())


class CountedLocal(_CountedFileSystem, pafs.LocalFileSystem):  # type: ignore[misc] # Arrow has no types
    """File system of this machine."""

    scheme = "file"

    def __reduce__(self) -> Any:
        return CountedLocal, ()


class CountedS3(_CountedFileSystem, pafs.S3FileSystem):  # type: ignore[misc] # Arrow has no types
    """Object storage."""

    scheme = "s3"

    def __reduce__(self) -> Any:
        _function, (options,) = super().__reduce__()
        return partial(CountedS3, **options), ()


def resolve_filesystem(path: str, s3: S3Config) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a path, and the path inside it. Schemes of Spark and Hadoop are accepted, too."""
    scheme, colon, rest = path.partition("://")
    if not colon or scheme not in S3_SCHEMES:
        return CountedLocal(), f"/{strip_scheme(path)}" if path.startswith("file:") else path
    options = {
        "endpoint_override": s3.endpoint,
        "region": s3.region,
        "access_key": s3.access_key,
        "secret_key": s3.secret_key.get_secret_value(),
        "force_virtual_addressing": not s3.path_style,
        **ONE_REQUEST,
    }
    return CountedS3(**{key: value for key, value in options.items() if value}), rest
