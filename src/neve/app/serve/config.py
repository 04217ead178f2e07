"""Settings of `neve serve`: its parts, the processes that they need, ports, drain time and restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from pydantic import Field

from neve.errors import ConfigError
from neve.model.settings import Section
from neve.tls.config import TlsConfig

if TYPE_CHECKING:
    from collections.abc import Iterable


PartName = Literal[
    "receiver",
    "api",
    "ingest",
    "scheduler",
    "compact",
    "maintain",
    "rollup",
    "search",
    "series",
    "traces",
    "tail",
    "rules",
    "autopilot",
]
PARTS: tuple[PartName, ...] = get_args(PartName)
RECEIVER, API, WORKER = "receiver", "api", "tend"
OWN_PROCESS = (RECEIVER, API)  # parts that have a process each; all others share one, and its Spark session


def assign_processes(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the processes that parts need, each with its parts; raises `ConfigError` for an unknown part.

    >>> assign_processes(["ingest", "receiver", "compact"])
    {'receiver': ('receiver',), 'tend': ('ingest', 'compact')}
    """
    wanted = set(names)
    unknown = sorted(wanted.difference(PARTS))
    if unknown or not wanted:
        raise ConfigError(
            f"the parts to serve are {', '.join(unknown) or 'none'}, expected some of {', '.join(PARTS)}",
            hint="separate them by commas, as in --only receiver,api; without --only, all of them are served",
        )
    processes: dict[str, tuple[str, ...]] = {name: (name,) for name in OWN_PROCESS if name in wanted}
    tending = tuple(name for name in PARTS if name in wanted and name not in OWN_PROCESS)
    return {**processes, WORKER: tending} if tending else processes


StreamName = Literal["raw", "events", "kafka", "kafka-events"]


class ServeConfig(Section):
    """Which parts run, how they are watched, and how they end and begin again."""

    only: tuple[PartName, ...] = Field(PARTS, min_length=1, description="parts to run")
    streams: tuple[StreamName, ...] = Field(("raw", "events"), description="streams that the part `ingest` runs")
    host: str = Field("127.0.0.1", min_length=1, description="address for health checks and metrics")
    port: int = Field(
        9090, ge=0, le=65_535, description="port for health checks and metrics of all parts; 0: any free port"
    )
    tls: TlsConfig = Field(TlsConfig(), description="TLS of health checks and metrics")
    background_niceness: int = Field(
        10,
        ge=0,
        le=19,
        description="niceness of the process that runs streams and jobs, and of its Spark; on a busy machine "
        "the receiver and the API go first",
    )
    drain_seconds: float = Field(30, ge=0, le=3600, description="seconds for a graceful shutdown")
    workers: int = Field(
        2,
        ge=1,
        le=64,
        description="jobs to run at a time; with two or more, one worker runs only rollups and indexing, so "
        "that they never wait for a long job",
    )
    restart_first_seconds: float = Field(
        1, gt=0, le=3600, description="seconds before a failed part is restarted; doubles after each failure"
    )
    restart_most_seconds: float = Field(
        30, gt=0, le=3600, description="maximum seconds before a failed part is restarted"
    )
