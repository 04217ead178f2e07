"""The logs of a lap."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from neve.demo.body import Body, bodies
from neve.demo.pace import numbered
from neve.demo.wire_logs_binary import logs_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from neve.demo.cast import Cast
    from neve.demo.interval import Interval
    from neve.demo.log import Log
    from neve.demo.pace import Pace
    from neve.demo.template import Draft, Ink


class Placed(NamedTuple):
    """A log record and its time in the lap."""

    at: int
    log: Log


def log_bodies(logs: Iterable[Log], cast: Cast, run: Interval, pace: Pace) -> Iterator[Body]:
    """As many records as the cast has spans: those of its traces, and what was logged outside of any; told by time."""
    count = len(cast.spans)
    found = sorted(_placed(logs, cast, run, pace.at(count)), key=lambda placed: placed.at)
    spread = [found[number * len(found) // count] for number in range(count)]
    keys = [numbered(placed.at, number) for number, placed in enumerate(spread)]

    def draft(part: slice) -> Draft:
        chosen = list(zip(keys[part], (placed.log for placed in spread[part]), strict=True))
        return lambda ink: logs_message(_moved(log, at, cast, ink) for at, log in chosen).SerializeToString()

    return bodies(keys, keys, pace, draft)


def _placed(logs: Iterable[Log], cast: Cast, run: Interval, whole: int) -> Iterator[Placed]:
    """Logs of a trace stay with it; the others are spread over the lap as they were over the run."""
    for log in logs:
        if not log.trace_id:
            yield Placed((log.time - run.start) * whole // (run.end - run.start), log)
        elif (move := cast.moves.get(log.trace_id)) is not None:
            yield Placed(log.time + move, log)


def _moved(log: Log, at: int, cast: Cast, ink: Ink) -> Log:
    return log._replace(
        time=ink.time(at),
        observed=ink.time(at + log.observed - log.time),
        trace_id=cast.trace_id(log.trace_id, ink),
        span_id=cast.span_id(log.span_id, ink),
    )
