"""The program of query workers that answers a request of Prometheus' HTTP API.

Everything that a request costs happens here, in a process that the server limits and can end: parsing, evaluation and
the JSON of the response. Rows of the result are pieces of the response's body, so that the server only passes them on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from neve.errors import LimitExceeded
from neve.promql.budget import check_deadline
from neve.promql.evaluator import Options
from neve.promql.http.answers import ANSWERS, Query
from neve.promql.http.parameters import Parameters
from neve.promql.storage.metric_source import MetricSource
from neve.promql.storage.read_budget import ReadBudget

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from neve.promql.storage.metric_source import TimeWindow

__all__ = ["BODY", "answer"]

BODY = pa.schema([pa.field("body", pa.binary())])
PIECE_BYTES = 512 * 1024
# Memory of one sample or cell with all intermediate values, of one point of the result, and of one series.
SAMPLE_BYTES, POINT_BYTES, SERIES_BYTES = 100, 1000, 10_000
READ_SHARE = 4  # of the memory is for the rows that statements return


class Context(Protocol):
    """The part of a worker's context that this program uses."""

    @property
    def memory_bytes(self) -> int:
        """Return the memory of the query."""

    def read(
        self, sql: str, parameters: Sequence[Any], since: datetime | None, until: datetime | None
    ) -> pa.RecordBatchReader:
        """Run a statement within a half-open time range. Its rows are read before the next statement starts."""

    def check(self) -> None:
        """Raise an error if the query was interrupted."""


def answer(arguments: Mapping[str, Any], context: Context) -> Iterator[pa.RecordBatch]:
    """Answer a request: `path`, `pairs` (parameters), `now_ms`, `seconds` (timeout) and `max_rows` (items)."""
    deadline = None if arguments["seconds"] is None else time.monotonic() + arguments["seconds"]
    memory = context.memory_bytes
    samples, rows = memory // SAMPLE_BYTES, memory // SERIES_BYTES
    budget = ReadBudget(samples, memory // READ_SHARE, rows)
    options = Options(max_samples=samples, max_points=memory // POINT_BYTES, deadline=deadline)
    parameters = Parameters([(name, text) for name, text in arguments["pairs"]], arguments["now_ms"])
    found = ANSWERS[arguments["path"]](Query(parameters, _open_series(context, budget, deadline), options))
    most = arguments["max_rows"]
    if most is not None and len(found.items) > most:
        raise LimitExceeded(f"the result has more than {most:,} series or values", limit="rows")
    yield from _pack(found.pieces())


def _open_series(context: Context, budget: ReadBudget, deadline: float | None) -> MetricSource:
    def check() -> None:
        context.check()
        check_deadline(deadline)

    def run(sql: str, parameters: Sequence[Any], window: TimeWindow) -> pa.Table:
        check()
        reader, batches = context.read(sql, parameters, *window), []
        for batch in reader:
            check()
            budget.charge(batch)
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)

    return MetricSource(run, check)


def _pack(pieces: Iterator[str]) -> Iterator[pa.RecordBatch]:
    """Yield the pieces in batches of about `PIECE_BYTES`."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece.encode(errors="replace"))
        size += len(held[-1])
        if size >= PIECE_BYTES:
            yield _batch(held)
            held, size = [], 0
    if held:
        yield _batch(held)


def _batch(pieces: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(pieces, pa.binary())], schema=BODY)
