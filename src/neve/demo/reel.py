"""The reel: a few minutes of the shop, encoded once, that can be played again and again as if it were now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.demo.cast import cast
from neve.demo.generate import MINUTES_MIN, TRACES_PER_MINUTE, all_logs
from neve.demo.incident import plan_incident
from neve.demo.interval import MINUTE, Interval
from neve.demo.lap_logs import log_bodies
from neve.demo.lap_points import point_bodies
from neve.demo.lap_spans import span_bodies
from neve.demo.metrics import metric_streams
from neve.demo.pace import Pace
from neve.demo.simulation import simulate
from neve.model.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.demo.body import Body

LAP_SECONDS = 60
FEWEST, MOST = 3_000, 12_000  # records of each signal in a lap: enough to tell one from the next, soon encoded
POINTS_PER_MINUTE = 900  # at least; spans and logs are more
RUN_START = 1_767_225_600_000_000_000  # any instant: nothing of it is left


@dataclass(frozen=True)
class Reel:
    """One lap: the same number of records of each signal, and how long it takes."""

    bodies: Mapping[Signal, Sequence[Body]]
    nanos: int


def make_reel(rate: float, *, seed: int = 7, records: int | None = None) -> Reel:
    """Run the shop and encode what it tells, at a rate of records of each signal a second."""
    pace = Pace(rate)
    wanted = records or min(MOST, max(FEWEST, int(rate * LAP_SECONDS)))
    minutes = max(MINUTES_MIN, -(-wanted // POINTS_PER_MINUTE))
    run = Interval(RUN_START, RUN_START + minutes * MINUTE)
    simulation = simulate(seed, run, plan_incident(run.start, minutes), TRACES_PER_MINUTE)
    chosen = cast(simulation.spans, wanted, pace)
    return Reel(
        bodies={
            Signal.TRACES: tuple(span_bodies(chosen, pace)),
            Signal.LOGS: tuple(log_bodies(all_logs(simulation, seed), chosen, run, pace)),
            Signal.METRICS: tuple(point_bodies(metric_streams(simulation, seed), chosen, run.start, pace)),
        },
        nanos=pace.whole(len(chosen.spans)),
    )
