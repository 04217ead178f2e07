"""OTLP JSON as columns: whole files at a time, if every value has the type that its field has.

DuckDB reads JSON with the exact type of the message, and the Arrow result is encoded as protobuf. From there on both
encodings take the same path. But DuckDB converts types silently (5 becomes '5', 1.5 becomes 2, true becomes 1), and
knows the names of fields only as OTLP has them. So the text is searched for values of another type first. Text with one
is read document by document, by protobuf's own reader.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue, KeyValueList

from neve.model.signals import Signal
from neve.otlp.columns import parse_hex, relist, struct
from neve.otlp.protobuf import MESSAGES, handler
from neve.otlp.value_columns import null_mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import duckdb
    import fsspec
    from google.protobuf.message import Message

    NestedReader = Callable[[Message, str, str], bytes]  # the message to fill, its text, and the name of its field

IDS = ("trace_id", "span_id", "parent_span_id")
TOP = {Signal.TRACES: "resource_spans", Signal.LOGS: "resource_logs", Signal.METRICS: "resource_metrics"}
# Read without a type: a number is not an id, though its digits are hex.
UNTYPED_FIELDS = (*IDS, "array_value", "kvlist_value")
DEFAULTS = {pa.string(): "", pa.bool_(): False}
SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.uint32(): "UINTEGER",
    pa.int64(): "BIGINT",
    pa.uint64(): "UBIGINT",
    pa.float64(): "DOUBLE",
}


def transcode_all(signal: Signal, text: bytes, read_nested: NestedReader) -> pa.BinaryArray | None:
    """Convert all documents at once, or return None if one of them needs the slow path."""
    try:
        top = _read_top_field(signal, text)
        # A document without the top field may be no object at all.
        if top.null_count or _is_doubtful(signal, text):
            return None
        return _Encoder(read_nested).encode(signal, top)
    except Exception as error:  # three libraries have read the text; the slow path finds the cause
        import duckdb  # noqa: PLC0415 - as below

        if isinstance(error, duckdb.InternalException | duckdb.FatalException):
            _reader.cache_clear()  # the connection can't be used again
        return None


def _read_top_field(signal: Signal, text: bytes) -> pa.ListArray:
    """Read the top field of every document into Arrow."""
    connection, memory, names = _reader()
    path = f"/{next(names)}.json"
    field = handler(MESSAGES[signal], whole=True).schema().field(TOP[signal])
    statement = (
        f"SELECT * FROM read_json('memory://{path}', format = 'unstructured', records = true, "  # noqa: S608
        f"maximum_object_size = {max(len(text), 1 << 20)}, columns = {{'{_camel(TOP[signal])}': '{_sql_type(field)}'}})"
    )
    memory.pipe(path, text)
    try:
        column = connection.execute(statement).to_arrow_table().column(0)
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    finally:
        memory.rm(path)


@cache
def _reader() -> tuple[duckdb.DuckDBPyConnection, fsspec.AbstractFileSystem, Iterator[int]]:
    import duckdb  # noqa: PLC0415 - a tenth of a CPU second, for those who get JSON
    import fsspec  # noqa: PLC0415

    connection = duckdb.connect(config={"threads": 1})
    memory = fsspec.filesystem("memory")
    connection.register_filesystem(memory)
    return connection, memory, count()


@dataclass(frozen=True)
class _Encoder:
    read_nested: NestedReader

    def encode(self, signal: Signal, top: pa.ListArray) -> pa.BinaryArray:
        """Encode a message for each document."""
        wire = handler(MESSAGES[signal], whole=True)
        column = self._conform(top, wire.schema().field(TOP[signal]))
        return wire.record_batch_to_array(pa.RecordBatch.from_arrays([column], names=[TOP[signal]]))

    def _conform(self, array: pa.Array, field: pa.Field) -> pa.Array:
        """Convert a column of JSON values for the wire's handler: its names, its types, no nulls where it has none."""
        if pa.types.is_list(field.type):
            values = array.flatten()
            if values.null_count:
                raise ValueError("an element of a list is null")
            return relist(array, self._conform(values, field.type.value_field))
        if pa.types.is_struct(field.type):
            _check_oneofs(array)
            columns = {child.name: self._conform(array.field(_camel(child.name)), child) for child in field.type}
            return struct(columns, null=null_mask(array) if field.nullable else None)
        if pa.types.is_binary(field.type):
            return self._binary(array, field)
        if pa.types.is_floating(field.type) and pc.any(pc.is_inf(array)).as_py():
            raise ValueError("a number is too large")
        if array.null_count and not field.nullable:
            array = array.fill_null(DEFAULTS.get(field.type, 0))
        return array.cast(field.type)

    def _binary(self, array: pa.StringArray, field: pa.Field) -> pa.BinaryArray:
        if field.name in IDS:
            return parse_hex(_unquote(array.cast(pa.string()).fill_null('""')))
        if array.null_count == len(array):
            return pa.nulls(len(array), pa.binary())
        return pa.array([None if text is None else self._bytes(text, field.name) for text in array.to_pylist()])

    def _bytes(self, text: str, name: str) -> bytes:
        if name == "bytes_value":
            # As protobuf's reader does: both alphabets, with or without padding.
            return base64.urlsafe_b64decode(text.encode() + b"=" * (4 - len(text) % 4))
        return self.read_nested(ArrayValue() if name == "array_value" else KeyValueList(), text, _camel(name))


ONEOFS = (
    *(("gauge", "sum", "histogram", "exponentialHistogram", "summary"), ("asDouble", "asInt")),
    ("stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue"),
)


def _check_oneofs(array: pa.StructArray) -> None:
    """Raise `ValueError` if a value has several of the fields of which one may be set."""
    for names in ONEOFS:
        if array.type.get_field_index(names[0]) >= 0:
            fields = sum(array.field(name).is_valid().to_numpy(zero_copy_only=False).astype(np.int8) for name in names)
            if np.any(np.asarray(fields) > 1):
                raise ValueError(f"a value has several of {', '.join(names)}")


# Patterns of values that DuckDB converts silently, each after the name of a field of that type. They match no text
# within a string, where quotes are escaped, and have few states, so that the search runs at the speed of a scan.
NOT_TEXT = r"[-0-9tfIN[{]"
NOT_BOOLEAN = r'[-0-9"IN]'
NOT_INTEGER = r'(?:[tf]|-?[IN]|-?[0-9]+[.eE]|"-?[0-9]*[ -!#-/:-~])'
NOT_NUMBER = r'(?:[tf]|-?[IN]|"(?:[ -!#-MO-~]|N[A-Zb-z]|Na[A-MO-Za-z]))'
NOT_INTEGERS = r'\[(?:[\s0-9",-]*[.eEtfnIN[{]|[\s0-9",-]*(?:"\s+-?[0-9]|[0-9]\s+"))'
NOT_NUMBERS = r'\[[\s0-9.eE+,-]*["tfnIN[{]'
NOT_TEXTS = r'\[\s*(?:"(?:[^"\\]|\\.)*"\s*,\s*)*[-0-9tfnIN[{]'
ESCAPED_NAME = r'\\u00[0-9A-Fa-f]{2}[A-Za-z]*"\s*:'


def _is_doubtful(signal: Signal, text: bytes) -> bool:
    """Return whether a value of the text may be of another type than its field, or a field has another name."""
    return bool(pc.match_substring_regex(pa.array([text], pa.binary()), _doubtful_fields(signal))[0].as_py())


@cache
def _doubtful_fields(signal: Signal) -> str:
    """Return a pattern of fields with a value of another type, and of fields under their names in protobuf."""
    kinds: dict[str, set[str]] = {}
    names: set[str] = set()
    _collect(handler(MESSAGES[signal], whole=True).schema().field(TOP[signal]), kinds, names)
    parts = [rf'(?:{"|".join(sorted(map(_camel, fields)))})"\s*:\s*{value}' for value, fields in kinds.items()]
    renamed = sorted(name for name in names if _camel(name) != name)
    return rf'"(?:{"|".join(parts)}|(?:{"|".join(renamed)})"\s*:)|{ESCAPED_NAME}'


def _collect(field: pa.Field, kinds: dict[str, set[str]], names: set[str]) -> None:
    """Collect the names of fields, and those of scalars by the patterns of values that are doubtful for them.

    DuckDB converts no scalar to a message and no message to a number: `sum` is the name of both.
    """
    kind = field.type
    names.add(field.name)
    inner = kind.value_type if pa.types.is_list(kind) else kind
    if pa.types.is_struct(inner):
        for child in inner:
            _collect(child, kinds, names)
    elif field.name not in UNTYPED_FIELDS:
        kinds.setdefault(_doubtful_values(inner, is_list=inner is not kind), set()).add(field.name)


def _doubtful_values(kind: pa.DataType, *, is_list: bool) -> str:
    if pa.types.is_floating(kind):
        return NOT_NUMBERS if is_list else NOT_NUMBER
    if pa.types.is_integer(kind):
        return NOT_INTEGERS if is_list else NOT_INTEGER
    if pa.types.is_boolean(kind):
        return NOT_BOOLEAN
    return NOT_TEXTS if is_list else NOT_TEXT


def _unquote(array: pa.StringArray) -> pa.StringArray:
    if not pc.all(pc.starts_with(array, '"'), min_count=0).as_py():
        raise ValueError("an id is not text")
    return pc.binary_slice(array.cast(pa.binary()), 1, -1).cast(pa.string())


def _sql_type(field: pa.Field) -> str:
    if pa.types.is_list(field.type):
        return f"{_sql_type(field.type.value_field)}[]"
    if pa.types.is_struct(field.type):
        return "STRUCT(" + ", ".join(f'"{_camel(child.name)}" {_sql_type(child)}' for child in field.type) + ")"
    if pa.types.is_binary(field.type):
        return "JSON" if field.name in UNTYPED_FIELDS else "VARCHAR"
    return SQL_TYPES[field.type]


def _camel(name: str) -> str:
    """Return the JSON name of a field.

    >>> _camel("start_time_unix_nano")
    'startTimeUnixNano'
    """
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)
