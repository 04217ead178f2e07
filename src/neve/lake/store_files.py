"""Arrow's file systems, which count what is asked of them.

They are the classes that they count for, so that whoever asks which kind a file system is, is told the same. Reading
stays Arrow's own: a file that is opened is counted, not each of its reads, which would take the interpreter's lock. A
file that is written is closed through Python, because its end is when storage answers.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.fs as pafs

from neve.lake.store_calls import CALLS, Operation

if TYPE_CHECKING:
    from collections.abc import Callable


class CountedSink:
    """A file that is being written; it counts as one call, which ends when it is closed."""

    def __init__(self, stream: pa.NativeFile, scheme: str, seconds: float) -> None:
        self.stream = stream
        self._scheme = scheme
        self._seconds = seconds
        self._failed = False

    @property
    def closed(self) -> bool:
        """Whether it is at its end."""
        return bool(self.stream.closed)

    def write(self, data: Any) -> int:
        """Add bytes."""
        started, failed = time.perf_counter(), True
        try:
            size = int(self.stream.write(data))
            failed = False
        finally:
            self._seconds += time.perf_counter() - started
            self._failed |= failed
        return size

    def flush(self) -> None:
        """Hand on what is held back."""
        self.stream.flush()

    def close(self) -> None:
        """End the file."""
        if self.closed:
            return
        size, started, failed = self.stream.tell(), time.perf_counter(), True
        try:
            self.stream.close()
            failed = False
        finally:
            seconds = self._seconds + time.perf_counter() - started
            CALLS.count((Operation.PUT, self._scheme), seconds, size, failed=failed or self._failed)


class CountedOutput(pa.PythonFile):  # type: ignore[misc] # Arrow tells no types
    """A counted file as Arrow's writers take it."""

    def __init__(self, sink: CountedSink, mode: str) -> None:
        super().__init__()
        self.direct = sink.stream

    def tell(self) -> int:
        """How much was written, in whichever way."""
        return int(self.direct.tell())


def direct(output: Any) -> Any:
    """The stream below a counted one, for a writer of many pieces, each of which Python would copy.

    It is the counted one that is closed.
    """
    return output.direct if isinstance(output, CountedOutput) else output


def counted_output(open_stream: Callable[[], pa.NativeFile], scheme: str) -> pa.NativeFile:
    """The stream that is opened, whose writing is counted; one that can't be opened is a call that failed."""
    started = time.perf_counter()
    try:
        stream = open_stream()
    except Exception:
        CALLS.count((Operation.PUT, scheme), time.perf_counter() - started, failed=True)
        raise
    return CountedOutput(CountedSink(stream, scheme, time.perf_counter() - started), "w")


class _Counted:
    """What both file systems count; the methods of Arrow that Neve calls."""

    scheme: str

    def get_file_info(self, paths_or_selector: Any) -> Any:
        """Look at paths, or list what is below one."""
        lists = isinstance(paths_or_selector, pafs.FileSelector)
        with CALLS.timed(Operation.LIST if lists else Operation.HEAD, self.scheme):
            return self._arrow.get_file_info(paths_or_selector)

    def open_input_file(self, path: Any) -> pa.NativeFile:
        """Open a file that is read at any place."""
        with CALLS.timed(Operation.GET, self.scheme):
            opened = self._arrow.open_input_file(path)
        CALLS.add_bytes((Operation.GET, self.scheme), opened.size())
        return opened

    def open_input_stream(self, path: Any, *options: Any, **named: Any) -> pa.NativeFile:
        """Open a file that is read from its beginning."""
        with CALLS.timed(Operation.GET, self.scheme):
            return self._arrow.open_input_stream(path, *options, **named)

    def open_output_stream(self, path: Any, *options: Any, **named: Any) -> pa.NativeFile:
        """Open a file that is written."""
        return counted_output(lambda: self._arrow.open_output_stream(path, *options, **named), self.scheme)

    def move(self, src: Any, dest: Any) -> None:
        """Give a file another name; storage copies it for that."""
        with CALLS.timed(Operation.PUT, self.scheme):
            self._arrow.move(src, dest)

    def delete_file(self, path: Any) -> None:
        """Remove a file."""
        with CALLS.timed(Operation.DELETE, self.scheme):
            self._arrow.delete_file(path)

    def delete_dir(self, path: Any) -> None:
        """Remove a folder with all that is in it."""
        with CALLS.timed(Operation.DELETE, self.scheme):
            self._arrow.delete_dir(path)

    def delete_dir_contents(self, path: Any, **named: Any) -> None:
        """Remove all that is in a folder."""
        with CALLS.timed(Operation.DELETE, self.scheme):
            self._arrow.delete_dir_contents(path, **named)

    @property
    def _arrow(self) -> Any:
        """The methods of the class that is counted for."""
        return cast("Any", super())


class CountedLocal(_Counted, pafs.LocalFileSystem):  # type: ignore[misc] # Arrow tells no types
    """Folders of this machine."""

    scheme = "file"

    def __reduce__(self) -> Any:
        return CountedLocal, ()


class CountedS3(_Counted, pafs.S3FileSystem):  # type: ignore[misc] # Arrow tells no types
    """Object storage."""

    scheme = "s3"

    def __reduce__(self) -> Any:
        _function, (options,) = super().__reduce__()
        return partial(CountedS3, **options), ()
