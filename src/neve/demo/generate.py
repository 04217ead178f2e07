"""Generate the demo telemetry.

Run the simulation, derive logs and metrics, write files as a collector's file exporter does, and count the ground truth
that queries can be checked against.
"""

from __future__ import annotations

import gzip
import os
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from neve.demo.incident import plan_incident
from neve.demo.logs import process_logs, request_logs
from neve.demo.metrics import metric_streams
from neve.demo.otlp_encoding import log_lines, measurements, metrics_request, split_by_time, traces_request
from neve.demo.simulation import Simulation, make_random, simulate
from neve.demo.spans import CLIENT, MINUTE, SECOND, SERVER, Interval, Span
from neve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from neve.demo.incident import Incident
    from neve.demo.logs import Log
    from neve.demo.metric_points import Stream


@dataclass(frozen=True, slots=True)
class Record:
    """Counts and latencies of a set of requests."""

    requests: int
    failed: int
    median_ms: float
    p95_ms: float

    @property
    def error_rate(self) -> float:
        """Return the share of requests that failed."""
        return self.failed / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Truth:
    """Counts inside the incident's window, by the start of the span, and outside it.

    `payment` and `checkout` are the server spans of those names: all of the service `payment`, and the frontend's
    `POST /checkout`. `payment_timeouts` and `payment_retries` count the client spans that called it in the window.
    """

    payment_in_window: Record
    payment_outside: Record
    checkout_in_window: Record
    checkout_outside: Record
    payment_timeouts: int
    payment_retries: int
    orders_placed: int
    errors_by_service: dict[str, int]
    failed_checkout_trace_id: str


def ground_truth(spans: Sequence[Span], incident: Incident) -> Truth:
    """Count the ground truth. The example is the first checkout that failed because the pool had no connection."""
    payments = [s for s in spans if s.service == incident.service and s.kind == SERVER]
    checkouts = [s for s in spans if s.operation == "POST /checkout" and s.kind == SERVER]
    orders = [s for s in spans if s.operation == "PlaceOrder" and s.kind == SERVER and s.failure is None]
    calls = [s for s in spans if s.kind == CLIENT and s.attributes.get("peer.service") == incident.service]
    suffered = [s for s in calls if incident.window.contains(s.start)]
    errors = Counter(
        s.service for s in spans if s.kind == SERVER and s.failure is not None and incident.window.contains(s.start)
    )
    return Truth(
        payment_in_window=_summarize([s for s in payments if incident.window.contains(s.start)]),
        payment_outside=_summarize([s for s in payments if not incident.window.contains(s.start)]),
        checkout_in_window=_summarize([s for s in checkouts if incident.window.contains(s.start)]),
        checkout_outside=_summarize([s for s in checkouts if not incident.window.contains(s.start)]),
        payment_timeouts=sum(s.failure is not None and s.failure.code == "DEADLINE_EXCEEDED" for s in suffered),
        payment_retries=sum("app.retry.attempt" in s.attributes for s in suffered),
        orders_placed=len(orders),
        errors_by_service=dict(errors.most_common()),
        failed_checkout_trace_id=next((s.trace_id.hex() for s in checkouts if _is_starved(s)), ""),
    )


def _is_starved(span: Span) -> bool:
    """Return whether a request failed because the pool had no connection."""
    return span.failure is not None and "Connection is not available" in span.failure.message


def _summarize(spans: list[Span]) -> Record:
    """Summarize the outcomes of requests."""
    if not spans:
        return Record(0, 0, 0.0, 0.0)
    median, p95 = np.percentile([span.millis for span in spans], [50, 95]).tolist()
    return Record(len(spans), sum(span.failure is not None for span in spans), round(median, 3), round(p95, 3))


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The written files, and the ground truth that queries can be checked against."""

    out: Path
    files: tuple[Path, ...]
    bytes: int
    run: Interval
    traces: int
    spans: int
    logs: int
    points: int
    incident: Incident
    truth: Truth


FILE_MINUTES = 5  # of data in each file


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A written file, and its size."""

    path: Path
    bytes: int


def file_edges(run: Interval) -> list[int]:
    """Return the instants that separate the files."""
    step = FILE_MINUTES * MINUTE
    return [*range(run.start, run.end, step), run.end]


def write_traces(out: Path, spans: Iterable[Span], edges: list[int]) -> Iterator[WrittenFile]:
    """Write spans as protobuf, ordered by their end: one request a file."""
    for start, part in zip(edges, split_by_time(spans, lambda span: span.end, edges), strict=False):
        yield write_atomically(
            out / "traces" / f"{_format_stamp(start)}.binpb", traces_request(part).SerializeToString()
        )


def write_logs(out: Path, logs: Iterable[Log], edges: list[int]) -> Iterator[WrittenFile]:
    """Write logs as gzipped JSON lines: one request a line. The gzip header has no time, so that bytes repeat."""
    for start, part in zip(edges, split_by_time(logs, lambda log: log.time, edges), strict=False):
        text = "".join(log_lines(part)).encode()
        yield write_atomically(out / "logs" / f"{_format_stamp(start)}.json.gz", gzip.compress(text, 5, mtime=0))


def write_metrics(out: Path, streams: Iterable[Stream], edges: list[int]) -> Iterator[WrittenFile]:
    """Write metrics as protobuf compressed with Zstandard: one request a file."""
    points = measurements(streams)
    for start, part in zip(edges, split_by_time(points, lambda item: item.point.time_unix_nano, edges), strict=False):
        data = metrics_request(part).SerializeToString()
        packed = pa.compress(data, codec="zstd", asbytes=True)
        yield write_atomically(out / "metrics" / f"{_format_stamp(start)}.binpb.zst", packed)


def write_atomically(path: Path, data: bytes) -> WrittenFile:
    """Write a file so that a reader sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(data)
    os.replace(draft, path)
    return WrittenFile(path, len(data))


def _format_stamp(instant: int) -> str:
    """Return an instant as a file name that sorts by time."""
    return datetime.fromtimestamp(instant // SECOND, UTC).strftime("%Y%m%dT%H%M%SZ")


MINUTES_MIN = 3  # a restart and an incident must fit
TRACES_PER_MINUTE = 155  # about 140,000 spans in an hour


def generate(  # noqa: PLR0913 - all but `out` by keyword
    out: Path,
    *,
    seed: int = 7,
    start_unix_nano: int,
    minutes: int = 60,
    traces_per_minute: int = TRACES_PER_MINUTE,
    incident_minute: float | None = None,
    incident_minutes: float | None = None,
) -> Telemetry:
    """Write a run of the shop below `out`, in `traces/`, `logs/` and `metrics/`; equal arguments give equal bytes.

    The incident is around minute 37 of an hour for six minutes, and at the same share of a shorter run, unless its
    middle (`incident_minute`) and length (`incident_minutes`) are given. Raises ConfigError if a number is out of
    range.
    """
    _check_size(minutes, traces_per_minute)
    run = Interval(start_unix_nano, start_unix_nano + minutes * MINUTE)
    incident = plan_incident(run.start, minutes, minute=incident_minute, length=incident_minutes)
    simulation = simulate(seed, run, incident, traces_per_minute)
    logs = all_logs(simulation, seed)
    streams = metric_streams(simulation, seed)
    edges = file_edges(run)
    written = [
        *write_traces(out, simulation.spans, edges),
        *write_logs(out, logs, edges),
        *write_metrics(out, streams, edges),
    ]
    return Telemetry(
        out=out,
        files=tuple(file.path for file in written),
        bytes=sum(file.bytes for file in written),
        run=run,
        traces=sum(not span.parent_id for span in simulation.spans),
        spans=len(simulation.spans),
        logs=len(logs),
        points=sum(len(s.points) for s in streams),
        incident=incident,
        truth=ground_truth(simulation.spans, incident),
    )


def _check_size(minutes: int, traces_per_minute: int) -> None:
    """Reject a run that is too short for a restart and an incident, or that has no visits."""
    if minutes < MINUTES_MIN:
        raise ConfigError(f"minutes must be at least {MINUTES_MIN}, got {minutes}")
    if traces_per_minute < 1:
        raise ConfigError(f"traces_per_minute must be at least 1, got {traces_per_minute}")


def all_logs(simulation: Simulation, seed: int) -> list[Log]:
    """Return the logs of requests and of processes."""
    inside = request_logs(simulation.spans, make_random(seed, "logs"))
    outside = process_logs(simulation.fleet, simulation.incident, simulation.run, make_random(seed, "ambient"))
    return [*inside, *outside]
