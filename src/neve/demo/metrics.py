"""Metrics: every type in both temporalities, every 15 seconds, from every instance of the fleet."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from neve.demo.business import business_streams
from neve.demo.pools import pool_streams
from neve.demo.requests import request_streams
from neve.demo.runtime import runtime_streams
from neve.demo.simulation import Simulation, stream
from neve.demo.span import CONSUMER, INTERNAL, SERVER, Span
from neve.demo.stores import ORDERS
from neve.demo.timeline import plan_timeline

if TYPE_CHECKING:
    from neve.demo.fleet import Instance
    from neve.demo.metric import Stream


def metric_streams(simulation: Simulation, seed: int) -> list[Stream]:
    """Return all streams of a run: what can be counted from its spans is counted, the rest follows the load."""
    spans = simulation.spans
    timeline = plan_timeline(simulation.run, spans[-1].end)
    rng = np.random.default_rng(stream(seed, "metrics").getrandbits(64))
    served: dict[Instance, list[int]] = defaultdict(list)
    borrows: dict[Instance, list[Span]] = defaultdict(list)
    for span in spans:
        if span.kind in (SERVER, CONSUMER):
            served[span.instance].append(span.end)
        elif span.kind == INTERNAL and span.operation.endswith(".getConnection"):
            borrows[span.instance].append(span)
    streams = list(request_streams(spans, timeline))
    for instance in simulation.fleet.instances:
        ends = np.array(served[instance], dtype=np.int64)
        streams += runtime_streams(instance, ends, timeline, rng)
        streams += pool_streams(instance, borrows[instance], simulation.incident, timeline, rng)
    streams += business_streams(spans, simulation.fleet, ORDERS, timeline)
    return streams
