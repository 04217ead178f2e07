"""Forms of an answer that Arrow writes: CSV, Parquet and its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from neve.api.query.cells import with_text
from neve.query.output import distinct_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.api.query.errors import Failure
    from neve.query.statistics import Statistics

ARROW_BYTES = 1024 * 1024
ROW_GROUP_BYTES = 8 * 1024 * 1024


class Filed:
    """One answer, written into memory, which is emptied after each piece."""

    def __init__(
        self,
        open_writer: Callable[[Any, pa.Schema], Any],
        needs_text: Callable[[pa.DataType], bool] | None,
        piece_bytes: int,
        gathered_bytes: int = 0,
    ) -> None:
        self.piece_bytes = piece_bytes
        self._open_writer = open_writer
        self._needs_text = needs_text
        self._gathered_bytes = gathered_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._sink = _Sink()

    def begin(self, _query_id: str, schema: pa.Schema) -> bytes:
        """A header, where the form has one."""
        needs = self._needs_text
        if needs is not None:
            kinds = [pa.string() if needs(field.type) else field.type for field in schema]
            schema = pa.schema(list(zip(distinct_names(schema.names), kinds, strict=True)))
        self._schema = schema
        self._writer = self._open_writer(pa.PythonFile(self._sink, mode="w"), schema)
        return self._sink.taken()

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """The rows, or nothing while too few are gathered."""
        if self._needs_text is not None:
            batch = with_text(batch, self._schema, self._needs_text)
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= self._gathered_bytes:
            self._write()
        return self._sink.taken()

    def end(self, _statistics: Statistics) -> bytes:
        """A footer, where the form has one."""
        self._write()
        self._writer.close()
        return self._sink.taken()

    def fail(self, _failure: Failure) -> None:
        """A file that is cut off must not look whole."""

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
            self._waiting, self._waiting_bytes = [], 0


class _Sink:
    """A file that is only ever written to."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""

    def taken(self) -> bytes:
        """All that was written since the last time."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def csv(piece_bytes: int) -> Filed:
    """Nested values, bytes and intervals have no CSV of their own: they are text."""
    return Filed(pacsv.CSVWriter, lambda kind: _is_odd(kind) or _is_nested_or_bytes(kind), piece_bytes)


def parquet() -> Filed:
    """Small batches are gathered: a row group each would be slow to read."""
    return Filed(_open_parquet, _is_odd, ROW_GROUP_BYTES, ROW_GROUP_BYTES)


def arrow() -> Filed:
    """All as it is."""
    return Filed(pa.ipc.new_stream, None, ARROW_BYTES)


def _open_parquet(sink: Any, schema: pa.Schema) -> Any:
    return pq.ParquetWriter(sink, schema, compression="zstd")


def _is_odd(kind: pa.DataType) -> bool:
    """Whether neither CSV nor Parquet has such values."""
    return bool(pa.types.is_interval(kind) or pa.types.is_union(kind))


def _is_nested_or_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_nested(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
