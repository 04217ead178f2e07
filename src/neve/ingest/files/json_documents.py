"""Read generic files (JSON lines, CSV, Parquet) as JSON documents, one per record."""

from __future__ import annotations

import codecs
import csv
import io
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from neve.errors import FileTooLarge, InputError
from neve.ingest.files.foreign_schemas import fold_name
from neve.ingest.files.formats import Format
from neve.ingest.files.json_text import spans_lines, split_documents
from neve.ingest.files.sql_values import NANOS, SPAN_ID_BYTES, TRACE_ID_BYTES, TYPED_TIME
from neve.lake.duckdb import quote_literal
from neve.otlp import Rejected
from neve.otlp.columns import relist
from neve.otlp.values import MAX_LEVELS

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_UNPACKED_BYTES = 1024 * 1024 * 1024
ROWS_AT_ONCE = 4096  # of a Parquet file
PARQUET_SHARE = 4  # its rows are in memory as columns, as JSON and as messages at the same time
DEEPEST = MAX_LEVELS + 1  # the record itself, and the levels of a value
TEXT_TYPES = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
CHECKED_BYTES = 1024 * 1024  # of UTF-8 that are validated at once
STRINGS, BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL), re.compile(r"[\[\]{}]")
ERRORS = (duckdb.Error, UnicodeDecodeError)  # DuckDB may truncate an error message inside a character
ID_WIDTHS = {
    "traceid": TRACE_ID_BYTES,
    "spanid": SPAN_ID_BYTES,
    "parentspanid": SPAN_ID_BYTES,
    "parentid": SPAN_ID_BYTES,
}
HEADER_AND_ONE = 2  # pyarrow counts lines from 1 and the header with them
MAX_KEY_LISTS = 256  # sets of keys of the records of one file; with more, records are searched one by one
BLANK = b" \t\n\r\x0b\x0c"
OBJECTS = "SELECT CASE WHEN json_valid(line) THEN json_type(line) = 'OBJECT' END FROM given_lines"
# Only a map that is made from entries is checked for duplicate keys.
ALL_MAPS = "SELECT sum(cardinality(map_from_entries(map_entries(line::JSON::MAP(VARCHAR, JSON))))) FROM given_lines"
KEY_LISTS = f"SELECT DISTINCT json_keys(line) FROM given_lines LIMIT {MAX_KEY_LISTS + 1}"  # noqa: S608 - constant
ELEMENTS = """
SELECT place, unnest(CASE WHEN json_valid(line) AND json_type(line) = 'ARRAY'
  THEN from_json(line, '["JSON"]')::VARCHAR[] ELSE [line] END) FROM given_lines"""
EACH_KEY_ONCE = """
SELECT CASE WHEN json_valid(line) THEN
  json_type(line) = 'OBJECT' AND len(json_keys(line)) = len(list_distinct(json_keys(line)))
END FROM given_lines"""


@dataclass(frozen=True)
class JsonDocuments:
    """JSON texts with their positions in the file, and the records that could not be read.

    `key_lists` are the different lists of keys of the records, each in its order, if there are few and no key is twice.
    """

    texts: pa.StringArray
    positions: pa.Int64Array
    rejected: tuple[Rejected, ...] = ()
    key_lists: tuple[tuple[str, ...], ...] = ()

    def reject(self, reasons: Mapping[int, str]) -> JsonDocuments:
        """Reject the documents at some positions of the file, each with its reason."""
        positions = self.positions.to_pylist()
        keep = pa.array([position not in reasons for position in positions], pa.bool_())
        rejected = tuple(
            Rejected("malformed_line", reasons[position], position, self.texts[row].as_py().encode(), Format.JSON_LINES)
            for row, position in enumerate(positions)
            if position in reasons
        )
        return JsonDocuments(self.texts.filter(keep), self.positions.filter(keep), (*self.rejected, *rejected))

    def get_document(self, row: int, _engine: duckdb.DuckDBPyConnection) -> str:
        """Return the text of one document."""
        text: str = self.texts[row].as_py()
        return text


def check_size(size: int, most: int, share: int = 1) -> None:
    """Raise `FileTooLarge` for content that is larger than its share of the limit on unpacked bytes."""
    if size > most // share:
        setting = "ingest.max_unpacked_bytes" if share == 1 else f"ingest.max_unpacked_bytes divided by {share}"
        raise FileTooLarge(
            f"its content is larger than {most // share} bytes, which is {setting}",
            hint="split the file, or raise the setting if the workers have the memory",
        )


def read_documents(
    form: Format, data: bytes, engine: duckdb.DuckDBPyConnection, most: int = MAX_UNPACKED_BYTES
) -> JsonDocuments:
    """Return the records of a generic file. Raises `InputError` if the file as a whole can't be read."""
    if form is Format.JSON_LINES:
        return _read_json_lines(data, engine)
    rows = read_csv_rows(data, most) if form is Format.CSV else TableRows.of(_read_parquet(data, most), (), most)
    return rows.to_documents(engine)


@dataclass(frozen=True)
class TableRows:
    """Rows of a file of columns, with their positions in it, and the rows that could not be read."""

    table: pa.Table
    positions: pa.Int64Array
    rejected: tuple[Rejected, ...]

    @classmethod
    def of(cls, table: pa.Table, rejected: tuple[Rejected, ...], most: int) -> TableRows:
        """Return the rows of a table. Raises `FileTooLarge` if they are too large as documents."""
        # Every record repeats the names of its columns.
        check_size(table.nbytes + table.num_rows * sum(len(name) for name in table.column_names), most)
        bad = [row.message for row in rejected]
        positions = np.setdiff1d(np.arange(table.num_rows + len(bad)), bad)
        return cls(table, pa.array(positions), rejected)

    def to_documents(self, engine: duckdb.DuckDBPyConnection) -> JsonDocuments:
        """Return the rows as JSON objects."""
        if self.table.num_columns == 0 or self.table.num_rows == 0:
            return JsonDocuments(pa.array([], pa.string()), pa.array([], pa.int64()), self.rejected)
        return JsonDocuments(_as_json(self.table, engine), self.positions, self.rejected)

    def get_document(self, row: int, engine: duckdb.DuckDBPyConnection) -> str:
        """Return one row as a JSON object."""
        text: str = _as_json(self.table.slice(row, 1), engine)[0].as_py()
        return text


def read_csv_rows(data: bytes, most: int = MAX_UNPACKED_BYTES) -> TableRows:
    """Return the rows of a CSV file. Raises `InputError` if the file as a whole can't be read."""
    return TableRows.of(*_read_csv(data), most)


def _as_json(table: pa.Table, engine: duckdb.DuckDBPyConnection) -> pa.StringArray:
    """Return every row as a JSON object.

    Columns are numbered, because DuckDB treats `Time` and `time` as the same name.
    """
    numbered = [f"c{number}" for number in range(table.num_columns)]
    pairs = ", ".join(
        f"{quote_literal(name)}, {column}" for name, column in zip(table.column_names, numbered, strict=True)
    )
    try:
        engine.register("given_rows", table.rename_columns(numbered))
        return _query_column(engine, f"SELECT json_object({pairs}) FROM given_rows")  # noqa: S608 - names are literals
    except ERRORS as error:
        raise InputError(f"a column has no JSON form: {str(error).splitlines()[0]}") from error


def _read_json_lines(data: bytes, engine: duckdb.DuckDBPyConnection) -> JsonDocuments:
    if spans_lines(data):
        return _read_spanning(data, engine)
    return _check_lines(*_split_lines(data), engine)


def _split_lines(data: bytes) -> tuple[pa.BinaryArray, pa.Int64Array]:
    """Return the lines that are not blank, with their numbers from 0."""
    octets = np.frombuffer(data, dtype=np.uint8)
    ends = np.append(np.flatnonzero(octets == ord("\n")), len(data))
    starts = np.concatenate(([0], ends[:-1] + 1))
    first = octets[np.minimum(starts, len(data) - 1)] if len(data) else np.zeros(1, dtype=np.uint8)
    doubtful = np.flatnonzero((starts == ends) | np.isin(first, list(BLANK)))
    blank = [at for at in doubtful.tolist() if not data[starts[at] : ends[at]].strip(BLANK)]
    places = np.delete(np.arange(len(ends)), blank)
    # Lines and line ends are neighbours in the data, so that both are values over the same bytes.
    offsets = np.column_stack((starts, ends)).astype(np.int32).ravel()
    both = pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)]
    )
    return both.take(pa.array(places * 2)), pa.array(places, pa.int64())


def _read_spanning(data: bytes, engine: duckdb.DuckDBPyConnection) -> JsonDocuments:
    """Read documents that span lines. The elements of a list are documents of their own."""
    found = split_documents(data)
    texts, places = pa.array(found.texts, pa.string()), pa.array(found.lines, pa.int64())
    engine.register("given_lines", pa.table({"line": texts, "place": places}))
    rows = engine.execute(ELEMENTS).fetchall()
    lines = pa.array([text.encode() for _at, text in rows], pa.binary())
    documents = _check_lines(lines, pa.array([at for at, _text in rows], pa.int64()), engine)
    return replace(documents, rejected=(*found.rejected, *documents.rejected))


def _check_lines(lines: pa.BinaryArray, positions: pa.Int64Array, engine: duckdb.DuckDBPyConnection) -> JsonDocuments:
    """Return the lines that are objects with unique keys, and reject the others."""
    texts = _decode_lines(lines)
    engine.register("given_lines", pa.table({"line": texts}))
    is_object = pc.fill_null(_query_column(engine, OBJECTS), False)
    key_lists = _list_keys(engine) if pc.all(is_object, min_count=0).as_py() else ()
    if key_lists:
        return JsonDocuments(texts, positions, key_lists=key_lists)
    if not _have_unique_keys(engine):  # the lines with duplicate keys are searched only if there are any
        is_object = pc.fill_null(_query_column(engine, EACH_KEY_ONCE), False)
    if pc.all(is_object, min_count=0).as_py():
        return JsonDocuments(texts, positions)
    detail = "the line is not a JSON object with each key once"
    rejected = tuple(
        Rejected("malformed_line", detail, positions[row].as_py(), lines[row].as_py(), Format.JSON_LINES)
        for row in np.flatnonzero(~is_object.to_numpy(zero_copy_only=False)).tolist()
    )
    texts = texts.filter(is_object)
    engine.register("given_lines", pa.table({"line": texts}))
    return JsonDocuments(texts, positions.filter(is_object), rejected, _list_keys(engine))


def _decode_lines(lines: pa.BinaryArray) -> pa.StringArray:
    """Return lines as texts. Bytes that are not UTF-8 are replaced."""
    try:
        return lines.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([line.decode(errors="replace") for line in lines.to_pylist()], pa.string())


def _list_keys(engine: duckdb.DuckDBPyConnection) -> tuple[tuple[str, ...], ...]:
    """Return the different lists of keys of lines that are objects; none if there are many, or one has a key twice."""
    found = [tuple(keys) for (keys,) in engine.execute(KEY_LISTS).fetchall()]
    is_few = len(found) <= MAX_KEY_LISTS and all(len(set(keys)) == len(keys) for keys in found)
    return tuple(sorted(found)) if is_few else ()


def _have_unique_keys(engine: duckdb.DuckDBPyConnection) -> bool:
    try:
        engine.execute(ALL_MAPS).fetchall()
    except ERRORS:
        return False
    return True


def reject_deep_documents(documents: JsonDocuments) -> JsonDocuments:
    """Return the records within the nesting limit of the wire format. Reject the others one by one."""
    texts = documents.texts
    brackets = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    suspects = np.flatnonzero(pc.greater(brackets, DEEPEST).to_numpy(zero_copy_only=False)).tolist()
    deep = {
        documents.positions[row].as_py(): f"the record is nested {levels} levels deep, expected {DEEPEST} at most"
        for row in suspects
        if (levels := _measure_depth(texts[row].as_py())) > DEEPEST
    }
    return documents.reject(deep) if deep else documents


def _measure_depth(text: str) -> int:
    """Return the nesting depth of JSON.

    >>> _measure_depth('{"a": [1, "[[[", {}]}')
    3
    """
    steps = (1 if bracket in "[{" else -1 for bracket in BRACKETS.findall(STRINGS.sub("", text)))
    return max(accumulate(steps), default=0)


def _read_csv_header(data: bytes) -> list[str]:
    """Return the column names of a CSV file."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), CHECKED_BYTES):
            decoder.decode(data[start : start + CHECKED_BYTES])
        decoder.decode(b"", final=True)
        return next(csv.reader(io.StringIO(data.split(b"\n", 1)[0].decode())), [])
    except UnicodeDecodeError as error:
        raise InputError(f"not a CSV file in UTF-8: {error}") from error
    except csv.Error as error:
        raise InputError(f"not a CSV file with a header: {error}") from error


def _read_csv(data: bytes) -> tuple[pa.Table, tuple[Rejected, ...]]:
    header = _read_csv_header(data)
    if len(set(header)) != len(header) or not all(header):
        raise InputError(f"the first line of a CSV file must name each column once, got {header!r}")
    rejected: list[Rejected] = []

    def skip(row: pacsv.InvalidRow) -> str:
        detail = f"the line has {row.actual_columns} columns, expected {row.expected_columns}"
        rejected.append(
            Rejected(
                "malformed_line",
                detail,
                (row.number or HEADER_AND_ONE) - HEADER_AND_ONE,
                (row.text or "").encode(),
                Format.CSV,
            )
        )
        return "skip"

    try:
        table = pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(use_threads=False),  # lines are numbered only in this case
            parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
    except pa.ArrowInvalid as error:
        raise InputError(f"not a CSV file with a header: {error}") from error
    return table, tuple(rejected)


def _read_parquet(data: bytes, most: int) -> pa.Table:
    """Read the rows of a Parquet file piece by piece. A repeated value is small in the file and large in memory."""
    try:
        with _open_parquet(data) as file:
            schema, texts = file.schema_arrow, _text_columns(file)
            for group in range(file.num_row_groups):
                # Metadata of single columns is not read: Arrow ends the process if it is malformed.
                check_size(file.metadata.row_group(group).total_byte_size, most)
        with _open_parquet(data, read_dictionary=texts) as file:
            pieces, size = [], 0
            for piece in file.iter_batches(ROWS_AT_ONCE):
                size += sum(map(_plain_bytes, piece.columns))
                check_size(size, most, PARQUET_SHARE)
                pieces.append(pa.Table.from_batches([piece]).cast(schema))
            table = pa.concat_tables(pieces) if pieces else schema.empty_table()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # column names may be any bytes
        raise InputError(f"not a Parquet file: {error}") from error
    return pa.table({name: _to_json_values(name, table.column(name)) for name in table.column_names})


def _open_parquet(data: bytes, **options: Any) -> pq.ParquetFile:
    """Open a file. No list or text of its metadata has more entries than the file has bytes, whatever it declares."""
    most = max(1, len(data))
    return pq.ParquetFile(
        pa.BufferReader(data), thrift_string_size_limit=most, thrift_container_size_limit=most, **options
    )


def _text_columns(file: pq.ParquetFile) -> list[str]:
    """Return the columns of texts and bytes. With a dictionary, thousands of rows with one large value are small.

    Arrow can't read a dictionary inside of lists and objects, nor make its views from one; those share their values.
    """
    return [field.name for field in file.schema_arrow if field.type in TEXT_TYPES]


def _plain_bytes(column: pa.Array) -> int:
    """Return the size of a column without dictionary encoding. A dictionary stores a shared value once."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    values = column.dictionary
    if values.type in TEXT_TYPES:
        return int(pc.sum(pc.binary_length(values).take(column.indices)).as_py() or 0)
    return len(column) * (int(values.nbytes) // max(1, len(values)) + 1)


def _to_json_values(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert times to marked nanoseconds, and bytes to text or hex, which JSON represents without loss."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return pa.chunked_array([_format_times(column)])
    if pa.types.is_list(kind) and pa.types.is_timestamp(kind.value_type):
        lists = column.combine_chunks()
        return pa.chunked_array([relist(lists, _format_times(lists.flatten()))])
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.chunked_array([_decode_bytes(name, column.cast(pa.large_binary()).combine_chunks())])
    return column


def _format_times(column: pa.ChunkedArray | pa.Array) -> pa.StringArray:
    nanos = NANOS[column.type.unit]
    return pa.array([_format_time(value, nanos) for value in column.cast(pa.int64()).to_pylist()], pa.string())


def _format_time(value: int | None, nanos: int) -> str | None:
    return None if value is None else f"{TYPED_TIME}{value * nanos}"


def _decode_bytes(name: str, column: pa.LargeBinaryArray) -> pa.Array:
    """Return bytes as text if all of them are UTF-8, as some writers store texts. Ids of the right width are hex."""
    width = ID_WIDTHS.get(fold_name(name))
    lengths = pc.unique(pc.binary_length(column)).to_pylist()
    if width is None or not {None, 0, width}.issuperset(lengths):
        with suppress(pa.ArrowInvalid):  # not UTF-8
            return column.cast(pa.large_string()).cast(pa.string())
    return pa.array([None if value is None else value.hex() for value in column.to_pylist()], pa.string())


def _query_column(engine: duckdb.DuckDBPyConnection, statement: str) -> pa.Array:
    return engine.execute(statement).to_arrow_table().column(0).combine_chunks()
