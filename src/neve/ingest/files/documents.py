"""Generic files as JSON documents, one a record: what the mapping of fields works on."""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass
from itertools import accumulate

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from neve.errors import FileTooLarge, InputError
from neve.ingest.files.formats import Format
from neve.ingest.files.mapping import NANOS, TYPED_TIME
from neve.lake.duck import literal
from neve.otlp import Rejected
from neve.otlp.values import MOST_LEVELS

MOST_UNPACKED = 1024 * 1024 * 1024
ROWS_AT_ONCE = 4096  # of a Parquet file
PARQUET_SHARE = 4  # its rows are there as columns, as JSON and as messages at the same time
DEEPEST = MOST_LEVELS + 1  # the record itself, and the levels of a value
CHECKED_BYTES = 1024 * 1024  # of UTF-8 that are checked at once
STRINGS, BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL), re.compile(r"[\[\]{}]")
ERRORS = (duckdb.Error, UnicodeDecodeError)  # DuckDB may cut the words of an error inside of a letter
HEADER_AND_ONE = 2  # pyarrow counts lines from 1 and the header with them
OBJECTS = "SELECT CASE WHEN json_valid(line) THEN json_type(line) = 'OBJECT' END FROM given_lines"
# Only a map that is made from entries is looked at for keys that stand twice.
ALL_MAPS = "SELECT sum(cardinality(map_from_entries(map_entries(line::JSON::MAP(VARCHAR, JSON))))) FROM given_lines"
EACH_KEY_ONCE = """
SELECT CASE WHEN json_valid(line) THEN
  json_type(line) = 'OBJECT' AND len(json_keys(line)) = len(list_distinct(json_keys(line)))
END FROM given_lines"""


@dataclass(frozen=True)
class Documents:
    """JSON texts, where each stood in its file, and what could not be read as a record."""

    texts: pa.StringArray
    positions: pa.Int64Array
    rejected: tuple[Rejected, ...] = ()


def check_size(size: int, most: int, share: int = 1) -> None:
    """Raise `FileTooLarge` for content that is larger than a share of what may be unpacked."""
    if size > most // share:
        said = "ingest.max_unpacked_bytes" if share == 1 else f"ingest.max_unpacked_bytes divided by {share}"
        raise FileTooLarge(
            f"its content is larger than {most // share} bytes, which is {said}",
            hint="split the file, or raise the setting where the workers have the memory",
        )


def read_documents(
    form: Format, data: bytes, engine: duckdb.DuckDBPyConnection, most: int = MOST_UNPACKED
) -> Documents:
    """The records of a generic file; raises `InputError` when the file as a whole can't be read."""
    if form is Format.JSON_LINES:
        return _json_lines(data, engine)
    table, rejected = _csv(data) if form is Format.CSV else (_parquet(data, most), ())
    # Every record says the names of its columns again.
    check_size(table.nbytes + table.num_rows * sum(len(name) for name in table.column_names), most)
    if table.num_columns == 0 or table.num_rows == 0:
        return Documents(pa.array([], pa.string()), pa.array([], pa.int64()), rejected)
    bad = [row.message for row in rejected]
    positions = np.setdiff1d(np.arange(table.num_rows + len(bad)), bad)
    return Documents(_as_json(table, engine), pa.array(positions), rejected)


def _as_json(table: pa.Table, engine: duckdb.DuckDBPyConnection) -> pa.StringArray:
    """Every row as a JSON object; columns go by number, for DuckDB takes `Time` and `time` for the same name."""
    numbered = [f"c{number}" for number in range(table.num_columns)]
    pairs = ", ".join(f"{literal(name)}, {column}" for name, column in zip(table.column_names, numbered, strict=True))
    try:
        engine.register("given_rows", table.rename_columns(numbered))
        return _column(engine, f"SELECT json_object({pairs}) FROM given_rows")  # noqa: S608 - names are literals
    except ERRORS as error:
        raise InputError(f"a column can't be said in JSON: {str(error).splitlines()[0]}") from error


def _json_lines(data: bytes, engine: duckdb.DuckDBPyConnection) -> Documents:
    lines = [(at, line) for at, line in enumerate(data.split(b"\n")) if line.strip()]
    texts = pa.array([line.decode(errors="replace") for _at, line in lines], pa.string())
    positions = pa.array([at for at, _line in lines], pa.int64())
    engine.register("given_lines", pa.table({"line": texts}))
    is_object = _column(engine, OBJECTS)
    if not _are_maps(engine):  # which lines have a key twice is asked only when some do
        is_object = _column(engine, EACH_KEY_ONCE)
    is_object = pc.fill_null(is_object, False)
    if pc.all(is_object, min_count=0).as_py():
        return Documents(texts, positions)
    rejected = tuple(
        Rejected("malformed_line", "the line is not a JSON object with each key once", at, line, Format.JSON_LINES)
        for (at, line), good in zip(lines, is_object.to_pylist(), strict=True)
        if not good
    )
    return Documents(texts.filter(is_object), positions.filter(is_object), rejected)


def _are_maps(engine: duckdb.DuckDBPyConnection) -> bool:
    try:
        engine.execute(ALL_MAPS).fetchall()
    except ERRORS:
        return False
    return True


def without_deep(documents: Documents) -> Documents:
    """The records that are nested no deeper than the wire can say; the others are refused one by one."""
    texts = documents.texts
    brackets = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    suspects = np.flatnonzero(pc.greater(brackets, DEEPEST).to_numpy(zero_copy_only=False)).tolist()
    deep = {row: levels for row in suspects if (levels := _depth(texts[row].as_py())) > DEEPEST}
    if not deep:
        return documents
    rejected = tuple(
        Rejected(
            "malformed_line",
            f"the record is nested {levels} levels deep, expected {DEEPEST} at most",
            documents.positions[row].as_py(),
            texts[row].as_py().encode(),
            Format.JSON_LINES,
        )
        for row, levels in deep.items()
    )
    keep = pa.array([row not in deep for row in range(len(texts))])
    return Documents(texts.filter(keep), documents.positions.filter(keep), (*documents.rejected, *rejected))


def _depth(text: str) -> int:
    """How deep JSON is nested.

    >>> _depth('{"a": [1, "[[[", {}]}')
    3
    """
    steps = (1 if bracket in "[{" else -1 for bracket in BRACKETS.findall(STRINGS.sub("", text)))
    return max(accumulate(steps), default=0)


def _header(data: bytes) -> list[str]:
    """The names of a CSV file's columns."""
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


def _csv(data: bytes) -> tuple[pa.Table, tuple[Rejected, ...]]:
    header = _header(data)
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
            read_options=pacsv.ReadOptions(use_threads=False),  # lines are numbered only then
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


def _parquet(data: bytes, most: int) -> pa.Table:
    """A Parquet file's rows, read piece by piece: a repeated value takes no room in a file, and all of it in memory."""
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            pieces, size = [], 0
            for piece in file.iter_batches(ROWS_AT_ONCE):
                size += sum(map(_plain_bytes, piece.columns))
                check_size(size, most, PARQUET_SHARE)
                pieces.append(piece)
            table = pa.Table.from_batches(pieces, file.schema_arrow)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # names of columns may be any bytes
        raise InputError(f"not a Parquet file: {error}") from error
    return pa.table({name: _sayable(table.column(name)) for name in table.column_names})


def _plain_bytes(column: pa.Array) -> int:
    """What a column takes when each row has its own value; in a dictionary, a value that rows share is there once."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    values = column.dictionary
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        return int(pc.sum(pc.binary_length(values).take(column.indices)).as_py() or 0)
    return len(column) * (int(values.nbytes) // max(1, len(values)) + 1)


def _sayable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as nanoseconds that say so, and bytes as hex: what JSON can say without loss."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return pa.chunked_array(
            [[_moment(value, NANOS[kind.unit]) for value in column.cast(pa.int64()).to_pylist()]], pa.string()
        )
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.chunked_array([[None if value is None else value.hex() for value in column.to_pylist()]], pa.string())
    return column


def _moment(value: int | None, nanos: int) -> str | None:
    return None if value is None else f"{TYPED_TIME}{value * nanos}"


def _column(engine: duckdb.DuckDBPyConnection, statement: str) -> pa.Array:
    return engine.execute(statement).to_arrow_table().column(0).combine_chunks()
