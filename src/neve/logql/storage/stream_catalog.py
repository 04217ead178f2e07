"""Streams of a query.

Labels come from the table `log_streams`, and from the files of `logs` that it has not seen. Without the table they come
from `logs`. The answers are the same, but for the time between the first and the last line of a stream on a day: the
table has no gaps.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from neve.logql.storage.conditions import Conditions, write_conditions
from neve.logql.storage.log_source import to_time_window
from neve.logql.storage.streams import STREAM_COLUMNS, match_stream
from neve.promql.labels import make_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.logql.engine import LogWindow
    from neve.logql.language.syntax import LogQuery
    from neve.logql.storage.log_source import LogReader, TimeWindow
    from neve.promql.labels import Labels

__all__ = ["list_streams"]

_MICRO = 1000  # nanoseconds: times of the table are cut to microseconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# ruff: noqa: S608  # parameters


def list_streams(reader: LogReader, query: LogQuery, window: LogWindow) -> Iterator[Labels]:
    """Yield the labels of the streams of a query. Some come twice."""
    bounds = to_time_window(window)
    if bounds is None:
        return
    conditions = write_conditions(query, window)
    sql, parameters = f"SELECT DISTINCT {STREAM_COLUMNS} FROM logs WHERE {conditions.sql}", conditions.parameters
    run = reader.run
    if reader.run_new is not None:
        known = _write_known(query, window)
        sql = f"SELECT {STREAM_COLUMNS} FROM log_streams WHERE {known.sql} UNION ALL {sql}"
        parameters = [*known.parameters, *parameters]
        run, bounds = reader.run_new, _to_days(bounds)
    for batch in run(sql, parameters, bounds):
        reader.check()
        for row in batch.to_pylist():
            yield make_labels(reader.find_stream(row)[0])


def _write_known(query: LogQuery, window: LogWindow) -> Conditions:
    """Return the conditions on rows of the table of streams."""
    found = Conditions()
    found.add("last_time_unix_nano >= ? AND first_time_unix_nano < ?", window.start_ns - _MICRO + 1, window.end_ns)
    for matcher in query.matchers:
        text, parameters = match_stream(matcher)
        found.add(text, *parameters)
    return found


def _to_days(bounds: TimeWindow) -> TimeWindow:
    """Return a time range from the start of its first day: a row of the table of streams has the time of its day."""
    since, until = bounds
    return (since or _EPOCH).replace(hour=0, minute=0, second=0, microsecond=0), until
