"""Logs of processes: what a service writes outside any request. The incident's cause is among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.demo.failure import Failure, stacktrace
from neve.demo.fleet import DRAIN, Fleet, Instance
from neve.demo.interval import SECOND, Interval
from neve.demo.log import DEBUG, ERROR, FATAL, INFO, WARN, Log

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from neve.demo.attributes import Attributes, Body
    from neve.demo.incident import Incident
    from neve.demo.topology import Pool

HEARTBEAT = 60 * SECOND
POOL_REPORT = 15 * SECOND
LEAK_REPORT = 20 * SECOND


def ambient_logs(fleet: Fleet, incident: Incident, run: Interval, rng: random.Random) -> Iterator[Log]:
    """Yield the logs of all processes of the fleet, instance by instance."""
    for instance in fleet.instances:
        for number, process in enumerate(instance.runs):
            yield from _life(instance, process, run, rng)
            if number > 0:
                yield _restart(instance, process.start)
        pool = instance.service.pool
        if pool is not None and incident.caused_by(instance.service.name, instance.version):
            yield from _exhaustion(instance, pool, incident)


def _life(instance: Instance, process: Interval, run: Interval, rng: random.Random) -> Iterator[Log]:
    """Yield a process's start, its heartbeats and its orderly end, as far as they lie in the run."""
    name, version = instance.service.name, instance.version
    if process.start > run.start:
        facts: Attributes = {"service.version": version, "k8s.pod.name": instance.resource["k8s.pod.name"]}
        yield _log(instance, process.start, INFO, f"starting {name} version {version}", facts)
    first = process.start + int(rng.random() * HEARTBEAT)
    for at in range(first, min(process.end, run.end), HEARTBEAT):
        yield _log(instance, at, DEBUG, "health check passed", {"http.route": "/healthz", "healthy": True})
        if rng.random() < 0.25:
            yield _log(instance, at + SECOND, INFO, _settings(instance, rng), {"config.source": "configmap"})
    if process.end < run.end:
        yield _log(instance, process.end - DRAIN // 2, INFO, f"{name} is draining before it stops", {})


def _settings(instance: Instance, rng: random.Random) -> Body:
    """Return the structured body that says which settings a process has reloaded."""
    return {"event": "config_reloaded", "revision": rng.randrange(100, 999), "log": {"level": "info", "json": True}}


def _restart(instance: Instance, at: int) -> Log:
    """Return the last word of the process that a failed liveness probe has ended."""
    failure = Failure("java.lang.OutOfMemoryError", "Java heap space", "INTERNAL")
    facts: Attributes = {
        "exception.type": failure.type,
        "exception.message": failure.message,
        "exception.stacktrace": stacktrace(failure, instance.service.language, instance.service.name, "refresh"),
        "exit.code": 137,
    }
    return _log(instance, at - 5 * SECOND, FATAL, "java.lang.OutOfMemoryError: Java heap space", facts)


def _exhaustion(instance: Instance, pool: Pool, incident: Incident) -> Iterator[Log]:
    """Yield the pool's complaints in the bad release: first that connections leak, then that none is left."""
    serving = instance.serves[0]
    for number, at in enumerate(range(serving.start + LEAK_REPORT, serving.end, LEAK_REPORT)):
        leak = Failure("java.lang.Exception", "Apparent connection leak detected", "INTERNAL")
        text = f"Connection leak detection triggered for org.postgresql.jdbc.PgConnection@{0x3F10 + number * 77:x}"
        trace = stacktrace(leak, "java", "payment", "LedgerAuditor.record")
        facts: Attributes = {"db.client.connection.pool.name": pool.name, "exception.stacktrace": trace}
        yield _log(instance, at, WARN, text, facts)
    for at in range(incident.window.start, incident.window.end, POOL_REPORT):
        state = f"total={pool.size}, active={pool.size}, idle=0, waiting={1 + at // SECOND % 3}"
        text = f"{pool.name} - connection pool exhausted ({state})"
        yield _log(instance, at, ERROR, text, {"db.client.connection.pool.name": pool.name, "pool.active": pool.size})


def _log(instance: Instance, at: int, severity: int, body: Body, attributes: Attributes) -> Log:
    """Return a record that belongs to no trace."""
    return Log(at, at + SECOND // 50, instance, f"shop.{instance.service.name}.runtime", severity, body, attributes)
