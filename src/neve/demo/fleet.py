"""Instances of each service: their schedules, releases, restarts and resource attributes."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from neve.demo.spans import SECOND, Interval

if TYPE_CHECKING:
    import random

    from neve.demo.incident import Incident
    from neve.demo.spans import Attributes
    from neve.demo.topology import Service

REGION = "eu-central-1"
ZONES = ("eu-central-1a", "eu-central-1b", "eu-central-1c")
NODES = 6
DRAIN = 20 * SECOND  # a retired process finishes and reports its open requests
START_UP = 8 * SECOND  # a new process runs for this long before it gets requests
STAGGER = 1 / 8  # of the lead: a rolling update replaces one pod after another
RESTARTED = ("ad", 22 / 60)  # the service whose first pod is restarted, and how far into the run


class Release(NamedTuple):
    """A version of a service, and the name that Kubernetes gives to the set of its pods."""

    version: str
    replica_set: str


class Schedule(NamedTuple):
    """The times at which a pod gets requests and its processes run; each process counts from zero."""

    serves: tuple[Interval, ...]
    runs: tuple[Interval, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One pod of a service: its resource attributes and its schedule."""

    service: Service
    version: str
    resource: Attributes
    serves: tuple[Interval, ...]
    runs: tuple[Interval, ...]


class Fleet:
    """All instances of a run, with the instances that serve at each instant."""

    def __init__(self, instances: tuple[Instance, ...]) -> None:
        """Index the instances: the instants at which the roster of each service changes, and the rosters."""
        self.instances = instances
        self._serving_instances = {
            name: _serving_instances(instances, name) for name in {i.service.name for i in instances}
        }

    def pick(self, service: str, at: int, rng: random.Random) -> Instance:
        """Choose the instance that answers a request at the instant."""
        changes, rosters = self._serving_instances[service]
        roster = rosters[bisect_right(changes, at) - 1]
        return roster[int(rng.random() * len(roster))]


def build_fleet(services: tuple[Service, ...], run: Interval, incident: Incident, rng: random.Random) -> Fleet:
    """Create the shop's pods for a run, with the incident's releases and one restart."""
    instances: list[Instance] = []
    for service in services:
        if service.name == incident.service:
            instances += _rollout_pods(service, run, incident, rng)
        else:
            instances += _steady_pods(service, run, rng)
    return Fleet(tuple(instances))


def _steady_pods(service: Service, run: Interval, rng: random.Random) -> list[Instance]:
    """Return pods that run all the time, except for one service with a restarted pod."""
    release = Release(service.version, _token(rng, 9))
    always, restarted = Schedule((run,), (run,)), service.name == RESTARTED[0]
    return [
        _pod(service, release, n, _restart_schedule(run) if restarted and n == 0 else always, rng)
        for n in range(service.replicas)
    ]


def _restart_schedule(run: Interval) -> Schedule:
    """Return the schedule of a pod that is drained, killed and started again."""
    at = run.start + int((run.end - run.start) * RESTARTED[1])
    return Schedule(
        serves=(Interval(run.start, at - DRAIN), Interval(at + START_UP, run.end)),
        runs=(Interval(run.start, at), Interval(at + START_UP // 2, run.end)),
    )


def _rollout_pods(service: Service, run: Interval, incident: Incident, rng: random.Random) -> list[Instance]:
    """Return three generations of pods: before the bad release, the bad release, and after its rollback."""
    versions = (incident.good_version, incident.bad_version, incident.good_version)
    releases = [Release(version, _token(rng, 9)) for version in versions]
    step = int((incident.window.start - incident.deployed) * STAGGER)
    pods: list[Instance] = []
    for n in range(service.replicas):
        edges = (run.start, incident.deployed + n * step, incident.window.end, run.end)
        for release, serves in zip(releases, itertools.starmap(Interval, itertools.pairwise(edges)), strict=True):
            runs = Interval(max(run.start, serves.start - START_UP), min(run.end, serves.end + DRAIN))
            pods.append(_pod(service, release, n, Schedule((serves,), (runs,)), rng))
    return pods


def _pod(service: Service, release: Release, number: int, schedule: Schedule, rng: random.Random) -> Instance:
    """Return one pod, placed on a node of its own zone."""
    node = (len(service.name) + number * 2) % NODES
    runtime, _, runtime_version = service.runtime.rpartition(" ")
    pod = f"{service.name}-{release.replica_set}-{_token(rng, 5)}"
    resource: Attributes = {
        "service.name": service.name,
        "service.namespace": "shop",
        "service.version": release.version,
        "service.instance.id": _uuid(rng),
        "deployment.environment.name": "production",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.language": service.language,
        "telemetry.sdk.version": "1.31.0",
        "process.runtime.name": runtime,
        "process.runtime.version": runtime_version,
        "process.pid": 1 + number * 6,
        "process.command_args": (f"/app/{service.name}", "--config", "/etc/shop/config.yaml"),
        "k8s.cluster.name": "shop-prod",
        "k8s.namespace.name": "shop",
        "k8s.deployment.name": service.name,
        "k8s.pod.name": pod,
        "k8s.node.name": f"node-{node:02d}",
        "host.name": pod,
        "cloud.provider": "aws",
        "cloud.region": REGION,
        "cloud.availability_zone": ZONES[node % len(ZONES)],
    }
    return Instance(service, release.version, resource, schedule.serves, schedule.runs)


def _serving_instances(instances: tuple[Instance, ...], service: str) -> tuple[list[int], list[list[Instance]]]:
    """Return the instants at which the serving instances change, and the instances from each instant on."""
    mine = [i for i in instances if i.service.name == service]
    changes = sorted({edge for i in mine for interval in i.serves for edge in interval})
    rosters = [[i for i in mine if any(s.contains(at) for s in i.serves)] for at in changes]
    return changes, rosters


def _token(rng: random.Random, length: int) -> str:
    """Draw a name part as Kubernetes does: without vowels, so that it spells no word."""
    return "".join(rng.choices("bcdfghjklmnpqrstvwxz2456789", k=length))


def _uuid(rng: random.Random) -> str:
    """Draw a random UUID of version 4."""
    digits = f"{rng.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
