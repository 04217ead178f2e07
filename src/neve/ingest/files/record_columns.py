"""Columns of generic records as columns of the signals' tables: severities, kinds, maps of attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.signals import Signal
from neve.model.tables import BUCKETS, BY_SIGNAL
from neve.otlp.columns import constant, parse_hex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import duckdb

    from neve.ingest.files.foreign_schemas import FieldMap

NANOS_PER_MS = {"ms": 1_000_000, "us": 1_000, "ns": 1}  # by the unit of durations
KINDS = {"VARCHAR": None, "BOOLEAN": "bool", "BIGINT": "int", "UBIGINT": "int", "OBJECT": "map", "ARRAY": "array"}
SEVERITIES = {
    "trace": 1,
    "verbose": 1,
    "debug": 5,
    "info": 9,
    "information": 9,
    "notice": 10,
    "warn": 13,
    "warning": 13,
    "err": 17,
    "error": 17,
    "crit": 21,
    "critical": 21,
    "alert": 22,
    "emerg": 23,
    "fatal": 21,
    "panic": 21,
}
# Numbers that mean something else than OpenTelemetry's.
SCALES = {
    "names": {},
    "syslog": {"0": 23, "1": 22, "2": 21, "3": 17, "4": 13, "5": 10, "6": 9, "7": 5},
    "windows": {"0": 9, "1": 21, "2": 17, "3": 13, "4": 9, "5": 5},
}
SPAN_KINDS = {"unspecified": 0, "internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5, "": 0}
STATUSES = {"unset": 0, "ok": 1, "error": 2, "": 0}
TEMPORALITIES = {"unspecified": 0, "delta": 1, "cumulative": 2, "incremental": 1, "absolute": 2, "": 0}
ENUMS = {
    "kind": ("span_kind_", SPAN_KINDS),
    "status": ("status_code_", STATUSES),
    "temporality": ("aggregation_temporality_", TEMPORALITIES),
}
MAX_NUMBER_DIGITS = 10  # digits of a severity; Python refuses to parse thousands of them
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}

Columns = dict[str, pa.Array]


def to_columns(names: FieldMap, found: pa.Table, engine: duckdb.DuckDBPyConnection) -> Columns:
    """Return the columns of the records, without those of nested records."""
    return {**_shared_columns(found, engine), **_SIGNAL_COLUMNS[names.signal](names, found)}


def build_batch(signal: Signal, columns: Mapping[str, pa.Array | None], count: int) -> pa.RecordBatch:
    """Return rows of a signal's table with these columns. The others are null."""
    schema = BY_SIGNAL[signal].schema
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        arrays.append(pa.nulls(count, field.type) if column is None else combine(column).cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in schema]))


def combine(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _shared_columns(found: pa.Table, engine: duckdb.DuckDBPyConnection) -> Columns:
    if "attribute_types" in found.column_names:
        attributes, attribute_types = found.column("attributes"), found.column("attribute_types")
        resource, resource_types = found.column("resource"), found.column("resource_types")
    else:
        attributes, attribute_types = to_maps(combine(found.column("attributes")), engine)
        resource, resource_types = to_maps(combine(found.column("resource")), engine)
    columns = {
        "attributes": attributes,
        "attribute_types": attribute_types,
        "resource_attrs": resource,
        "resource_attr_types": resource_types,
        "resource_schema_url": found.column("resource_schema_url"),
        "scope_name": found.column("scope_name"),
        "scope_version": found.column("scope_version"),
        "scope_schema_url": found.column("scope_schema_url"),
    }
    if found.column("scope_attributes").null_count < found.num_rows:
        columns["scope_attrs"], columns["scope_attr_types"] = to_maps(combine(found.column("scope_attributes")), engine)
    return columns


def _log_columns(names: FieldMap, found: pa.Table) -> Columns:
    scale = names.schema.severities if names.schema else "names"
    by_text = severity_numbers(combine(found.column("severity")), scale)
    given = (
        pc.cast(combine(found.column("severity_number")), pa.int32()) if _is_known(found, "severity_number") else None
    )
    return {
        "time_unix_nano": found.column("time_nanos"),
        "observed_time_unix_nano": found.column("observed_nanos"),
        "severity_text": found.column("severity"),
        "severity_number": by_text if given is None else pc.coalesce(given, by_text),
        "message": found.column("message"),
        "trace_id": decode_ids(found.column("trace_id")),
        "span_id": decode_ids(found.column("span_id")),
        "event_name": found.column("event_name"),
        "flags": found.column("flags"),
    }


def _metric_columns(names: FieldMap, found: pa.Table) -> Columns:
    types = _metric_types(names, found)
    is_sum = pc.equal(types, "sum")
    temporal = pc.is_in(types, pa.array(["sum", "histogram", "exponential_histogram"]))
    temporality = pc.coalesce(_enum(found, "temporality"), pa.scalar(0, pa.int32()))
    monotonic = pc.coalesce(_booleans(found), pc.and_(is_sum, pa.scalar(_is_vector(names))))
    none = pa.scalar(None)
    return {
        "time_unix_nano": found.column("time_nanos"),
        "start_time_unix_nano": found.column("start_nanos"),
        "metric_name": found.column("name"),
        "metric_type": types,
        "unit": found.column("unit"),
        "description": found.column("description"),
        "aggregation_temporality": pc.if_else(temporal, temporality, none.cast(pa.int32())),
        "is_monotonic": pc.if_else(is_sum, monotonic, none.cast(pa.bool_())),
        "positive": _buckets(found, "positive"),
        "negative": _buckets(found, "negative"),
        "explicit_bounds": found.column("explicit_bounds"),
        "quantile_values": _quantiles(found),
        **{name: found.column(name) for name in ("value", "value_int", "flags", "count", "sum", "min", "max")},
        **{name: found.column(name) for name in ("bucket_counts", "scale", "zero_count", "zero_threshold")},
    }


def _metric_types(names: FieldMap, found: pa.Table) -> pa.StringArray:
    if _is_vector(names):
        return pc.if_else(combine(found.column("counter")).is_valid(), "sum", "gauge")
    return constant(names.schema.metric_type if names.schema else "gauge", pa.string(), found.num_rows)


def _is_vector(names: FieldMap) -> bool:
    return names.schema is not None and names.schema.metric_type == "vector"


def _booleans(found: pa.Table) -> pa.BooleanArray:
    text = pc.utf8_lower(combine(found.column("monotonic")))
    encoded = text.dictionary_encode()
    known = pa.array([BOOLEANS.get(word) for word in encoded.dictionary.to_pylist()], pa.bool_())
    return known.take(encoded.indices)


def _buckets(found: pa.Table, side: str) -> pa.StructArray:
    counts, offset = combine(found.column(f"{side}_counts")), combine(found.column(f"{side}_offset"))
    absent = pc.and_(pc.is_null(counts), pc.is_null(offset))
    columns = [offset.fill_null(0).cast(BUCKETS.field("offset").type), counts.cast(BUCKETS.field("bucket_counts").type)]
    return pa.StructArray.from_arrays(columns, fields=list(BUCKETS), mask=absent)


def _quantiles(found: pa.Table) -> pa.ListArray | None:
    quantiles, values = combine(found.column("quantiles")), combine(found.column("quantile_values"))
    if quantiles.null_count == len(quantiles):
        return None
    pairs = pa.StructArray.from_arrays([quantiles.flatten(), values.flatten()], ["quantile", "value"])
    return pa.ListArray.from_arrays(list_offsets(quantiles), pairs)


def _span_columns(names: FieldMap, found: pa.Table) -> Columns:
    start = pc.fill_null(combine(found.column("time_nanos")), 0)
    nanos = pc.multiply(found.column("duration_ms"), float(NANOS_PER_MS[names.duration]))
    lasted = pc.add(start, combine(pc.round(nanos)).cast(pa.int64(), safe=False))
    return {
        "start_time_unix_nano": start,
        "end_time_unix_nano": pc.coalesce(combine(found.column("end_nanos")), lasted),
        "trace_id": decode_ids(found.column("trace_id")),
        "span_id": decode_ids(found.column("span_id")),
        "parent_span_id": decode_ids(found.column("parent_span_id")),
        "operation_name": found.column("name"),
        "span_kind": _enum(found, "kind"),
        "status_code": _enum(found, "status"),
        "status_message": found.column("status_message"),
        "trace_state": found.column("trace_state"),
        "flags": found.column("flags"),
    }


_SIGNAL_COLUMNS: dict[Signal, Callable[[FieldMap, pa.Table], Columns]] = {
    Signal.LOGS: _log_columns,
    Signal.METRICS: _metric_columns,
    Signal.TRACES: _span_columns,
}


def _is_known(found: pa.Table, name: str) -> bool:
    return bool(found.column(name).null_count < found.num_rows)


def _enum(found: pa.Table, name: str) -> pa.Int32Array:
    return enum_numbers(name, combine(found.column(name)))


def enum_numbers(name: str, text: pa.StringArray) -> pa.Int32Array:
    """Return OpenTelemetry's numbers of names, with or without their prefix, or of numbers. Unknown texts are null."""
    prefix, numbers = ENUMS[name]
    encoded = text.dictionary_encode()
    known = [
        _enum_number(word.strip().lower().removeprefix(prefix), numbers) for word in encoded.dictionary.to_pylist()
    ]
    return pa.array(known, pa.int32()).take(encoded.indices)


def _enum_number(word: str, numbers: Mapping[str, int]) -> int | None:
    if word.isdecimal() and len(word) <= MAX_NUMBER_DIGITS and int(word) in numbers.values():
        return int(word)
    return numbers.get(word)


def severity_numbers(text: pa.StringArray, scale: str = "names") -> pa.Int32Array:
    """Return OpenTelemetry's numbers of severities."""
    encoded = text.dictionary_encode()
    numbers = [_severity_number(word, SCALES[scale]) for word in encoded.dictionary.to_pylist()]
    return pa.array(numbers, pa.int32()).take(encoded.indices)


def _severity_number(word: str, scale: Mapping[str, int]) -> int:
    """Return OpenTelemetry's number for a severity name, or the number itself, or 0 for any other text.

    >>> _severity_number("WARN", {}), _severity_number("17", {}), _severity_number("?", {})
    (13, 17, 0)
    """
    text = word.strip().lower()
    if text in scale:
        return scale[text]
    if text.isdecimal() and len(text) <= MAX_NUMBER_DIGITS and 1 <= int(text) <= 24:
        return int(text)
    return SEVERITIES.get(text, 0)


def decode_ids(column: pa.ChunkedArray | pa.Array) -> pa.BinaryArray:
    """Decode hex ids to bytes."""
    text = combine(column)
    decoded = parse_hex(text.fill_null(""))
    return pc.if_else(text.is_valid(), decoded, pa.scalar(None, pa.binary()))


def to_maps(maps: pa.MapArray, engine: duckdb.DuckDBPyConnection) -> tuple[pa.MapArray, pa.MapArray]:
    """Convert maps of JSON values to the tables' maps of text and of types."""
    engine.register("given_values", pa.table({"value": maps.items.cast(pa.string())}))
    typed = engine.execute(
        "SELECT json_type(value) AS kind, value::JSON->>'$' AS text FROM given_values"
    ).to_arrow_table()
    text, kinds = combine(typed.column("text")), to_kinds(combine(typed.column("kind")), combine(typed.column("text")))
    offsets = maps.offsets
    if maps.null_count:
        offsets = pa.array(offsets.to_numpy(), mask=np.append(maps.is_null().to_numpy(zero_copy_only=False), False))
    keys = maps.keys.cast(pa.string())
    typed = kinds.is_valid()
    running = np.concatenate(([0], np.cumsum(typed.to_numpy(zero_copy_only=False)))).astype(np.int32)
    types = pa.MapArray.from_arrays(pa.array(running[maps.offsets.to_numpy()]), keys.filter(typed), kinds.filter(typed))
    return pa.MapArray.from_arrays(offsets, keys, text), types


def to_kinds(json_types: pa.StringArray, text: pa.StringArray) -> pa.StringArray:
    """Return the tables' names for JSON's types. An integer that does not fit in 64 bits is a double."""
    encoded = json_types.dictionary_encode()
    names = pa.array([KINDS.get(name, "double") for name in encoded.dictionary.to_pylist()], pa.string())
    kinds = names.take(encoded.indices)
    kinds = pc.if_else(pc.or_(json_types.is_null(), pc.equal(json_types, "NULL").fill_null(True)), "empty", kinds)
    too_big = pc.and_(pc.equal(kinds, "int"), pc.greater(pc.utf8_length(text), 18))
    if not pc.any(too_big, min_count=0).as_py():
        return kinds
    fits = [
        name != "int" or word is None or -(2**63) <= int(word) < 2**63
        for name, word in zip(kinds.to_pylist(), text.to_pylist(), strict=True)
    ]
    return pc.if_else(pa.array(fits), kinds, "double")


def list_offsets(lists: pa.ListArray) -> pa.Int32Array:
    """Return the offsets of lists over their elements. A null list is empty."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
