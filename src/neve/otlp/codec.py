"""Decode OTLP messages into batches of the tables' schemas, and encode batches as messages.

`decode` and `encode` are the two functions that the rest of Neve calls.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.columns import TIMESTAMP
from neve.model.series_identity import (
    METRIC_NUMBERS,
    METRIC_TEXTS,
    hash_id_metrics,
    hash_id_sources,
    make_ids,
    make_stream_ids,
)
from neve.model.signals import Signal
from neve.model.tables import BY_SIGNAL
from neve.otlp import logs, metrics, spans
from neve.otlp.columns import constant
from neve.otlp.decode_result import BoundsExceeded, Decoded, Intake, Rejected
from neve.otlp.digest import Digests, bind_to_messages, content_digests, digests, message_digests, record_ids
from neve.otlp.envelope import (
    Columns,
    Context,
    Envelope,
    Rows,
    decode_context,
    encode_context,
    find_unreadable_groups,
    open_messages,
    seal,
)
from neve.otlp.protobuf import MESSAGES, RECORDS, handler, parse_messages
from neve.otlp.validation import Check, RecordFilter, find_failures, reject

MAX_SHARED_BYTES = 512 * 1024 * 1024  # of resources and scopes, copied to the rows of messages decoded together

CHECKS: dict[Signal, Callable[[pa.RecordBatch, Intake], list[Check]]] = {
    Signal.TRACES: spans.check_spans,
    Signal.LOGS: logs.check_logs,
}
DECODERS: dict[Signal, Callable[[pa.RecordBatch, Intake], tuple[Columns, int]]] = {
    Signal.TRACES: spans.decode_spans,
    Signal.LOGS: logs.decode_logs,
}
ENCODERS: dict[Signal, Callable[[pa.RecordBatch], Columns]] = {
    Signal.TRACES: spans.encode_spans,
    Signal.LOGS: logs.encode_logs,
}


def decode(signal: Signal, messages: Sequence[bytes] | pa.BinaryArray, intake: Intake) -> Decoded:
    """Decode OTLP protobuf messages into one batch of the signal's table; rejected records are in `rejected`."""
    column = messages if isinstance(messages, pa.BinaryArray) else pa.array(messages, pa.binary())
    envelope, malformed_messages = _open(signal, column)
    _check_growth(envelope)
    envelope, context, malformed_groups = _decode_context(envelope)
    rows = (metrics.decode_points if signal is Signal.METRICS else _decode_records)(envelope, intake)
    ids = record_ids(_identities(envelope, rows, context), rows.envelope.message)
    return _finish(rows, context, intake, ids, [*malformed_messages, *malformed_groups])


def encode(signal: Signal, rows: pa.RecordBatch) -> bytes:
    """Encode rows of the signal's table as one OTLP protobuf message."""
    if rows.num_rows == 0:
        return b""
    around = encode_context(rows)
    if signal is Signal.METRICS:
        records, starts = metrics.encode_points(rows, around)
        return seal(signal, records, around.take(starts))
    columns = ENCODERS[signal](rows)
    records = handler(RECORDS[signal]).record_batch_to_array(pa.RecordBatch.from_pydict(columns))
    return seal(signal, records, around)


def _open(signal: Signal, column: pa.BinaryArray) -> tuple[Envelope, list[Rejected]]:
    """Split the messages into records and groups; malformed messages are rejected as a whole."""
    parsed = parse_messages(MESSAGES[signal], column)
    envelope = open_messages(signal, parsed.batch)
    if not parsed.malformed:
        return envelope, []
    bad = sorted(parsed.malformed.items())
    rejected = [Rejected("malformed_message", detail, index, column[index].as_py()) for index, detail in bad]
    return envelope.renumber(parsed.index), rejected


def _check_growth(envelope: Envelope) -> None:
    """Raise `BoundsExceeded` if megabytes would become gigabytes: every row holds its resource and scope."""
    sizes = [pc.binary_length(part).fill_null(0) for part in (envelope.groups.resource, envelope.groups.scope)]
    shared = pc.add(*sizes).to_numpy(zero_copy_only=False).astype(np.int64)
    grown = int((shared * np.bincount(envelope.group, minlength=len(shared))).sum()) if len(shared) else 0
    if grown > MAX_SHARED_BYTES:
        raise BoundsExceeded(f"resources and scopes fill {grown} bytes in rows, expected at most {MAX_SHARED_BYTES}")


def _decode_context(envelope: Envelope) -> tuple[Envelope, Context, list[Rejected]]:
    """Decode the resources and scopes of groups; records whose resource or scope can't be read are rejected."""
    try:
        return envelope, decode_context(envelope.groups), []
    except ValueError:
        bad = find_unreadable_groups(envelope.groups)
    groups = np.fromiter(bad, np.int64, len(bad))
    lost = np.isin(envelope.group, groups)
    refused = [(row, "malformed_context", bad[int(envelope.group[row])]) for row in np.flatnonzero(lost).tolist()]
    rest = envelope.select(~lost).without_groups(groups)
    return rest, decode_context(rest.groups), reject(envelope, refused)


def _decode_records(envelope: Envelope, intake: Intake) -> Rows:
    signal = envelope.signal
    parsed = RecordFilter.parse(RECORDS[signal], envelope.records)
    checked = parsed.without(find_failures(CHECKS[signal](parsed.batch, intake)))
    filtered, (columns, duplicates) = checked.decode(lambda batch: DECODERS[signal](batch, intake))
    accepted = envelope.select(filtered.index) if filtered.refused else envelope
    rejected = tuple(reject(envelope, filtered.refused))
    return Rows(columns, accepted, digests(accepted.records), rejected, duplicates)


def _identities(envelope: Envelope, rows: Rows, context: Context) -> Digests:
    """Return the digest of each row: of its content, and of its message if equal content may be chance (ADR 22)."""
    contents = content_digests(rows.digests, context.digests[rows.envelope.group])
    if envelope.signal is not Signal.LOGS:
        return contents
    coarse = np.flatnonzero(logs.coarse_times(rows.columns))
    if not len(coarse):
        return contents
    every = contents
    if len(contents) != len(envelope.records):
        # Rejected records count: a record that is too far in the future today may be accepted in tomorrow's resend.
        every = content_digests(digests(envelope.records), context.digests[envelope.group])
    messages, message_of = np.unique(rows.envelope.message[coarse], return_inverse=True)
    return bind_to_messages(contents, coarse, message_digests(every, envelope.message, messages)[message_of])


def _finish(rows: Rows, context: Context, intake: Intake, ids: pa.BinaryArray, rejected: list[Rejected]) -> Decoded:
    """Add the columns of the group and of the receiver, and select the table's columns in their order."""
    group = rows.envelope.group
    shared = context.columns.take(pa.array(group))
    count = len(group)
    columns = {
        **rows.columns,
        **{name: shared.column(name) for name in shared.schema.names},
        "organization_id": constant(intake.organization_id, pa.string(), count),
        "record_id": ids,
        "ingested_at": constant(intake.received_unix_nano // 1000, TIMESTAMP, count),
        # Records stay in the order of their messages. Ingestion counts on from here over the messages of a source.
        "arrival_order": pa.array(np.arange(count, dtype=np.int64)),
        "dropped_repeats": pa.nulls(count, pa.int64()),
    }
    columns |= _identify_series(rows, context)
    schema = BY_SIGNAL[rows.envelope.signal].schema
    return Decoded(
        batch=pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema),
        rejected=(*rejected, *rows.rejected),
        duplicate_keys=rows.duplicate_keys + context.duplicate_keys,
        pointless_metrics=rows.pointless_metrics,
        message=pa.array(rows.envelope.message, pa.int64()),
    )


def _identify_series(rows: Rows, context: Context) -> Columns:
    """Return the ids of series or streams. Resources, scopes and metrics are hashed once each."""
    signal, group = rows.envelope.signal, rows.envelope.group
    shared = context.columns
    if signal is Signal.LOGS:
        return {"stream_id": make_stream_ids(shared.column("resource_attrs")).take(pa.array(group))}
    if signal is not Signal.METRICS:
        return {}
    of_group = {name: shared.column(name) for name in shared.schema.names}
    first, counts = rows.runs
    of_metric = {name: rows.columns[name].take(pa.array(first)) for name in (*METRIC_TEXTS, *METRIC_NUMBERS)}
    metrics = hash_id_metrics(of_metric, hash_id_sources(of_group)[group[first]])
    return {"series_id": make_ids(rows.columns, np.repeat(metrics, counts, axis=0))}
