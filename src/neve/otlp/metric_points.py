"""Data points of the five metric types: columns of one type's messages to columns of `metrics`, and back."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from neve.otlp.attributes import decode_attributes, encode_attributes
from neve.otlp.columns import bytes_or_empty, empty_to_null, null_to_zero, relist, struct, to_signed
from neve.otlp.value_columns import null_mask

Columns = dict[str, pa.Array]


def decode_point_columns(kind: str, points: pa.RecordBatch) -> tuple[Columns, int]:
    """Return the table's columns that this type of point has, and the number of dropped duplicate attribute keys."""
    maps = decode_attributes(points.column("attributes"))
    columns = {
        "time_unix_nano": to_signed(points.column("time_unix_nano")),
        "start_time_unix_nano": to_signed(points.column("start_time_unix_nano")),
        "flags": to_signed(points.column("flags")),
        "attributes": maps.attributes,
        "attribute_types": maps.types,
        **DECODERS[kind](points),
    }
    duplicates = maps.duplicate_keys
    if "exemplars" in points.schema.names:
        columns["exemplars"], more = _decode_exemplars(points.column("exemplars"))
        duplicates += more
    return columns, duplicates


def encode_point_columns(kind: str, rows: pa.RecordBatch) -> Columns:
    """Convert the table's columns to columns of this type's messages."""
    columns = {
        "attributes": encode_attributes(rows.column("attributes"), rows.column("attribute_types")),
        "start_time_unix_nano": null_to_zero(rows.column("start_time_unix_nano"), pa.uint64()),
        "time_unix_nano": null_to_zero(rows.column("time_unix_nano"), pa.uint64()),
        "flags": null_to_zero(rows.column("flags"), pa.uint32()),
        **ENCODERS[kind](rows),
    }
    if kind != "summary":
        columns["exemplars"] = _encode_exemplars(rows.column("exemplars"))
    return columns


def _decode_number(points: pa.RecordBatch) -> Columns:
    return _value(points.column("as_double"), points.column("as_int"))


def _value(as_double: pa.DoubleArray, as_int: pa.Int64Array) -> Columns:
    return {"value": pc.coalesce(as_double, as_int.cast(pa.float64(), safe=False)), "value_int": as_int}


def _encode_value(rows: pa.RecordBatch | pa.StructArray) -> Columns:
    column = rows.column if isinstance(rows, pa.RecordBatch) else rows.field
    value, value_int = column("value"), column("value_int")
    return {
        "as_double": pc.if_else(value_int.is_null(), value, pa.scalar(None, pa.float64())),
        "as_int": value_int,
    }


def _decode_histogram(points: pa.RecordBatch) -> Columns:
    return {
        "count": to_signed(points.column("count")),
        "sum": points.column("sum"),
        "min": points.column("min"),
        "max": points.column("max"),
        "bucket_counts": _to_signed_lists(points.column("bucket_counts")),
        "explicit_bounds": points.column("explicit_bounds"),
    }


def _encode_histogram(rows: pa.RecordBatch) -> Columns:
    return {
        "count": null_to_zero(rows.column("count"), pa.uint64()),
        "sum": rows.column("sum"),
        "min": rows.column("min"),
        "max": rows.column("max"),
        "bucket_counts": _to_unsigned_lists(rows.column("bucket_counts")),
        "explicit_bounds": relist(rows.column("explicit_bounds"), rows.column("explicit_bounds").flatten()),
    }


def _decode_exponential(points: pa.RecordBatch) -> Columns:
    return {
        "count": to_signed(points.column("count")),
        "sum": points.column("sum"),
        "min": points.column("min"),
        "max": points.column("max"),
        "scale": points.column("scale"),
        "zero_count": to_signed(points.column("zero_count")),
        "zero_threshold": points.column("zero_threshold"),
        "positive": _decode_buckets(points.column("positive")),
        "negative": _decode_buckets(points.column("negative")),
    }


def _encode_exponential(rows: pa.RecordBatch) -> Columns:
    return {
        "count": null_to_zero(rows.column("count"), pa.uint64()),
        "sum": rows.column("sum"),
        "min": rows.column("min"),
        "max": rows.column("max"),
        "scale": null_to_zero(rows.column("scale"), pa.int32()),
        "zero_count": null_to_zero(rows.column("zero_count"), pa.uint64()),
        "zero_threshold": rows.column("zero_threshold").fill_null(0.0),
        "positive": _encode_buckets(rows.column("positive")),
        "negative": _encode_buckets(rows.column("negative")),
    }


def _decode_summary(points: pa.RecordBatch) -> Columns:
    return {
        "count": to_signed(points.column("count")),
        "sum": points.column("sum"),
        "quantile_values": points.column("quantile_values"),
    }


def _encode_summary(rows: pa.RecordBatch) -> Columns:
    lists = rows.column("quantile_values")
    return {
        "count": null_to_zero(rows.column("count"), pa.uint64()),
        "sum": rows.column("sum").fill_null(0.0),
        "quantile_values": relist(lists, lists.flatten()),
    }


def _decode_buckets(buckets: pa.StructArray) -> pa.StructArray:
    columns = {
        "offset": buckets.field("offset").fill_null(0),
        "bucket_counts": _to_signed_lists(buckets.field("bucket_counts")),
    }
    return struct(columns, null=null_mask(buckets))


def _encode_buckets(buckets: pa.StructArray) -> pa.StructArray:
    columns = {
        "offset": null_to_zero(buckets.field("offset"), pa.int32()),
        "bucket_counts": _to_unsigned_lists(buckets.field("bucket_counts")),
    }
    return struct(columns, null=null_mask(buckets))


def _to_signed_lists(lists: pa.ListArray) -> pa.ListArray:
    return relist(lists, to_signed(lists.flatten()))


def _to_unsigned_lists(lists: pa.ListArray) -> pa.ListArray:
    return relist(lists, null_to_zero(lists.flatten(), pa.uint64()))


def _decode_exemplars(lists: pa.ListArray) -> tuple[pa.ListArray, int]:
    exemplars = lists.flatten()
    maps = decode_attributes(exemplars.field("filtered_attributes"))
    columns = {
        "time_unix_nano": to_signed(exemplars.field("time_unix_nano")),
        **_value(exemplars.field("as_double"), exemplars.field("as_int")),
        "trace_id": empty_to_null(exemplars.field("trace_id")),
        "span_id": empty_to_null(exemplars.field("span_id")),
        "attributes": maps.attributes,
        "attribute_types": maps.types,
    }
    return relist(lists, struct(columns)), maps.duplicate_keys


def _encode_exemplars(lists: pa.ListArray) -> pa.ListArray:
    exemplars = lists.flatten()
    columns = {
        "filtered_attributes": encode_attributes(exemplars.field("attributes"), exemplars.field("attribute_types")),
        "time_unix_nano": null_to_zero(exemplars.field("time_unix_nano"), pa.uint64()),
        **_encode_value(exemplars),
        "span_id": bytes_or_empty(exemplars.field("span_id")),
        "trace_id": bytes_or_empty(exemplars.field("trace_id")),
    }
    return relist(lists, struct(columns))


DECODERS: dict[str, Callable[[pa.RecordBatch], Columns]] = {
    "gauge": _decode_number,
    "sum": _decode_number,
    "histogram": _decode_histogram,
    "exponential_histogram": _decode_exponential,
    "summary": _decode_summary,
}
ENCODERS: dict[str, Callable[[pa.RecordBatch], Columns]] = {
    "gauge": _encode_value,
    "sum": _encode_value,
    "histogram": _encode_histogram,
    "exponential_histogram": _encode_exponential,
    "summary": _encode_summary,
}
