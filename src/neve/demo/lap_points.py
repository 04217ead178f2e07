"""The metric points of a lap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.demo.body import Body, bodies
from neve.demo.pace import GRAIN, numbered
from neve.demo.wire_metrics import Measurement, measurements, metrics_request
from neve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from neve.demo.cast import Cast
    from neve.demo.metric import Point, Stream
    from neve.demo.pace import Pace
    from neve.demo.template import Draft, Ink
    from neve.demo.timeline import Ints


class Warp:
    """From the instants of exports in the run to those in a lap, where an export's turn is that of its first point."""

    def __init__(self, started: int, instants: Ints, pace: Pace) -> None:
        known, firsts = np.unique(instants, return_index=True)
        turns = [pace.at(int(first)) // GRAIN * GRAIN for first in firsts]
        before = turns[0] - (turns[1] - turns[0] if len(turns) > 1 else GRAIN)
        self._known = np.concatenate(([min(started, int(known[0]) - 1)], known))
        self._turns = np.array([before, *turns])

    def __call__(self, instant: int) -> int:
        """The instant in the lap; what was before the run's start is at the lap's."""
        return round(float(np.interp(instant, self._known, self._turns)))


def point_bodies(streams: Iterable[Stream], cast: Cast, started: int, pace: Pace) -> Iterator[Body]:
    """As many points as the cast has spans, those that came first; told by time. Counts begin anew in each lap."""
    count = len(cast.spans)
    chosen = sorted(measurements(streams), key=lambda item: item.point.time_unix_nano)[:count]
    if len(chosen) < count:
        raise ConfigError(f"the run has {len(chosen)} metric points, expected as many as spans, which are {count}")
    instants = np.array([item.point.time_unix_nano for item in chosen], np.int64)
    warp = Warp(started, instants, pace)
    keys = [numbered(warp(int(instant)), number) for number, instant in enumerate(instants)]

    def draft(part: slice) -> Draft:
        return lambda ink: _message(chosen[part], keys[part], warp, cast, ink)

    return bodies(keys, keys, pace, draft)


def _message(items: Sequence[Measurement], keys: Sequence[int], warp: Warp, cast: Cast, ink: Ink) -> bytes:
    moved = [item._replace(point=_moved(item.point, at, warp, cast, ink)) for item, at in zip(items, keys, strict=True)]
    return metrics_request(moved).SerializeToString()


def _moved(point: Point, at: int, warp: Warp, cast: Cast, ink: Ink) -> Point:
    """A point at a time; who looks for its example finds the trace, unless that is not in the cast."""
    moved = type(point)()
    moved.CopyFrom(point)  # type: ignore[arg-type]
    moved.time_unix_nano = ink.time(at)
    if point.start_time_unix_nano:
        moved.start_time_unix_nano = ink.time(warp(point.start_time_unix_nano))
    for example in getattr(moved, "exemplars", ()):
        move = cast.moves.get(example.trace_id)
        example.time_unix_nano = ink.time(at if move is None else example.time_unix_nano + move)
        example.trace_id = cast.trace_id(example.trace_id, ink)
        example.span_id = cast.span_id(example.span_id, ink)
    return moved
