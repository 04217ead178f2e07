"""Spans as one OTLP message."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from neve.model.signals import Signal
from neve.otlp import encode
from neve.tail.export.pieces import Unsayable

INSTANCE = "service.instance.id"


def otlp_message(batch: pa.RecordBatch) -> bytes:
    """One message of all rows; raises `Unsayable`."""
    try:
        return encode(Signal.TRACES, _grouped(batch))
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise Unsayable(f"can't be said in OTLP: {str(error).splitlines()[0]}") from error


def _grouped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The spans of a service and its scopes side by side: neighbours share their resource and scope in the message.

    A batch comes sorted by trace, where every second row is of another service, and would repeat its resource.
    """
    keys = pa.table(
        {
            "service": batch.column("service_name"),
            "instance": pc.map_lookup(batch.column("resource_attrs"), INSTANCE, "first"),
            "scope": batch.column("scope_name"),
        }
    )
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    return batch.take(order)
