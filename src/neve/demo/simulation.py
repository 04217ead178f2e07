"""The simulation: the run of the shop from which all three signals are made."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.demo.batches import consume_batches
from neve.demo.context import Arrival
from neve.demo.fleet import Fleet, build_fleet
from neve.demo.interval import MINUTE, Interval
from neve.demo.load import arrivals
from neve.demo.shop import FLOWS, SERVICES, SHOP
from neve.demo.stores import ORDERS
from neve.demo.traces import Walker
from neve.demo.visit import draw_visit

if TYPE_CHECKING:
    from neve.demo.incident import Incident
    from neve.demo.span import Span

AFTERGLOW = 2 * MINUTE  # visits that came in time are served to their end
STATE_RATE = 0.03  # of traces that come through a partner's edge, which adds a trace state
STATES = ("shopcdn=pop-fra2", "shopcdn=pop-zrh1,ot=th:0", "partner=00f067aa0ba902b7")


@dataclass(frozen=True, slots=True)
class Simulation:
    """What happened in the shop: its fleet, its incident, and every span in the order of its end."""

    run: Interval
    fleet: Fleet
    incident: Incident
    spans: tuple[Span, ...]


def stream(seed: int, purpose: str) -> random.Random:
    """Return the randomness of one purpose: drawing more for one does not change another."""
    return random.Random(f"{seed}/{purpose}")  # noqa: S311 - telemetry that repeats, not secrets


def simulate(seed: int, run: Interval, incident: Incident, per_minute: int) -> Simulation:
    """Run the shop: visitors come, the services answer, and the batch consumer works off what was published."""
    fleet = build_fleet(SERVICES, Interval(run.start, run.end + AFTERGLOW), incident, stream(seed, "fleet"))
    walker = Walker(stream(seed, "walk"), fleet, incident)
    visitors = stream(seed, "visitors")
    weights = [flow.weight for flow in FLOWS]
    for at in arrivals(visitors, run.start, (run.end - run.start) // MINUTE, per_minute):
        flow = visitors.choices(FLOWS, weights)[0]
        state = visitors.choice(STATES) if visitors.random() < STATE_RATE else ""
        service = SHOP[flow.service]
        trace = walker.trace(draw_visit(visitors), state)
        walker.serve(service, service.by_name[flow.operation], Arrival(trace, b"", at))
    consume_batches(walker, ORDERS, run.start)
    spans = sorted(walker.recorder.spans, key=lambda span: span.end)
    return Simulation(run, fleet, incident, tuple(spans))
