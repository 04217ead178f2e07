"""The spans that one cycle kept, in the order of their traces, so that every destination can go on where it was.

They lie in lots of whole traces, a file each; a trace that is too large for a batch has a lot of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.tables import SPANS
from neve.tail.export.position import Position
from neve.tail.export.stamp import stamp
from neve.tail.policy.thresholds import read_threshold
from neve.tail.policy.traces import MAX_THRESHOLD
from neve.tail.policy.tracestate import with_thresholds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.tail.export.sorted_file import OrderedRows, SortedFile

BATCH_SPANS = 20_000
ORDER = ("trace_id", "organization_id", "start_time_unix_nano", "span_id")
Batches = Iterator[tuple[Position, pa.RecordBatch]]


@dataclass(frozen=True)
class Lot:
    """Spans of whole traces; of one alone where it is huge."""

    file: SortedFile
    huge: bool


@dataclass(frozen=True)
class CycleSpans:
    """Spans that a cycle kept: all of them, or those of some traces where they are many.

    `missing` is how many spans less were found than were there when the traces were decided.
    """

    number: int
    lots: Sequence[Lot]
    missing: int = 0

    def batches(self, after: Position | None = None) -> Batches:
        """Stamped spans, whole traces at a time, each with the position that is reached with it.

        A trace that is too large for a batch comes alone and in parts; those that a cursor has passed come again, and
        are passed over by it.
        """
        begin = after.trace_id if after is not None and after.sequence == self.number else ""
        for lot in self.lots:
            if lot.file.rows:
                rows = lot.file.ordered(ORDER)
                yield from self._parts(rows) if lot.huge else self._whole_traces(rows, bytes.fromhex(begin))

    def _parts(self, rows: OrderedRows) -> Batches:
        """A huge trace."""
        for part, first in enumerate(range(0, len(rows), BATCH_SPANS)):
            found = rows.slice(first, first + BATCH_SPANS)
            yield Position(self.number, found.column("trace_id")[0].as_py().hex(), part), _stamped(found)

    def _whole_traces(self, rows: OrderedRows, begin: bytes) -> Batches:
        """The traces after one."""
        traces = rows.column("trace_id")
        first = pc.sum(pc.less_equal(traces, pa.scalar(begin, traces.type))).as_py()
        for end in _cuts(traces, first, BATCH_SPANS):
            yield Position(self.number, traces[end - 1].as_py().hex()), _stamped(rows.slice(first, end))
            first = end


def _cuts(traces: pa.Array, first: int, size: int) -> Iterator[int]:
    """Where batches end: after a trace, and not before there are so many rows.

    >>> list(_cuts(pa.array([b"a", b"b", b"b", b"b", b"c"]), 0, 2))
    [4, 5]
    """
    ends = pc.run_end_encode(traces).run_ends.to_numpy()
    while first < len(traces):
        place = min(int(np.searchsorted(ends, first + size)), len(ends) - 1)
        first = int(ends[place])
        yield first


def _stamped(rows: pa.Table) -> pa.RecordBatch:
    """Rows of the table `spans` that say how many traces theirs stands for."""
    batch = rows.select(SPANS.schema.names).cast(SPANS.schema).combine_chunks().to_batches()[0]
    texts = rows.column("threshold").combine_chunks().dictionary_encode()
    known = [read_threshold(text) if text is not None else None for text in texts.dictionary.to_pylist()]
    values = np.array([MAX_THRESHOLD if value is None else value for value in [*known, None]], dtype=np.uint64)
    places = np.asarray(texts.indices.fill_null(len(known)))
    states = with_thresholds(batch.column("trace_state"), values[places])
    return stamp(batch, rows.column("adjusted_count").combine_chunks(), states)
