"""OTLP JSON to OTLP protobuf, and back, as the standard maps them: hex ids, enums as numbers, 64-bit integers as text.

JSON is read by DuckDB with the exact type of the message, whole files at a time, and what Arrow holds then is encoded
as protobuf; from there on both encodings take the same path. Text that the fast way refuses (an enum by its name, say)
is read once more message by message with protobuf's own JSON reader, which accepts more and says what is wrong.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import json_format
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue, KeyValueList

from neve.model.signals import Signal
from neve.otlp.batch import Transcoded
from neve.otlp.columns import relist, struct
from neve.otlp.documents import CLASSES, IDS, documents, fill, transcode_each
from neve.otlp.hexadecimal import from_hex
from neve.otlp.texts import nulls
from neve.otlp.wire import MESSAGES, handler

__all__ = ["CLASSES", "Transcoded", "documents", "to_json", "to_protobuf"]

TOP = {Signal.TRACES: "resource_spans", Signal.LOGS: "resource_logs", Signal.METRICS: "resource_metrics"}
JSON_IDS = ("traceId", "spanId", "parentSpanId")
AS_THEY_ARE = (*IDS, "array_value", "kvlist_value")  # read without a type: a number is no id, though its digits are hex
DEFAULTS = {pa.string(): "", pa.bool_(): False}
CONVERTERS: dict[str, Callable[[str], bytes]] = {
    "array_value": lambda text: fill(ArrayValue(), json.loads(text), "arrayValue"),
    "kvlist_value": lambda text: fill(KeyValueList(), json.loads(text), "kvlistValue"),
    "bytes_value": base64.b64decode,
}
SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.uint32(): "UINTEGER",
    pa.int64(): "BIGINT",
    pa.uint64(): "UBIGINT",
    pa.float64(): "DOUBLE",
}


def to_protobuf(signal: Signal, text: bytes) -> Transcoded:
    """The messages of a JSON text: one document, or one a line. Whatever the text is, it is no error."""
    messages = _at_once(signal, text)
    if messages is None:
        return transcode_each(signal, text)
    return Transcoded(messages, tuple(range(len(messages))))


def to_json(signal: Signal, message: bytes) -> str:
    """A protobuf message as one line of OTLP JSON."""
    plain = json_format.MessageToDict(CLASSES[signal].FromString(message), use_integers_for_enums=True)
    return json.dumps(_ids_as_hex(plain), ensure_ascii=False, separators=(",", ":"))


def _at_once(signal: Signal, text: bytes) -> pa.BinaryArray | None:
    """All messages, or nothing where one of the documents needs a closer look."""
    try:
        top = _read(signal, text)
        # A document without the top field may be no object at all.
        return None if top.null_count else _encode(signal, top)
    except (duckdb.InternalException, duckdb.FatalException):
        _reader.cache_clear()  # the connection can't be used again
        return None
    except Exception:  # three libraries have read the text; the patient way finds out what is wrong
        return None


def _read(signal: Signal, text: bytes) -> pa.ListArray:
    """The top field of every document, in Arrow."""
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
    connection = duckdb.connect(config={"threads": 1})
    memory = fsspec.filesystem("memory")
    connection.register_filesystem(memory)
    return connection, memory, count()


def _encode(signal: Signal, top: pa.ListArray) -> pa.BinaryArray:
    wire = handler(MESSAGES[signal], whole=True)
    column = _conform(top, wire.schema().field(TOP[signal]))
    return wire.record_batch_to_array(pa.RecordBatch.from_arrays([column], names=[TOP[signal]]))


def _conform(array: pa.Array, field: pa.Field) -> pa.Array:
    """A column of JSON values as the wire's handler wants it: its names, its types, no nulls where it has none."""
    if pa.types.is_list(field.type):
        return relist(array, _conform(array.flatten(), field.type.value_field))
    if pa.types.is_struct(field.type):
        columns = {child.name: _conform(array.field(_camel(child.name)), child) for child in field.type}
        return struct(columns, null=nulls(array) if field.nullable else None)
    if pa.types.is_binary(field.type):
        return _binary(array, field)
    if array.null_count and not field.nullable:
        array = array.fill_null(DEFAULTS.get(field.type, 0))
    return array.cast(field.type)


def _binary(array: pa.StringArray, field: pa.Field) -> pa.BinaryArray:
    if field.name in IDS:
        return from_hex(_unquoted(array.cast(pa.string()).fill_null('""')))
    if array.null_count == len(array):
        return pa.nulls(len(array), pa.binary())
    convert = CONVERTERS[field.name]
    return pa.array([None if text is None else convert(text) for text in array.to_pylist()], pa.binary())


def _unquoted(array: pa.StringArray) -> pa.StringArray:
    if not pc.all(pc.starts_with(array, '"'), min_count=0).as_py():
        raise ValueError("an id is not text")
    return pc.binary_slice(array.cast(pa.binary()), 1, -1).cast(pa.string())


def _sql_type(field: pa.Field) -> str:
    if pa.types.is_list(field.type):
        return f"{_sql_type(field.type.value_field)}[]"
    if pa.types.is_struct(field.type):
        return "STRUCT(" + ", ".join(f'"{_camel(child.name)}" {_sql_type(child)}' for child in field.type) + ")"
    if pa.types.is_binary(field.type):
        return "JSON" if field.name in AS_THEY_ARE else "VARCHAR"
    return SQL_TYPES[field.type]


def _camel(name: str) -> str:
    """The JSON name of a field.

    >>> _camel("start_time_unix_nano")
    'startTimeUnixNano'
    """
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def _ids_as_hex(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {
            key: base64.b64decode(item).hex() if key in JSON_IDS else _ids_as_hex(item) for key, item in plain.items()
        }
    if isinstance(plain, list):
        return [_ids_as_hex(item) for item in plain]
    return plain
