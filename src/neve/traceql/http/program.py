"""Entry of query workers: answer one request of Tempo's HTTP API.

Parsing, evaluation and the body of the response happen here, in a process that the server limits and can end. Rows of
the result are pieces of the body.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from neve.errors import LimitExceeded
from neve.promql.budget import check_deadline
from neve.promql.http.program import pack_pieces
from neve.traceql.http.answers import ANSWERS, Request
from neve.traceql.http.parameters import Parameters
from neve.traceql.storage.span_reader import SpanReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from neve.promql.http.program import Context
    from neve.traceql.storage.span_reader import TimeWindow

__all__ = ["answer", "open_spans"]

SPAN_BYTES = 400  # memory of a span with the values that are computed for it
READ_SHARE = 4  # of the memory is for the rows that statements return


def answer(arguments: Mapping[str, Any], context: Context) -> Iterator[pa.RecordBatch]:
    """Answer a request: `path`, `pairs`, `now_ns`, `is_protobuf`, `seconds` (timeout) and `max_rows` (items).

    `has_trace_summaries` is whether the lake has this table.
    """
    deadline = None if arguments["seconds"] is None else time.monotonic() + arguments["seconds"]
    parameters = Parameters([(name, text) for name, text in arguments["pairs"]], arguments["now_ns"])
    reader = open_spans(context, deadline, has_summaries=bool(arguments.get("has_trace_summaries")))
    request = Request(parameters, reader, arguments["is_protobuf"])
    found = ANSWERS[arguments["path"]](request)
    most = arguments["max_rows"]
    if most is not None and len(found.items) > most:
        raise LimitExceeded(f"the result has more than {most:,} traces, series or values", limit="rows")
    yield from pack_pieces(found.pieces())


def open_spans(context: Context, deadline: float | None, *, has_summaries: bool = False) -> SpanReader:
    """Return the spans that a worker's context can read."""

    def check() -> None:
        context.check()
        check_deadline(deadline)

    def run(
        sql: str, parameters: Sequence[Any], window: TimeWindow, *, only_new_files: bool = False
    ) -> pa.RecordBatchReader:
        return context.read(sql, parameters, *window, only_new_files=only_new_files)

    memory = context.memory_bytes
    run_new = partial(run, only_new_files=True) if has_summaries else None
    return SpanReader(run, check, memory // SPAN_BYTES, memory // READ_SHARE, run_new)
