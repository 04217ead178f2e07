"""A small run of the shop, made once: six minutes with an incident in the middle two."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from neve.demo import Telemetry, generate
from neve.demo.generate import all_logs
from neve.demo.incident import plan_incident
from neve.demo.metrics import metric_streams
from neve.demo.simulation import Simulation, simulate
from neve.demo.spans import MINUTE, Interval

if TYPE_CHECKING:
    from pathlib import Path

    from neve.demo.logs import Log
    from neve.demo.metric_points import Stream

START = 1_770_026_400_000_000_000
MINUTES = 6
PER_MINUTE = 80
SEED = 7


@pytest.fixture(scope="session")
def simulation() -> Simulation:
    """Return the run itself."""
    run = Interval(START, START + MINUTES * MINUTE)
    return simulate(SEED, run, plan_incident(START, MINUTES, minute=3, length=2), PER_MINUTE)


@pytest.fixture(scope="session")
def logs(simulation: Simulation) -> list[Log]:
    """Return what was logged in the run."""
    return all_logs(simulation, SEED)


@pytest.fixture(scope="session")
def streams(simulation: Simulation) -> list[Stream]:
    """Return what was measured in the run."""
    return metric_streams(simulation, SEED)


@pytest.fixture(scope="session")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Telemetry:
    """Return the same run, written to files."""
    return write(tmp_path_factory.mktemp("demo"))


def write(out: Path, seed: int = SEED) -> Telemetry:
    """Write the small run."""
    return generate(
        out,
        seed=seed,
        start_unix_nano=START,
        minutes=MINUTES,
        traces_per_minute=PER_MINUTE,
        incident_minute=3,
        incident_minutes=2,
    )


def read_traces(out: Path) -> list[ExportTraceServiceRequest]:
    """Parse the files of traces with the official class."""
    return [ExportTraceServiceRequest.FromString(path.read_bytes()) for path in sorted(out.glob("traces/*.binpb"))]


def read_metrics(out: Path) -> list[ExportMetricsServiceRequest]:
    """Parse the files of metrics with the official class."""
    return [
        ExportMetricsServiceRequest.FromString(pa.input_stream(str(path), compression="zstd").read())
        for path in sorted(out.glob("metrics/*.binpb.zst"))
    ]


def read_log_lines(out: Path) -> list[dict[str, Any]]:
    """Parse the lines of the files of logs."""
    return [
        json.loads(line)
        for path in sorted(out.glob("logs/*.json.gz"))
        for line in gzip.decompress(path.read_bytes()).splitlines()
    ]
