"""Entry of query workers: answer one request of Loki's HTTP API.

Parsing, evaluation and the JSON of the response happen here, in a process that the server limits and can end. Rows of
the result are pieces of the response's body.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from neve.errors import LimitExceeded
from neve.logql.http.answers import ANSWERS, Query
from neve.logql.http.parameters import Parameters
from neve.logql.storage.log_source import LogReader
from neve.promql.budget import check_deadline
from neve.promql.evaluator import Options
from neve.promql.http.program import POINT_BYTES, SAMPLE_BYTES, pack_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from neve.logql.storage.log_source import TimeWindow
    from neve.promql.http.program import Context

__all__ = ["answer", "open_logs"]

_LINE_SHARE = 8  # a line takes this much of its Arrow bytes more memory as an object of Python


def answer(arguments: Mapping[str, Any], context: Context) -> Iterator[pa.RecordBatch]:
    """Answer a request: `path`, `pairs`, `now_ns`, `has_categories`, `seconds` (timeout) and `max_rows` (items).

    `has_log_streams` and `has_log_volumes` are whether the lake has these tables.
    """
    deadline = None if arguments["seconds"] is None else time.monotonic() + arguments["seconds"]
    memory = context.memory_bytes
    options = Options(max_samples=memory // SAMPLE_BYTES, max_points=memory // POINT_BYTES, deadline=deadline)
    pairs = [(name, text) for name, text in arguments["pairs"]]
    parameters = Parameters(pairs, arguments["now_ns"], arguments["has_categories"])
    reader = open_logs(
        context,
        deadline,
        has_streams=bool(arguments.get("has_log_streams")),
        has_volumes=bool(arguments.get("has_log_volumes")),
    )
    found = ANSWERS[arguments["path"]](Query(parameters, reader, options))
    most = arguments["max_rows"]
    if most is not None and len(found.items) > most:
        raise LimitExceeded(f"the result has more than {most:,} series, streams or values", limit="rows")
    yield from pack_pieces(found.pieces())


def open_logs(
    context: Context, deadline: float | None, *, has_streams: bool = False, has_volumes: bool = False
) -> LogReader:
    """Return the lines that a worker's context can read."""

    def check() -> None:
        context.check()
        check_deadline(deadline)

    def run(
        sql: str, parameters: Sequence[Any], window: TimeWindow, *, only_new_files: bool = False
    ) -> Iterator[pa.RecordBatch]:
        check()
        for batch in context.read(sql, parameters, *window, only_new_files=only_new_files):
            check()
            if batch.nbytes * _LINE_SHARE > context.memory_bytes:
                raise LimitExceeded("the lines of the query are too long", limit="memory")
            yield batch

    run_new = partial(run, only_new_files=True)
    return LogReader(run, check, run_new if has_streams else None, run_new if has_volumes else None)
