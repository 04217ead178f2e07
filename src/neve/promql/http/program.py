"""The program of query workers that answers a request of Prometheus' HTTP API.

Everything that a request costs happens here, in a process that the server limits and can end: parsing, evaluation and
the JSON of the response. Rows of the result are pieces of the response's body, so that the server only passes them on.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from neve.errors import LimitExceeded
from neve.promql.budget import check_deadline
from neve.promql.evaluator import Options
from neve.promql.http.answers import ANSWERS, Query
from neve.promql.http.parameters import Parameters
from neve.promql.storage.metric_source import MetricSource
from neve.promql.storage.rolled_windows import RolledLevel
from neve.promql.storage.sample_blocks import AHEAD_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from neve.promql.storage.metric_source import TimeWindow
    from neve.promql.storage.series_catalog import KeptValues

__all__ = ["BODY", "Context", "answer", "open_series", "pack_document", "pack_pieces"]

BODY = pa.schema([pa.field("body", pa.binary())])
PIECE_BYTES = 512 * 1024
# Memory of one sample or cell with all intermediate values, of one point of the result, and of one series.
SAMPLE_BYTES, POINT_BYTES, SERIES_BYTES = 100, 1000, 10_000
READ_SHARE = 4  # of the memory is for the rows that statements return
AHEAD_BYTES = 256  # of these rows for each sample that is read for later queries: an eighth of them


@dataclass(slots=True)
class ReadBudget:
    """Data that the statements of one expression may still return together."""

    points: int
    bytes: int
    rows: int  # about one for each series

    def charge(self, batch: pa.RecordBatch) -> None:
        """Raise `LimitExceeded` if the statements returned too much."""
        self.bytes -= batch.nbytes
        if "time_unix_nano" in batch.schema.names:
            self.points -= batch.num_rows
        else:
            self.rows -= batch.num_rows
        if "points" in batch.schema.names:
            self.points -= len(batch.column("points").flatten())
        if min(self.points, self.bytes, self.rows) < 0:
            message = "query processing would load too many samples into memory in query execution"
            raise LimitExceeded(message, limit="max_samples", hint="narrow the time range or the selector")


class Context(Protocol):
    """The part of a worker's context that this program uses."""

    @property
    def memory_bytes(self) -> int:
        """Return the memory of the query."""

    def read(
        self,
        sql: str,
        parameters: Sequence[Any],
        since: datetime | None,
        until: datetime | None,
        *,
        only_new_files: bool = False,
        added_since: Mapping[str, str] | None = None,
    ) -> pa.RecordBatchReader:
        """Run a statement within a half-open time range. Its rows are read before the next statement starts."""

    def check(self) -> None:
        """Raise an error if the query was interrupted."""

    @property
    def kept(self) -> KeptValues:
        """Return values of queries before, on the same versions of the tables."""

    @property
    def rollups(self) -> Sequence[tuple[str, int, Sequence[tuple[int, int]], str]]:
        """Return tables of rollups, seconds of windows, ranges of microseconds that are current, and versions."""


def answer(arguments: Mapping[str, Any], context: Context) -> Iterator[pa.RecordBatch]:
    """Answer a request: `path`, `pairs` (parameters), `now_ms`, and what `open_series` and `max_rows` (items) need."""
    source, options = open_series(arguments, context)
    parameters = Parameters([(name, text) for name, text in arguments["pairs"]], arguments["now_ms"])
    found = ANSWERS[arguments["path"]](Query(parameters, source, options))
    most = arguments["max_rows"]
    if most is not None and len(found.items) > most:
        raise LimitExceeded(f"the result has more than {most:,} series or values", limit="rows")
    yield from pack_pieces(found.pieces())


def open_series(arguments: Mapping[str, Any], context: Context) -> tuple[MetricSource, Options]:
    """Return the series of a program, and the limits of its expressions, which share one budget.

    Arguments are `seconds` (timeout or `None`), `has_series_table` (whether the lake has the table of series),
    `has_recorded`, `has_service_edges` and `has_spans` (whether it has results of rules, and the service map, and
    whether the request names span metrics), and `reads_ahead`
    (whether a query may read more than it needs, for later ones).
    """
    deadline = None if arguments["seconds"] is None else time.monotonic() + arguments["seconds"]
    memory = context.memory_bytes
    samples, rows = memory // SAMPLE_BYTES, memory // SERIES_BYTES
    budget = ReadBudget(samples, memory // READ_SHARE, rows)
    options = Options(max_samples=samples, max_points=memory // POINT_BYTES, deadline=deadline)

    def check() -> None:
        context.check()
        check_deadline(deadline)

    def run(
        sql: str,
        parameters: Sequence[Any],
        window: TimeWindow,
        *,
        only_new_files: bool = False,
        added_since: Mapping[str, str] | None = None,
    ) -> pa.Table:
        check()
        reader = context.read(sql, parameters, *window, only_new_files=only_new_files, added_since=added_since)
        batches = []
        for batch in reader:
            check()
            budget.charge(batch)
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)

    run_new = partial(run, only_new_files=True) if arguments["has_series_table"] else None

    def run_added(sql: str, parameters: Sequence[Any], window: TimeWindow, added_since: Mapping[str, str]) -> pa.Table:
        return run(sql, parameters, window, added_since=added_since)

    rollups = [RolledLevel(*one) for one in context.rollups]
    ahead = min(AHEAD_SAMPLES, memory // READ_SHARE // AHEAD_BYTES) if arguments.get("reads_ahead") else 0
    source = MetricSource(
        *(run, check, run_new, arguments["has_recorded"], arguments.get("has_service_edges", False)),
        kept=context.kept,
        run_added=run_added,
        rollups=rollups,
        ahead_samples=ahead,
        has_spans=arguments.get("has_spans", False),
    )
    return source, options


def pack_pieces(pieces: Iterator[str] | Iterator[bytes]) -> Iterator[pa.RecordBatch]:
    """Yield the pieces in batches of about `PIECE_BYTES`."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece if isinstance(piece, bytes) else piece.encode(errors="replace"))
        size += len(held[-1])
        if size >= PIECE_BYTES:
            yield _batch(held)
            held, size = [], 0
    if held:
        yield _batch(held)


def pack_document(document: Any) -> Iterator[pa.RecordBatch]:
    """Yield the JSON of a document in batches of `PIECE_BYTES`."""
    body = json.dumps(document, separators=(",", ":")).encode(errors="replace")
    for first in range(0, len(body), PIECE_BYTES):
        yield _batch([body[first : first + PIECE_BYTES]])


def _batch(pieces: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(pieces, pa.binary())], schema=BODY)
