"""Decode OTLP messages to rows: split them into chunks of bounded memory, decode, route the rows to writers.

Rows of one partition go to one writer: a batch makes one file for each partition that it touches, however many
tasks decoded it, and equal records meet. Only the newest days of a table without buckets are spread over all
writers, by record id, because almost all records that arrive belong to them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.transforms import BucketTransform

from neve.ingest.arrival import ArrivalCounter, clear_order, set_received
from neve.ingest.assignment import Tally
from neve.ingest.deduplication import RECORD_ID, TIME, ids_to_words
from neve.ingest.quarantine import quarantine_rows
from neve.lake.spark.exchange import ExchangeBlock
from neve.lake.write.layout import hash_partitions
from neve.model.tables import BY_SIGNAL, QUARANTINE
from neve.otlp import BoundsExceeded, Decoded, Intake, Rejected, decode
from neve.otlp.bounds import TooMany, check_bounds, count_groups
from neve.redaction.config import RedactionConfig
from neve.redaction.messages import redact_messages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table.metadata import TableMetadata

    from neve.ingest.arrival import Ranks
    from neve.ingest.assignment import Assignment
    from neve.model.signals import Signal
    from neve.otlp.bounds import Bounds


OWN_BYTES = 32 * 1024 * 1024  # of messages that Neve created from generic records and OTAP
FOREIGN_BYTES = 4 * 1024 * 1024  # an empty record takes two of these bytes, and some hundred after decoding
GROUP_BYTES = 80  # weight of a group: a run has about as many groups as one message may have


@dataclass(frozen=True)
class Chunk:
    """Neighbouring messages and the position of the first, or one message that is rejected undecoded."""

    start: int
    messages: pa.BinaryArray
    rejected: tuple[Rejected, ...] = ()


def split_messages_into_chunks(signal: Signal, messages: pa.BinaryArray, bounds: Bounds | None) -> Iterator[Chunk]:
    """Split messages into runs. A large message stays whole, and a message over its bounds is rejected alone.

    Only messages that Neve created have no bounds. Their size is a measure of their content.
    """
    limit = OWN_BYTES if bounds is None else FOREIGN_BYTES
    start, size = 0, 0
    for index, length in enumerate(pc.binary_length(messages).to_pylist()):
        weight = length if bounds is None else _weigh(signal, messages[index].as_py(), bounds)
        if index > start and (isinstance(weight, Rejected) or size + weight > limit):
            yield Chunk(start, messages.slice(start, index - start))
            start, size = index, 0
        if isinstance(weight, Rejected):
            yield Chunk(index, messages.slice(index, 0), (weight,))
            start = index + 1
        else:
            size += weight
    if len(messages) > start:
        yield Chunk(start, messages.slice(start))


def _weigh(signal: Signal, message: bytes, bounds: Bounds) -> int | Rejected:
    """Return the share of a run that a message takes, or why it is rejected undecoded."""
    try:
        groups = count_groups(signal, message, bounds)
        check_bounds(signal, message, bounds)
    except TooMany as error:
        return Rejected("overgrown_message", f"{error.message} (ingest.{error.setting})", 0, message)
    return max(len(message), groups * GROUP_BYTES)


DAY_MICROS = 86_400_000_000


def route_rows(assignment: Assignment, table: str, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of a table for each writer that gets some."""
    if assignment.writers == 1:
        yield 0, rows
        return
    metadata = assignment.targets[table].metadata
    fresh_us = assignment.started_unix_nano // 1000 - DAY_MICROS
    writer = assign_writers(metadata, rows, assignment.writers, fresh_us)
    order = np.argsort(writer, kind="stable")
    ordered = rows.take(pa.array(order))
    starts = np.flatnonzero(np.diff(writer[order], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(writer[order[start]]), ordered.slice(start, end - start)


def assign_writers(metadata: TableMetadata, rows: pa.Table, writers: int, fresh_us: int) -> npt.NDArray[np.int64]:
    """Return the writer of each row."""
    hashes = hash_partitions(rows, metadata.schema(), metadata.spec())
    has_buckets = any(isinstance(field.transform, BucketTransform) for field in metadata.spec().fields)
    if RECORD_ID in rows.column_names and not has_buckets:
        fresh = rows.column(TIME).combine_chunks().cast(pa.int64()).to_numpy() >= fresh_us
        hashes = np.where(fresh, hashes + ids_to_words(rows.column(RECORD_ID))[:, 0], hashes)
    return (hashes % np.uint64(writers)).astype(np.int64)


Decode = Callable[["Signal", pa.BinaryArray, Intake], Decoded]
PARCEL_BYTES = 32 * 1024 * 1024  # decoded bytes that are sent to the writers at once
REPORT, TALLY = "report", "tally"
WITHHELD_DETAIL = "withheld: rules of ingest.redaction apply, and this input could not be redacted"


@dataclass(frozen=True)
class Batch:
    """Messages of one signal from one source, each with its position in the source."""

    source: str
    signal: Signal
    intake: Intake
    messages: pa.BinaryArray
    positions: Sequence[int]
    rejected: Sequence[Rejected] = ()  # found while the messages were read, with positions in the source
    wants_rows: bool = True
    wants_rejects: bool = True
    bounds: Bounds | None = None  # of messages that clients sent
    received: Sequence[int] | None = None  # time of each message in nanoseconds, where it is known
    ranks: Ranks | None = None  # of each message, before the count of rows: their order among other sources
    is_ordered: bool = True  # false if the source has records in another order than that of their arrival


class Decoder:
    """Decodes the messages of one task.

    `parcels` yields buffered rows when there are enough, `finish` the rest and a report. Messages are redacted first,
    unless the receiver has done so (`is_redacted`). Rejected input that was never a message can't be redacted, so that
    only the reason is stored where rules apply.
    """

    def __init__(
        self, assignment: Assignment, decode_messages: Decode | None = None, *, is_redacted: bool = False
    ) -> None:
        self.assignment = assignment
        self._redaction = RedactionConfig() if is_redacted else assignment.config.redaction
        self._decode = decode_messages or decode_all
        self.tally = Tally()
        self._arrivals = ArrivalCounter()
        self._held: dict[str, list[pa.RecordBatch]] = {}
        self._held_bytes = 0

    def add(self, batch: Batch) -> Iterator[ExchangeBlock]:
        """Decode messages. A batch whose rows or rejections are in the lake already is decoded for the other only."""
        organization = batch.intake.organization_id
        self._reject(batch, self._withhold(organization, batch.rejected))
        self.tally.messages += len(batch.messages)
        for chunk in split_messages_into_chunks(batch.signal, batch.messages, batch.bounds):
            rejected = self._withhold(organization, chunk.rejected)
            if len(chunk.messages):
                messages = redact_messages(self._redaction, organization, batch.signal, chunk.messages)
                decoded = self._decode(batch.signal, messages, batch.intake)
                self._accept(batch, chunk, decoded)
                rejected = decoded.rejected
            self._reject(batch, [replace(bad, message=batch.positions[chunk.start + bad.message]) for bad in rejected])
            yield from self.parcels()

    def refuse(self, source: str, organization_id: str, bad: Rejected, signal: str = "") -> None:
        """Quarantine something that is not a message."""
        self.tally.rejected[bad.reason] += 1
        rejected = self._withhold(organization_id, [bad])
        self._buffer(QUARANTINE.name, quarantine_rows(self.assignment, organization_id, source, signal, rejected))

    def parcels(self) -> Iterator[ExchangeBlock]:
        """Yield the buffered rows if there are enough."""
        if self._held_bytes >= PARCEL_BYTES:
            yield from self._give()

    def finish(self, report: object) -> Iterator[ExchangeBlock]:
        """Yield the buffered rows, then the tally and the report of the task as JSON. Any writer forwards them.

        Parcels are stored in files. The content of a file is read as data, never as code, which a pickle would be.
        """
        yield from self._give()
        text = json.dumps({TALLY: self.tally.to_json(), REPORT: report})
        yield ExchangeBlock(0, REPORT, pa.table({REPORT: pa.array([text], pa.string())}))

    def _accept(self, batch: Batch, chunk: Chunk, decoded: Decoded) -> None:
        if not batch.wants_rows:
            return
        end = chunk.start + len(chunk.messages)
        rows = decoded.batch
        if batch.received is not None:
            rows = set_received(decoded, batch.received[chunk.start : end])
        if not batch.is_ordered:
            rows = clear_order(rows)
        else:
            ranks = None if batch.ranks is None else batch.ranks[chunk.start : end][decoded.message.to_numpy()]
            rows = self._arrivals.number(batch.source, rows, ranks)
        self._buffer(BY_SIGNAL[batch.signal].name, rows)
        self.tally.records[batch.signal.value] += decoded.batch.num_rows
        self.tally.duplicate_keys += decoded.duplicate_keys
        self.tally.pointless_metrics += decoded.pointless_metrics

    def _reject(self, batch: Batch, rejected: Sequence[Rejected]) -> None:
        if not rejected or not batch.wants_rejects:
            return
        self.tally.rejected.update(bad.reason for bad in rejected)
        organization = batch.intake.organization_id
        rows = quarantine_rows(self.assignment, organization, batch.source, batch.signal.value, rejected)
        self._buffer(QUARANTINE.name, rows)

    def _withhold(self, organization: str, rejected: Sequence[Rejected]) -> Sequence[Rejected]:
        """Return rejected input without content that can't be redacted: its bytes, and details that may quote them."""
        if not self._redaction.concerns(organization):
            return rejected
        return [replace(bad, detail=WITHHELD_DETAIL, payload=b"") for bad in rejected]

    def _buffer(self, table: str, rows: pa.RecordBatch) -> None:
        if table in self.assignment.targets and rows.num_rows:
            self._held.setdefault(table, []).append(rows)
            self._held_bytes += rows.nbytes

    def _give(self) -> Iterator[ExchangeBlock]:
        held, self._held, self._held_bytes = self._held, {}, 0
        for name, batches in held.items():
            for writer, rows in route_rows(self.assignment, name, pa.Table.from_batches(batches)):
                yield ExchangeBlock(writer, name, rows)


def decode_all(signal: Signal, messages: pa.BinaryArray, intake: Intake) -> Decoded:
    """Decode any messages. A message that breaks the decoder is found by bisection and rejected alone.

    Malformed messages are not errors here. This handles unforeseen failures, which must not stop a stream.
    """
    try:
        return decode(signal, messages, intake)
    except Exception as error:
        if len(messages) > 1:
            return _decode_halves(signal, messages, intake)
        reason = "overgrown_message" if isinstance(error, BoundsExceeded) else "undecodable_message"
        detail = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        bad = Rejected(reason, detail, 0, messages[0].as_py())
        return Decoded(pa.RecordBatch.from_pylist([], schema=BY_SIGNAL[signal].schema), (bad,))


def decode_within(bounds: Bounds, signal: Signal, messages: pa.BinaryArray, intake: Intake) -> Decoded:
    """Decode messages of clients in runs of bounded memory. A message over its bounds is rejected undecoded."""
    none = pa.RecordBatch.from_pylist([], schema=BY_SIGNAL[signal].schema)
    parts = [(0, Decoded(none))]
    for chunk in split_messages_into_chunks(signal, messages, bounds):
        decoded = decode_all(signal, chunk.messages, intake) if len(chunk.messages) else Decoded(none, chunk.rejected)
        parts.append((chunk.start, decoded))
    return _join_decoded(parts)


def _decode_halves(signal: Signal, messages: pa.BinaryArray, intake: Intake) -> Decoded:
    middle = len(messages) // 2
    first = decode_all(signal, messages.slice(0, middle), intake)
    second = decode_all(signal, messages.slice(middle), intake)
    return _join_decoded([(0, first), (middle, second)])


def _join_decoded(parts: Sequence[tuple[int, Decoded]]) -> Decoded:
    """Join the results of runs of messages, each with the position of its first message."""
    table = pa.Table.from_batches([part.batch for _start, part in parts]).combine_chunks()
    return Decoded(
        table.to_batches()[0] if table.num_rows else parts[0][1].batch,
        tuple(replace(bad, message=bad.message + start) for start, part in parts for bad in part.rejected),
        sum(part.duplicate_keys for _start, part in parts),
        sum(part.pointless_metrics for _start, part in parts),
        pa.concat_arrays([pc.add(part.message, start) for start, part in parts]),
    )
