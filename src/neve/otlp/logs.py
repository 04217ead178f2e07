"""Log records: columns of `LogRecord` messages to columns of the table `logs`, and back."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.otlp.attributes import decode_attributes, encode_attributes
from neve.otlp.columns import (
    bytes_or_empty,
    empty_to_null,
    null_to_zero,
    struct,
    text_or_empty,
    to_signed,
    to_timestamps,
)
from neve.otlp.decode_result import Intake
from neve.otlp.validation import Check, check_time
from neve.otlp.value_columns import KINDS, UNSET, decode_values, encode_values, null_mask

MILLISECOND = 1_000_000  # in nanoseconds
# Tolerance for a whole millisecond that was converted from a floating-point number of seconds or of nanoseconds. A
# double resolves 238 ns at today's seconds and 256 ns at today's nanoseconds.
FLOAT_ERROR = 256


def check_logs(logs: pa.RecordBatch, intake: Intake) -> list[Check]:
    """Return the checks that a log record must pass to be stored."""
    return [
        *check_time("time_unix_nano", logs.column("time_unix_nano"), intake, needed=False),
        *check_time("observed_time_unix_nano", logs.column("observed_time_unix_nano"), intake, needed=False),
    ]


def decode_logs(logs: pa.RecordBatch, intake: Intake) -> tuple[dict[str, pa.Array], int]:
    """Return the table's columns, and the number of dropped duplicate attribute keys."""
    time = to_signed(logs.column("time_unix_nano"))
    observed = to_signed(logs.column("observed_time_unix_nano"))
    body = decode_values(logs.column("body"))
    maps = decode_attributes(logs.column("attributes"))
    known = pc.coalesce(_nonzero(time), _nonzero(observed), pa.scalar(intake.received_unix_nano, pa.int64()))
    columns = {
        "timestamp": to_timestamps(known),
        "severity_number": logs.column("severity_number"),
        "severity_text": empty_to_null(logs.column("severity_text")),
        "message": body.text,
        "trace_id": empty_to_null(logs.column("trace_id")),
        "span_id": empty_to_null(logs.column("span_id")),
        "event_name": empty_to_null(logs.column("event_name")),
        "time_unix_nano": time,
        "observed_time_unix_nano": observed,
        "body_type": _without_unset(body.kinds),
        "flags": to_signed(logs.column("flags")),
        "attributes": maps.attributes,
        "attribute_types": maps.types,
        "dropped_attributes_count": to_signed(logs.column("dropped_attributes_count")),
    }
    return columns, maps.duplicate_keys


def encode_logs(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    """Convert the table's columns to columns of `LogRecord` messages."""
    return {
        "time_unix_nano": null_to_zero(rows.column("time_unix_nano"), pa.uint64()),
        "observed_time_unix_nano": null_to_zero(rows.column("observed_time_unix_nano"), pa.uint64()),
        "severity_number": null_to_zero(rows.column("severity_number"), pa.int32()),
        "severity_text": text_or_empty(rows.column("severity_text")),
        "body": _encode_body(rows.column("message"), rows.column("body_type")),
        "attributes": encode_attributes(rows.column("attributes"), rows.column("attribute_types")),
        "dropped_attributes_count": null_to_zero(rows.column("dropped_attributes_count"), pa.uint32()),
        "flags": null_to_zero(rows.column("flags"), pa.uint32()),
        "trace_id": bytes_or_empty(rows.column("trace_id")),
        "span_id": bytes_or_empty(rows.column("span_id")),
        "event_name": text_or_empty(rows.column("event_name")),
    }


def coarse_times(columns: Mapping[str, pa.Array]) -> npt.NDArray[np.bool_]:
    """Return a mask of records whose times are no finer than a millisecond.

    Such a record may equal another by chance.
    """
    return _is_coarse(columns["time_unix_nano"]) & _is_coarse(columns["observed_time_unix_nano"])


def _is_coarse(times: pa.Int64Array) -> npt.NDArray[np.bool_]:
    rest = times.to_numpy() % MILLISECOND
    coarse: npt.NDArray[np.bool_] = (rest <= FLOAT_ERROR) | (rest >= MILLISECOND - FLOAT_ERROR)
    return coarse


def _encode_body(message: pa.StringArray, body_type: pa.StringArray) -> pa.StructArray:
    """Encode bodies; a null message without a type is a body that was never sent."""
    absent = null_mask(message) & null_mask(body_type)
    body = encode_values(message, body_type)
    return struct({field.name: body.field(field.name) for field in body.type}, null=absent)


def _nonzero(times: pa.Int64Array) -> pa.Int64Array:
    return pc.if_else(pc.not_equal(times, 0), times, pa.scalar(None, pa.int64()))


def _without_unset(kinds: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.equal(kinds, KINDS[UNSET]), pa.scalar(None, pa.string()), kinds)
