"""Log records: columns of `LogRecord` messages to columns of the table `logs`, and back."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.otlp.attributes import decode_attributes, encode_attributes
from neve.otlp.batch import Intake
from neve.otlp.checks import Check, check_time
from neve.otlp.columns import integers, optional, required, some_bytes, some_text, struct, timestamps
from neve.otlp.texts import KINDS, UNSET, decode_values, encode_values, nulls

MILLISECOND = 1_000_000  # in nanoseconds
# How far a whole millisecond may be off that was a floating-point number of seconds, or of nanoseconds, on its way: a
# double keeps 238 ns of today's seconds and 256 ns of today's nanoseconds apart.
FLOAT_ERROR = 256


def check_logs(logs: pa.RecordBatch, intake: Intake) -> list[Check]:
    """What a log record must have to be stored."""
    return [
        *check_time("time_unix_nano", logs.column("time_unix_nano"), intake, needed=False),
        *check_time("observed_time_unix_nano", logs.column("observed_time_unix_nano"), intake, needed=False),
    ]


def decode_logs(logs: pa.RecordBatch, intake: Intake) -> tuple[dict[str, pa.Array], int]:
    """The table's columns, and how many duplicate attribute keys were dropped."""
    time = integers(logs.column("time_unix_nano"))
    observed = integers(logs.column("observed_time_unix_nano"))
    body = decode_values(logs.column("body"))
    maps = decode_attributes(logs.column("attributes"))
    known = pc.coalesce(_nonzero(time), _nonzero(observed), pa.scalar(intake.received_unix_nano, pa.int64()))
    columns = {
        "timestamp": timestamps(known),
        "severity_number": logs.column("severity_number"),
        "severity_text": optional(logs.column("severity_text")),
        "message": body.text,
        "trace_id": optional(logs.column("trace_id")),
        "span_id": optional(logs.column("span_id")),
        "event_name": optional(logs.column("event_name")),
        "time_unix_nano": time,
        "observed_time_unix_nano": observed,
        "body_type": _without_unset(body.kinds),
        "flags": integers(logs.column("flags")),
        "attributes": maps.attributes,
        "attribute_types": maps.types,
        "dropped_attributes_count": integers(logs.column("dropped_attributes_count")),
    }
    return columns, maps.duplicate_keys


def encode_logs(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns of `LogRecord` messages from the table's."""
    return {
        "time_unix_nano": required(rows.column("time_unix_nano"), pa.uint64()),
        "observed_time_unix_nano": required(rows.column("observed_time_unix_nano"), pa.uint64()),
        "severity_number": required(rows.column("severity_number"), pa.int32()),
        "severity_text": some_text(rows.column("severity_text")),
        "body": _encode_body(rows.column("message"), rows.column("body_type")),
        "attributes": encode_attributes(rows.column("attributes"), rows.column("attribute_types")),
        "dropped_attributes_count": required(rows.column("dropped_attributes_count"), pa.uint32()),
        "flags": required(rows.column("flags"), pa.uint32()),
        "trace_id": some_bytes(rows.column("trace_id")),
        "span_id": some_bytes(rows.column("span_id")),
        "event_name": some_text(rows.column("event_name")),
    }


def coarse_times(columns: Mapping[str, pa.Array]) -> npt.NDArray[np.bool_]:
    """Which records have no time finer than a millisecond: such a record may equal another by chance."""
    return _is_coarse(columns["time_unix_nano"]) & _is_coarse(columns["observed_time_unix_nano"])


def _is_coarse(times: pa.Int64Array) -> npt.NDArray[np.bool_]:
    rest = times.to_numpy() % MILLISECOND
    coarse: npt.NDArray[np.bool_] = (rest <= FLOAT_ERROR) | (rest >= MILLISECOND - FLOAT_ERROR)
    return coarse


def _encode_body(message: pa.StringArray, body_type: pa.StringArray) -> pa.StructArray:
    """A null message without a type is a body that was never sent."""
    absent = nulls(message) & nulls(body_type)
    body = encode_values(message, body_type)
    return struct({field.name: body.field(field.name) for field in body.type}, null=absent)


def _nonzero(times: pa.Int64Array) -> pa.Int64Array:
    return pc.if_else(pc.not_equal(times, 0), times, pa.scalar(None, pa.int64()))


def _without_unset(kinds: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.equal(kinds, KINDS[UNSET]), pa.scalar(None, pa.string()), kinds)
