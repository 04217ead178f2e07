"""Messages become rows: decoded, routed to writers, handed on in parcels of bounded size."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.ingest.chunks import cut
from neve.ingest.quarantine import quarantine_rows
from neve.ingest.route import route
from neve.ingest.tally import Tally
from neve.lake.exchange import Parcel
from neve.model.tables import BY_SIGNAL, QUARANTINE
from neve.otlp import Decoded, Intake, Overgrown, Rejected, decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.ingest.assignment import Assignment
    from neve.model.signals import Signal
    from neve.otlp.bounds import Bounds

Decode = Callable[["Signal", pa.BinaryArray, Intake], Decoded]
PARCEL_BYTES = 32 * 1024 * 1024  # how many decoded bytes go to the writers at once
REPORT, TALLY = "report", "tally"


@dataclass(frozen=True)
class Batch:
    """Messages of one signal from one source: each with its position there."""

    source: str
    signal: Signal
    intake: Intake
    messages: pa.BinaryArray
    positions: Sequence[int]
    rejected: Sequence[Rejected] = ()  # found while the messages were read; their positions are the source's
    wants_rows: bool = True
    wants_rejects: bool = True
    bounds: Bounds | None = None  # of messages that others made


class Decoder:
    """What one task decodes; `parcels` gives away what is held when it is enough, `finish` the rest and a report."""

    def __init__(self, assignment: Assignment, decode_messages: Decode | None = None) -> None:
        self.assignment = assignment
        self._decode = decode_messages or decode_all
        self.tally = Tally()
        self._held: dict[str, list[pa.RecordBatch]] = {}
        self._held_bytes = 0

    def take(self, batch: Batch) -> Iterator[Parcel]:
        """Decode messages; a batch whose rows or rejects are in the lake already is decoded for the other alone."""
        self._reject(batch, batch.rejected)
        self.tally.messages += len(batch.messages)
        for chunk in cut(batch.signal, batch.messages, batch.bounds):
            rejected = chunk.rejected
            if len(chunk.messages):
                decoded = self._decode(batch.signal, chunk.messages, batch.intake)
                self._accept(batch, decoded)
                rejected = decoded.rejected
            self._reject(batch, [replace(bad, message=batch.positions[chunk.start + bad.message]) for bad in rejected])
            yield from self.parcels()

    def refuse(self, source: str, organization_id: str, bad: Rejected, signal: str = "") -> None:
        """Put something into quarantine that is no message at all."""
        self.tally.rejected[bad.reason] += 1
        self._hold(QUARANTINE.name, quarantine_rows(self.assignment, organization_id, source, signal, [bad]))

    def parcels(self) -> Iterator[Parcel]:
        """What is held, when it is enough."""
        if self._held_bytes >= PARCEL_BYTES:
            yield from self._give()

    def finish(self, report: object) -> Iterator[Parcel]:
        """What is still held, then the tally and the task's report, a value of JSON; any writer passes them on.

        Parcels lie in files. What is read from a file is data, and never code as a pickle would be.
        """
        yield from self._give()
        words = json.dumps({TALLY: self.tally.to_json(), REPORT: report})
        yield Parcel(0, REPORT, pa.table({REPORT: pa.array([words], pa.string())}))

    def _accept(self, batch: Batch, decoded: Decoded) -> None:
        if not batch.wants_rows:
            return
        self._hold(BY_SIGNAL[batch.signal].name, decoded.batch)
        self.tally.records[batch.signal.value] += decoded.batch.num_rows
        self.tally.duplicate_keys += decoded.duplicate_keys
        self.tally.pointless_metrics += decoded.pointless_metrics

    def _reject(self, batch: Batch, rejected: Sequence[Rejected]) -> None:
        if not rejected or not batch.wants_rejects:
            return
        self.tally.rejected.update(bad.reason for bad in rejected)
        organization = batch.intake.organization_id
        rows = quarantine_rows(self.assignment, organization, batch.source, batch.signal.value, rejected)
        self._hold(QUARANTINE.name, rows)

    def _hold(self, table: str, rows: pa.RecordBatch) -> None:
        if table in self.assignment.targets and rows.num_rows:
            self._held.setdefault(table, []).append(rows)
            self._held_bytes += rows.nbytes

    def _give(self) -> Iterator[Parcel]:
        held, self._held, self._held_bytes = self._held, {}, 0
        for name, batches in held.items():
            for writer, rows in route(self.assignment, name, pa.Table.from_batches(batches)):
                yield Parcel(writer, name, rows)


def decode_all(signal: Signal, messages: pa.BinaryArray, intake: Intake) -> Decoded:
    """Decode messages, whatever they are: one that breaks the decoder is found by halving and refused alone.

    Malformed messages are no errors here; this is for what nobody has foreseen, which must not stop a stream.
    """
    try:
        return decode(signal, messages, intake)
    except Exception as error:
        if len(messages) > 1:
            return _halves(signal, messages, intake)
        reason = "overgrown_message" if isinstance(error, Overgrown) else "undecodable_message"
        words = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        bad = Rejected(reason, words, 0, messages[0].as_py())
        return Decoded(pa.RecordBatch.from_pylist([], schema=BY_SIGNAL[signal].schema), (bad,))


def decode_within(bounds: Bounds, signal: Signal, messages: pa.BinaryArray, intake: Intake) -> Decoded:
    """Decode messages of others in runs of bounded memory; one over its bounds is refused undecoded."""
    none = pa.RecordBatch.from_pylist([], schema=BY_SIGNAL[signal].schema)
    parts = [(0, Decoded(none))]
    for chunk in cut(signal, messages, bounds):
        decoded = decode_all(signal, chunk.messages, intake) if len(chunk.messages) else Decoded(none, chunk.rejected)
        parts.append((chunk.start, decoded))
    return _join(parts)


def _halves(signal: Signal, messages: pa.BinaryArray, intake: Intake) -> Decoded:
    middle = len(messages) // 2
    first = decode_all(signal, messages.slice(0, middle), intake)
    second = decode_all(signal, messages.slice(middle), intake)
    return _join([(0, first), (middle, second)])


def _join(parts: Sequence[tuple[int, Decoded]]) -> Decoded:
    """What runs of messages gave, as one; each with the place of its first message."""
    table = pa.Table.from_batches([part.batch for _start, part in parts]).combine_chunks()
    return Decoded(
        table.to_batches()[0] if table.num_rows else parts[0][1].batch,
        tuple(replace(bad, message=bad.message + start) for start, part in parts for bad in part.rejected),
        sum(part.duplicate_keys for _start, part in parts),
        sum(part.pointless_metrics for _start, part in parts),
    )
