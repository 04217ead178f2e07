"""Pool metrics: connections in use, idle, allowed and waited for. The incident's cause is to be seen here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.demo.metric import Metric, Stream, int_points
from neve.demo.tally import open_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.demo.attributes import Attributes
    from neve.demo.fleet import Instance
    from neve.demo.incident import Incident
    from neve.demo.span import Span
    from neve.demo.timeline import Ints, Timeline
    from neve.demo.topology import Pool

CONNECTIONS = Metric("db.client.connection.count", "{connection}", "connections by state", "gauge")
LIMIT = Metric("db.client.connection.max", "{connection}", "connections allowed", "gauge")
PENDING = Metric("db.client.connection.pending_requests", "{request}", "borrowers that wait", "gauge")


def pool_streams(
    instance: Instance, borrows: Sequence[Span], incident: Incident, timeline: Timeline, rng: np.random.Generator
) -> Iterator[Stream]:
    """Yield the gauges of an instance's pool, if it has one; who waits is counted from the spans of waiting."""
    pool = instance.service.pool
    if pool is None:
        return
    name: Attributes = {"db.client.connection.pool.name": pool.name}
    for process in instance.runs:
        times = timeline.exports(process).times
        used = _used(instance, pool, times, incident, rng)
        yield Stream(instance, CONNECTIONS, int_points(None, times, used, {**name, "state": "used"}))
        yield Stream(instance, CONNECTIONS, int_points(None, times, pool.size - used, {**name, "state": "idle"}))
        yield Stream(instance, LIMIT, int_points(None, times, np.full_like(times, pool.size), name))
        yield Stream(instance, PENDING, int_points(None, times, open_at(borrows, times), name))


def _used(instance: Instance, pool: Pool, times: Ints, incident: Incident, rng: np.random.Generator) -> Ints:
    """Return the connections in use: a few on a good day, more and more of them lost in the bad release."""
    usual = np.minimum(rng.poisson(0.12 * pool.size, len(times)), pool.size // 2)
    if not incident.caused_by(instance.service.name, instance.version):
        return usual.astype(np.int64)
    leaked = np.array([int(incident.leaked(at) * pool.size) for at in times.tolist()], dtype=np.int64)
    return np.minimum(usual + leaked, pool.size).astype(np.int64)
