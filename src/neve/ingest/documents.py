"""Generic files as JSON documents, one a record: what the mapping of fields works on."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from neve.errors import InputError
from neve.ingest.formats import Format
from neve.otlp import Rejected

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Documents:
    """JSON texts, where each stood in its file, and what could not be read as a record."""

    texts: pa.StringArray
    positions: pa.Int64Array
    rejected: tuple[Rejected, ...] = ()


def read_documents(form: Format, data: bytes, engine: duckdb.DuckDBPyConnection) -> Documents:
    """The records of a generic file; raises `InputError` when the file as a whole can't be read."""
    if form is Format.JSON_LINES:
        return _json_lines(data, engine)
    table, rejected = _csv(data) if form is Format.CSV else (_parquet(data), ())
    if table.num_columns == 0 or table.num_rows == 0:
        return Documents(pa.array([], pa.string()), pa.array([], pa.int64()), rejected)
    engine.register("given", table)
    texts = _column(engine, "SELECT to_json(given) FROM given")
    return Documents(texts, pa.array(np.arange(len(texts))), rejected)


def _json_lines(data: bytes, engine: duckdb.DuckDBPyConnection) -> Documents:
    lines = [(at, line) for at, line in enumerate(data.split(b"\n")) if line.strip()]
    texts = pa.array([line.decode(errors="replace") for _at, line in lines], pa.string())
    positions = pa.array([at for at, _line in lines], pa.int64())
    engine.register("given", pa.table({"line": texts}))
    is_object = _column(engine, "SELECT CASE WHEN json_valid(line) THEN json_type(line) = 'OBJECT' END FROM given")
    is_object = pc.fill_null(is_object, False)
    if pc.all(is_object, min_count=0).as_py():
        return Documents(texts, positions)
    rejected = tuple(
        Rejected("malformed_line", "the line is not a JSON object", at, line, Format.JSON_LINES)
        for (at, line), good in zip(lines, is_object.to_pylist(), strict=True)
        if not good
    )
    return Documents(texts.filter(is_object), positions.filter(is_object), rejected)


def _csv(data: bytes) -> tuple[pa.Table, tuple[Rejected, ...]]:
    header = next(csv.reader(io.StringIO(data.split(b"\n", 1)[0].decode(errors="replace"))), [])
    if len(set(header)) != len(header) or not all(header):
        raise InputError(f"the first line of a CSV file must name each column once, got {header!r}")
    rejected: list[Rejected] = []

    def skip(row: pacsv.InvalidRow) -> str:
        detail = f"the line has {row.actual_columns} columns, expected {row.expected_columns}"
        rejected.append(Rejected("malformed_line", detail, row.number or 0, (row.text or "").encode(), Format.CSV))
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


def _parquet(data: bytes) -> pa.Table:
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"not a Parquet file: {error}") from error
    return pa.table({name: _sayable(table.column(name)) for name in table.column_names})


def _sayable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as nanoseconds and bytes as hex: what JSON can say without loss."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ns", tz=column.type.tz)).cast(pa.int64())
    if pa.types.is_binary(column.type) or pa.types.is_fixed_size_binary(column.type):
        return pa.chunked_array([[None if value is None else value.hex() for value in column.to_pylist()]], pa.string())
    return column


def _column(engine: duckdb.DuckDBPyConnection, statement: str) -> pa.Array:
    return engine.execute(statement).to_arrow_table().column(0).combine_chunks()
