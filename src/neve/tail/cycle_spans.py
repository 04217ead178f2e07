"""The spans that one cycle kept, in the order of their traces, so that every destination can go on where it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.lake.duck import literal
from neve.model.tables import SPANS
from neve.tail.export.position import Position
from neve.tail.export.stamp import stamp
from neve.tail.policy.thresholds import read_threshold
from neve.tail.policy.traces import MAX_THRESHOLD
from neve.tail.policy.tracestate import with_thresholds

if TYPE_CHECKING:
    import duckdb

BATCH_SPANS = 20_000
FOUND = "found"
Batches = Iterator[tuple[Position, pa.RecordBatch]]


@dataclass(frozen=True)
class CycleSpans:
    """The spans that a cycle kept, gathered."""

    connection: duckdb.DuckDBPyConnection
    number: int

    def batches(self, after: Position | None = None) -> Batches:
        """Stamped spans, whole traces at a time, each with the position that is reached with it.

        A trace that is too large for a batch comes alone and in parts; those that a cursor has passed come again, and
        are passed over by it.
        """
        begin = after.trace_id if after is not None and after.sequence == self.number else ""
        for huge in [*self._huge(begin), None]:
            if begin != huge:
                yield from self._between(begin, huge)
            if huge is not None:
                rows = self._rows(f"trace_id = unhex({literal(huge)})")
                yield from ((Position(self.number, huge, part), _stamped(some)) for part, some in enumerate(rows))
                begin = huge

    def _between(self, begin: str, end: str | None) -> Batches:
        """Traces after one and before another."""
        upper = f" AND trace_id < unhex({literal(end)})" if end is not None else ""
        for rows in _whole_traces(self._rows(f"trace_id > unhex({literal(begin)}){upper}")):
            last = rows.column("trace_id")[rows.num_rows - 1].as_py().hex()
            yield Position(self.number, last), _stamped(rows)

    def _huge(self, begin: str) -> list[str]:
        rows = self.connection.execute(
            f"SELECT lower(hex(trace_id)) FROM {FOUND} WHERE trace_id >= unhex({literal(begin)}) "
            f"GROUP BY trace_id HAVING count(*) > {2 * BATCH_SPANS} ORDER BY trace_id"
        ).fetchall()
        return [row[0] for row in rows]

    def _rows(self, condition: str) -> Iterator[pa.Table]:
        order = "trace_id, organization_id, start_time_unix_nano, span_id"
        reader = self.connection.cursor().execute(f"SELECT * FROM {FOUND} WHERE {condition} ORDER BY {order}")
        batches = reader.to_arrow_reader(BATCH_SPANS)
        return (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)


def _stamped(rows: pa.Table) -> pa.RecordBatch:
    """Rows of the table `spans` that say how many traces theirs stands for."""
    batch = rows.select(SPANS.schema.names).cast(SPANS.schema).combine_chunks().to_batches()[0]
    texts = rows.column("threshold").combine_chunks().dictionary_encode()
    known = [read_threshold(text) if text is not None else None for text in texts.dictionary.to_pylist()]
    values = np.array([MAX_THRESHOLD if value is None else value for value in [*known, None]], dtype=np.uint64)
    places = np.asarray(texts.indices.fill_null(len(known)))
    states = with_thresholds(batch.column("trace_state"), values[places])
    return stamp(batch, rows.column("adjusted_count").combine_chunks(), states)


def _whole_traces(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Rows cut between traces."""
    held: list[pa.Table] = []
    for part in parts:
        rows = pa.concat_tables([*held, part])
        last = pc.equal(rows.column("trace_id"), rows.column("trace_id")[rows.num_rows - 1])
        cut = rows.num_rows - pc.sum(last).as_py()
        if cut:
            yield rows.slice(0, cut)
        held = [rows.slice(cut)]
    yield from held
