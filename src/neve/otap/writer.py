"""Writer of OTAP files: convert rows of any engine to the schema of their table, and write each file atomically."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neve.errors import InputError
from neve.otap.ids import SPECIFICATION
from neve.otap.tables import DEFAULTS, IDS, PART_ID, STARS, is_attrs, schema

if TYPE_CHECKING:
    import pyarrow.fs as pafs

OBJECT_STORES = ("s3", "gcs", "abfs")
ROW_GROUP_ROWS = 128 * 1024  # small enough that a range of parents is found by the bounds of row groups


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written."""

    path: str
    rows: int
    bytes: int


def conform_to_schema(table: str, batch: pa.RecordBatch | pa.Table) -> pa.Table:
    """Convert rows to the columns of the table: types as declared, no dictionaries, defaults for missing values.

    Signed whole numbers are accepted for unsigned ones, and as nanoseconds for times. Nullable columns may be missing.
    """
    wanted = schema(table)
    columns = []
    for field in wanted:
        place = f"{table}.{field.name}"
        # Chunk by chunk: the combined dictionary of several chunks may have more values than its key type can number.
        chunks = [_convert(chunk, field.type, place) for chunk in _chunks(batch, field)]
        column = _fill_default(pa.chunked_array(chunks, field.type), DEFAULTS.get((table, field.name)))
        columns.append(_require_values(column, field, place))
    return pa.Table.from_arrays(columns, schema=wanted)


def write_file(filesystem: pafs.FileSystem, path: str, table: str, rows: pa.Table, part: str) -> WrittenFile:
    """Write a file atomically. Root tables declare their part, and that their ids follow the specification."""
    if is_attrs(table):
        require_sorted(table, rows)
    metadata = {IDS: SPECIFICATION, **({PART_ID: part} if part else {})} if table in STARS else None
    sink = pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata(metadata), sink, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    content = sink.getvalue()
    put_file(filesystem, path, content)
    return WrittenFile(path, rows.num_rows, content.size)


def require_sorted(table: str, rows: pa.Table) -> None:
    """Reject attributes that are not sorted by parent and key."""
    wrong = find_first_unsorted(rows)
    if wrong is not None:
        parent, key = (rows.column(name)[wrong].as_py() for name in ("parent_id", "key"))
        raise InputError(
            f"{table} is not sorted by parent_id and key: row {wrong} (parent_id {parent}, key {key!r}) "
            "comes after one that is greater",
            hint="sort the rows before they are written",
        )


def find_first_unsorted(rows: pa.Table) -> int | None:
    """Return the first attribute row that comes after a greater one."""
    if rows.num_rows < 2:
        return None
    parents = np.asarray(rows.column("parent_id"), dtype=np.int64)
    keys = rows.column("key").combine_chunks()
    keys = keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys
    falls = np.asarray(pc.less(keys.slice(1), keys.slice(0, len(keys) - 1)))
    steps = np.diff(parents)
    wrong = np.flatnonzero((steps < 0) | ((steps == 0) & falls))
    return int(wrong[0]) + 1 if len(wrong) else None


def put_file(filesystem: pafs.FileSystem, path: str, content: pa.Buffer | bytes) -> None:
    """Write a file to its path atomically."""
    folder, _, name = path.rpartition("/")
    whole = filesystem.type_name in OBJECT_STORES  # an object appears when its writer closes it, a file when it opens
    if not whole:
        filesystem.create_dir(folder, recursive=True)
    written = path if whole else f"{folder}/.{name}.new"
    with filesystem.open_output_stream(written, compression=None) as stream:
        stream.write(content)
    if not whole:
        filesystem.move(written, path)


def _chunks(batch: pa.RecordBatch | pa.Table, field: pa.Field) -> list[pa.Array]:
    if field.name not in batch.schema.names:
        return [pa.nulls(batch.num_rows, field.type)]
    column = batch.column(field.name)
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def _convert(column: pa.Array, kind: pa.DataType, place: str) -> pa.Array:
    """Convert a column to another type of the same meaning."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        return _convert_struct(column, kind, place)  # also if the types are equal: a null struct may hold nulls inside
    if column.type == kind:
        return column
    if pa.types.is_fixed_size_binary(kind):
        _require_width(column, kind.byte_width, place)
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{place} can't hold {_describe_misfit(column, kind)}: expected {kind}") from error


def _convert_struct(column: pa.StructArray, kind: pa.StructType, place: str) -> pa.Array:
    absent = column.is_null()
    given = dict(zip(column.type.names, column.flatten(), strict=True))
    children = []
    for field in kind:
        child = given.get(field.name)
        child = pa.nulls(len(column), field.type) if child is None else child
        converted = _convert(child, field.type, f"{place}.{field.name}")
        if not field.nullable:
            converted = pc.if_else(absent, pa.scalar(0, field.type), converted)
        children.append(_require_values(converted, field, f"{place}.{field.name}"))
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=absent)


def _require_width(column: pa.Array, width: int, place: str) -> None:
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        return
    wrong = column.filter(pc.not_equal(pc.binary_length(column), width))
    if len(wrong):
        value = wrong[0].as_py()
        raise InputError(f"{place} can't hold 0x{value.hex()}: expected {width} bytes, got {len(value)}")


def _describe_misfit(column: pa.Array, kind: pa.DataType) -> str:
    """Describe the first value that does not fit a type, or the column's type if that does not fit."""
    for value in column.drop_null():
        try:
            value.cast(kind)
        except pa.ArrowInvalid:
            return str(value)
        except pa.ArrowNotImplementedError:
            break
    return f"values of type {column.type}"


def _fill_default(column: pa.ChunkedArray, default: str | int | None) -> pa.ChunkedArray:
    if default is None or not column.null_count:
        return column
    return column.fill_null(pa.scalar(default).cast(column.type))


def _require_values(column: pa.Array | pa.ChunkedArray, field: pa.Field, place: str) -> pa.Array | pa.ChunkedArray:
    if field.nullable or not column.null_count:
        return column
    rows = f"{column.null_count} of {len(column)} rows"
    raise InputError(f"{place} is missing in {rows}: expected {field.type} in every row")
