"""Generate the demo's telemetry: run the shop, derive its logs and metrics, write all three signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.demo.ambient import ambient_logs
from neve.demo.incident import plan_incident
from neve.demo.interval import MINUTE, Interval
from neve.demo.logs import request_logs
from neve.demo.metrics import metric_streams
from neve.demo.simulation import Simulation, simulate, stream
from neve.demo.telemetry import Telemetry
from neve.demo.truth import ground_truth
from neve.demo.writer import file_edges, write_logs, write_metrics, write_traces
from neve.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from neve.demo.log import Log

MINUTES_MIN = 3  # room for a restart and an incident
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
    """Write a run of the shop below `out`, in `traces/`, `logs/` and `metrics/`; the same arguments, the same bytes.

    The incident lies around minute 37 of an hour for six minutes, and as far into a shorter run, unless its middle
    (`incident_minute`) and length (`incident_minutes`) say otherwise. Raises ConfigError if a number is out of range.
    """
    _check(minutes, traces_per_minute)
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


def _check(minutes: int, traces_per_minute: int) -> None:
    """Refuse a run that is too short for a restart and an incident, or that nobody visits."""
    if minutes < MINUTES_MIN:
        raise ConfigError(f"minutes must be at least {MINUTES_MIN}, got {minutes}")
    if traces_per_minute < 1:
        raise ConfigError(f"traces_per_minute must be at least 1, got {traces_per_minute}")


def all_logs(simulation: Simulation, seed: int) -> list[Log]:
    """Return what was logged in requests and outside of them."""
    inside = request_logs(simulation.spans, stream(seed, "logs"))
    outside = ambient_logs(simulation.fleet, simulation.incident, simulation.run, stream(seed, "ambient"))
    return [*inside, *outside]
