"""A recording of a few minutes of the shop: spans, logs and points encoded once as messages, to be played in laps.

A trace is moved in time as a whole, so that its spans still fit together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from neve.demo.generate import MINUTES_MIN, TRACES_PER_MINUTE, all_logs
from neve.demo.incident import plan_incident
from neve.demo.message_template import GRAIN, ID_BYTES, LapMessage, Pace, make_unique_time, split_into_messages
from neve.demo.metrics import metric_streams
from neve.demo.otlp_encoding import Measurement, group_by, logs_message, measurements, metrics_request, traces_request
from neve.demo.simulation import simulate
from neve.demo.spans import MINUTE, Interval
from neve.errors import ConfigError
from neve.model.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from neve.demo.logs import Log
    from neve.demo.message_template import DraftEncoder, DraftMode
    from neve.demo.metric_points import Ints, Point, Stream
    from neve.demo.spans import Span


@dataclass(frozen=True)
class TraceSelection:
    """Spans in sending order, and the mapping of their times and ids."""

    spans: tuple[Span, ...]
    moves: Mapping[bytes, int]  # by trace: the offset added to its times
    numbers: Mapping[bytes, int]  # by span

    def trace_id(self, before: bytes, mode: DraftMode) -> bytes:
        """Return the id of a trace in every lap; an empty id stays empty."""
        return mode.identity(before[ID_BYTES:]) if before else b""

    def span_id(self, before: bytes, mode: DraftMode) -> bytes:
        """Return the id of a span in every lap: its number, which a query of the table can look for."""
        if not before:
            return b""
        number = self.numbers.get(before)
        return mode.identity(before[ID_BYTES:] if number is None else number.to_bytes(ID_BYTES, "big"))


def select_traces(spans: Iterable[Span], records: int, pace: Pace) -> TraceSelection:
    """Select whole traces by their end until there are enough spans; each ends when its first span is due.

    An earlier send time would put its spans into the future.
    """
    traces = sorted(group_by(spans, lambda span: span.trace_id).values(), key=_trace_end)
    chosen: list[Span] = []
    moves: dict[bytes, int] = {}
    for trace in traces:
        if len(chosen) >= records:
            break
        moves[trace[0].trace_id] = pace.at(len(chosen)) - _trace_end(trace)
        chosen += sorted(trace, key=lambda span: span.end)
    return TraceSelection(tuple(chosen), moves, {span.span_id: number for number, span in enumerate(chosen)})


def _trace_end(trace: list[Span]) -> int:
    return max(span.end for span in trace)


def span_messages(selection: TraceSelection, pace: Pace) -> Iterator[LapMessage]:
    """Return the selected spans as messages; the key of a span is its number."""
    ends = [span.end + selection.moves[span.trace_id] for span in selection.spans]

    def draft(part: slice) -> DraftEncoder:
        return lambda mode: traces_request(
            _move_span(span, selection, mode) for span in selection.spans[part]
        ).SerializeToString()

    return split_into_messages(range(len(selection.spans)), ends, pace, draft)


def _move_span(span: Span, selection: TraceSelection, mode: DraftMode) -> Span:
    move = selection.moves[span.trace_id]
    events = tuple(event._replace(time=mode.time(event.time + move)) for event in span.events)
    links = tuple(
        link._replace(trace_id=selection.trace_id(link.trace_id, mode), span_id=selection.span_id(link.span_id, mode))
        for link in span.links
    )
    return span._replace(
        trace_id=selection.trace_id(span.trace_id, mode),
        span_id=selection.span_id(span.span_id, mode),
        parent_id=selection.span_id(span.parent_id, mode),
        start=mode.time(span.start + move),
        end=mode.time(span.end + move),
        events=events,
        links=links,
    )


class PlacedLog(NamedTuple):
    """A log record and its time in the lap."""

    at: int
    log: Log


def log_messages(logs: Iterable[Log], selection: TraceSelection, run: Interval, pace: Pace) -> Iterator[LapMessage]:
    """Return as many log records as selected spans: those of the traces and process logs; the key is the time."""
    count = len(selection.spans)
    found = sorted(_place_logs(logs, selection, run, pace.at(count)), key=lambda placed: placed.at)
    spread = [found[number * len(found) // count] for number in range(count)]
    keys = [make_unique_time(placed.at, number) for number, placed in enumerate(spread)]

    def draft(part: slice) -> DraftEncoder:
        chosen = list(zip(keys[part], (placed.log for placed in spread[part]), strict=True))
        return lambda mode: logs_message(_move_log(log, at, selection, mode) for at, log in chosen).SerializeToString()

    return split_into_messages(keys, keys, pace, draft)


def _place_logs(logs: Iterable[Log], selection: TraceSelection, run: Interval, whole: int) -> Iterator[PlacedLog]:
    """Keep the logs of a trace with it; spread the others over the lap as they were over the run."""
    for log in logs:
        if not log.trace_id:
            yield PlacedLog((log.time - run.start) * whole // (run.end - run.start), log)
        elif (move := selection.moves.get(log.trace_id)) is not None:
            yield PlacedLog(log.time + move, log)


def _move_log(log: Log, at: int, selection: TraceSelection, mode: DraftMode) -> Log:
    return log._replace(
        time=mode.time(at),
        observed=mode.time(at + log.observed - log.time),
        trace_id=selection.trace_id(log.trace_id, mode),
        span_id=selection.span_id(log.span_id, mode),
    )


class ExportTimeMap:
    """A map from export instants of the run to a lap, where an export is due with its first point."""

    def __init__(self, started: int, instants: Ints, pace: Pace) -> None:
        known, firsts = np.unique(instants, return_index=True)
        turns = [pace.at(int(first)) // GRAIN * GRAIN for first in firsts]
        before = turns[0] - (turns[1] - turns[0] if len(turns) > 1 else GRAIN)
        self._known = np.concatenate(([min(started, int(known[0]) - 1)], known))
        self._turns = np.array([before, *turns])

    def __call__(self, instant: int) -> int:
        """Return the instant in the lap; an instant before the start of the run becomes the start of the lap."""
        return round(float(np.interp(instant, self._known, self._turns)))


def point_messages(
    streams: Iterable[Stream], selection: TraceSelection, started: int, pace: Pace
) -> Iterator[LapMessage]:
    """Return as many points as selected spans, the earliest first; the key is the time. Counts restart in each lap."""
    count = len(selection.spans)
    chosen = sorted(measurements(streams), key=lambda item: item.point.time_unix_nano)[:count]
    if len(chosen) < count:
        raise ConfigError(f"the run has {len(chosen)} metric points, expected as many as spans, which are {count}")
    instants = np.array([item.point.time_unix_nano for item in chosen], np.int64)
    time_map = ExportTimeMap(started, instants, pace)
    keys = [make_unique_time(time_map(int(instant)), number) for number, instant in enumerate(instants)]

    def draft(part: slice) -> DraftEncoder:
        return lambda mode: _encode_points(chosen[part], keys[part], time_map, selection, mode)

    return split_into_messages(keys, keys, pace, draft)


def _encode_points(
    items: Sequence[Measurement],
    keys: Sequence[int],
    time_map: ExportTimeMap,
    selection: TraceSelection,
    mode: DraftMode,
) -> bytes:
    moved = [
        item._replace(point=_move_point(item.point, at, time_map, selection, mode))
        for item, at in zip(items, keys, strict=True)
    ]
    return metrics_request(moved).SerializeToString()


def _move_point(point: Point, at: int, time_map: ExportTimeMap, selection: TraceSelection, mode: DraftMode) -> Point:
    """Return a point at another time; its exemplar refers to the trace in the lap if that trace is selected."""
    moved = type(point)()
    moved.CopyFrom(point)  # type: ignore[arg-type]
    moved.time_unix_nano = mode.time(at)
    if point.start_time_unix_nano:
        moved.start_time_unix_nano = mode.time(time_map(point.start_time_unix_nano))
    for example in getattr(moved, "exemplars", ()):
        move = selection.moves.get(example.trace_id)
        example.time_unix_nano = mode.time(at if move is None else example.time_unix_nano + move)
        example.trace_id = selection.trace_id(example.trace_id, mode)
        example.span_id = selection.span_id(example.span_id, mode)
    return moved


LAP_SECONDS = 60
MIN_LAP_RECORDS, MAX_LAP_RECORDS = 3_000, 12_000  # of each signal: enough to distinguish laps, and quick to encode
POINTS_PER_MINUTE = 900  # at least; there are more spans and logs
RUN_START = 1_767_225_600_000_000_000  # an arbitrary instant: all times are replaced


# A lap with an incident is longer, so that the services are healthy for some minutes between two of them. Its run has
# as many spans as points in a minute, so that the incident is at the same time in both.
INCIDENT_LAP_SECONDS = 240
INCIDENT_TRACES_SHARE = 0.41
INCIDENT_MIDDLE, INCIDENT_LENGTH = 0.5, 0.3  # of the lap


@dataclass(frozen=True)
class LapFailure:
    """The first failed request of the incident in a lap: its service, and its end in nanoseconds after the start."""

    service: str
    nanos: int


@dataclass(frozen=True)
class Recording:
    """One lap: the same number of records of each signal, the duration, and the incident if there is one."""

    bodies: Mapping[Signal, Sequence[LapMessage]]
    nanos: int
    failure: LapFailure | None = None


def make_recording(rate: float, *, seed: int = 7, records: int | None = None, has_incident: bool = False) -> Recording:
    """Run the shop and encode its telemetry, at a rate of records of each signal per second."""
    pace = Pace(rate)
    seconds = INCIDENT_LAP_SECONDS if has_incident else LAP_SECONDS
    wanted = records or min(MAX_LAP_RECORDS, max(MIN_LAP_RECORDS, int(rate * seconds)))
    minutes = max(MINUTES_MIN, -(-wanted // POINTS_PER_MINUTE))
    run = Interval(RUN_START, RUN_START + minutes * MINUTE)
    incident, per_minute = plan_incident(run.start, minutes), TRACES_PER_MINUTE
    if has_incident:
        whole = wanted / POINTS_PER_MINUTE  # minutes of the run that a lap has, about
        incident = plan_incident(run.start, minutes, minute=INCIDENT_MIDDLE * whole, length=INCIDENT_LENGTH * whole)
        per_minute = round(TRACES_PER_MINUTE * INCIDENT_TRACES_SHARE)
    simulation = simulate(seed, run, incident, per_minute)
    chosen = select_traces(simulation.spans, wanted, pace)
    failed = [
        span.end + chosen.moves[span.trace_id]
        for span in chosen.spans
        if span.service == incident.service and span.failure is not None and incident.window.contains(span.start)
    ]
    return Recording(
        bodies={
            Signal.TRACES: tuple(span_messages(chosen, pace)),
            Signal.LOGS: tuple(log_messages(all_logs(simulation, seed), chosen, run, pace)),
            Signal.METRICS: tuple(point_messages(metric_streams(simulation, seed), chosen, run.start, pace)),
        },
        nanos=pace.whole(len(chosen.spans)),
        failure=LapFailure(incident.service, min(failed)) if failed else None,
    )
