"""Result formats: JSON, JSON lines, CSV, Parquet and Arrow, each written piece by piece, and their negotiation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from neve.api.query.errors import Failure
from neve.api.query.json_values import json_columns, json_rows, with_text
from neve.query.output import distinct_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.api.query.models import Format
    from neve.query.request import Statistics


ARROW_BYTES = 1024 * 1024
ROW_GROUP_BYTES = 8 * 1024 * 1024


def split_batch(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Split a batch into pieces of about this many bytes; a row is never cut."""
    size = max(batch.nbytes, 1)
    rows = max(1, min(batch.num_rows, batch.num_rows * most_bytes // size))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


class ArrowFileWriter:
    """Writer of one result into memory, which is emptied after each piece."""

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
        """Return the header, if the format has one."""
        needs = self._needs_text
        if needs is not None:
            kinds = [pa.string() if needs(field.type) else field.type for field in schema]
            schema = pa.schema(list(zip(distinct_names(schema.names), kinds, strict=True)))
        self._schema = schema
        self._writer = self._open_writer(pa.PythonFile(self._sink, mode="w"), schema)
        return self._sink.take_bytes()

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return the rows, or nothing while too few are buffered."""
        if self._needs_text is not None:
            batch = with_text(batch, self._schema, self._needs_text)
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= self._gathered_bytes:
            self._write()
        return self._sink.take_bytes()

    def end(self, _statistics: Statistics) -> bytes:
        """Return the footer, if the format has one."""
        self._write()
        self._writer.close()
        return self._sink.take_bytes()

    def fail(self, _failure: Failure) -> None:
        """Return none: a truncated file must not look complete."""

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
            self._waiting, self._waiting_bytes = [], 0


class _Sink:
    """A write-only file in memory."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing, because writes are not buffered."""

    def close(self) -> None:
        """Do nothing, because no file is open."""

    def take_bytes(self) -> bytes:
        """Return the bytes since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def csv_writer(piece_bytes: int) -> ArrowFileWriter:
    """Return a writer of CSV; nested values, bytes and intervals become text, because CSV has no form for them."""
    return ArrowFileWriter(
        pacsv.CSVWriter, lambda kind: _is_unsupported(kind) or _is_nested_or_bytes(kind), piece_bytes
    )


def parquet_writer() -> ArrowFileWriter:
    """Return a writer of Parquet; small batches are merged, because one row group each would be slow to read."""
    return ArrowFileWriter(_open_parquet, _is_unsupported, ROW_GROUP_BYTES, ROW_GROUP_BYTES)


def arrow_writer() -> ArrowFileWriter:
    """Return a writer of Arrow, with all values unchanged."""
    return ArrowFileWriter(pa.ipc.new_stream, None, ARROW_BYTES)


def _open_parquet(sink: Any, schema: pa.Schema) -> Any:
    return pq.ParquetWriter(sink, schema, compression="zstd")


def _is_unsupported(kind: pa.DataType) -> bool:
    """Return whether neither CSV nor Parquet supports a type."""
    return bool(pa.types.is_interval(kind) or pa.types.is_union(kind))


def _is_nested_or_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_nested(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


TEXT_BYTES = 256 * 1024
MAX_EXACT_INTEGER = 2**53 - 1  # of a number in JavaScript


class ResultWriter(Protocol):
    """Writer of one result."""

    piece_bytes: int  # the preferred size of a piece

    def begin(self, query_id: str, schema: pa.Schema) -> bytes:
        """Return the bytes before the rows."""

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return the bytes of some rows."""

    def end(self, statistics: Statistics) -> bytes:
        """Return the bytes after the rows."""

    def fail(self, failure: Failure) -> bytes | None:
        """Return the end of an incomplete result; none if the format can't express that."""


class JsonWriter:
    """Writer of one JSON object; statistics come last, when they are known."""

    piece_bytes = TEXT_BYTES

    def __init__(self) -> None:
        self._comma = ""

    def begin(self, query_id: str, schema: pa.Schema) -> bytes:
        """Return the id and the columns."""
        columns = [{"name": field.name, "type": str(field.type)} for field in schema]
        return f'{{"id":{_to_json(query_id)},"columns":{_to_json(columns)},"rows":['.encode()

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return each row as a list, in the order of the columns."""
        text = self._comma + _to_json(list(json_rows(batch)))[1:-1]  # three times as fast as row by row
        self._comma = ","
        return text.encode()

    def end(self, statistics: Statistics) -> bytes:
        """Return the statistics."""
        return f'],"statistics":{_to_json(statistics.as_document())}}}\n'.encode()

    def fail(self, failure: Failure) -> bytes:
        """Return the end of a complete object with the error, so that the rows are known to be incomplete."""
        return f'],"error":{_to_json(failure.as_document)}}}\n'.encode()


class ColumnsWriter(JsonWriter):
    """Writer of one JSON object with pieces of columns: half the work for a browser, and no digit of a number is lost.

    Integers beyond 2^53, which a browser would round, are text.
    """

    def begin(self, query_id: str, schema: pa.Schema) -> bytes:
        """Return the id and the columns."""
        return super().begin(query_id, schema).removesuffix(b'"rows":[') + b'"pieces":['

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return a list of columns, each a list of values."""
        text = self._comma + _to_json([_exact_integers(values) for values in json_columns(batch)])
        self._comma = ","
        return text.encode()


def _exact_integers(values: list[Any]) -> list[Any]:
    if not any(isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER for value in values):
        return values
    return [str(value) if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER else value for value in values]


class JsonLinesWriter:
    """Writer of one JSON object a row."""

    piece_bytes = TEXT_BYTES

    def begin(self, _query_id: str, schema: pa.Schema) -> bytes:
        """Return nothing, because each line has the names."""
        names = (_to_json(name).replace("%", "%%") for name in distinct_names(schema.names))
        self._line = "{" + ",".join(f"{name}:%s" for name in names) + "}\n"
        return b""

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return a line for each row."""
        return "".join(map(self._line.__mod__, zip(*map(_to_json_texts, json_columns(batch)), strict=True))).encode()

    def end(self, _statistics: Statistics) -> bytes:
        """Return nothing."""
        return b""

    def fail(self, failure: Failure) -> bytes:
        """Return a last line with the error, which is no row."""
        return f"{_to_json({'error': failure.as_document})}\n".encode()


def build_writer(form: Format) -> ResultWriter:
    """Build the writer of one result."""
    match form:
        case "json":
            return JsonWriter()
        case "columns":
            return ColumnsWriter()
        case "jsonl":
            return JsonLinesWriter()
        case "csv":
            return csv_writer(TEXT_BYTES)
        case "parquet":
            return parquet_writer()
    return arrow_writer()


def _to_json(value: Any) -> str:
    return _ENCODER.encode(value)


def _to_json_texts(values: list[Any]) -> list[str]:
    """Return each value as JSON; flat values are converted all at once, because JSON contains no line breaks."""
    if any(isinstance(value, dict | list) for value in values):
        return [_to_json(value) for value in values]
    return _BY_LINES.encode(values)[1:-1].split("\n")


_BY_LINES = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=("\n", ":"))
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


MEDIA_TYPES: dict[Format, str] = {
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
    "columns": "application/vnd.neve.columns+json",
}


def negotiate_format(accept: str | None) -> Format:
    """Return the best format for a header; of equal preferences the first of ours.

    >>> negotiate_format(None), negotiate_format("text/html, */*;q=0.1")
    ('json', 'json')
    >>> negotiate_format("text/csv;q=0.5, application/*;q=0.2")
    'csv'
    """
    ranges = [_parse_range(part) for part in (accept or "*/*").split(",") if part.strip()] or [("*/*", 1.0)]
    best, weight = max(
        ((form, _match_weight(kind, ranges)) for form, kind in MEDIA_TYPES.items()), key=lambda one: one[1]
    )
    if weight <= 0:
        expected = ", ".join(MEDIA_TYPES.values())
        raise Failure(406, "not_acceptable", f"accept is {(accept or '')[:100]!r}, expected one of {expected}")
    return best


def _parse_range(part: str) -> tuple[str, float]:
    kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
    weight = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
    try:
        return kind, float(weight)
    except ValueError:
        return kind, 0.0


def _match_weight(kind: str, ranges: list[tuple[str, float]]) -> float:
    """Return the weight of the most specific range that matches."""
    for fitting in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        found = [weight for name, weight in ranges if name == fitting]
        if found:
            return max(found)
    return 0.0
