"""The monitor of a process group: queries the health and metrics of each process, and merges the responses into one."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeVar

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from neve.app.serve.part import PartsHealth, PartState, part_document
from neve.app.serve.process_group import GROUP_HEADER
from neve.jobs.status_board import LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from neve.app.serve.supervisor import Supervisor
    from neve.http_client import HttpClient, HttpReply
    from neve.jobs.status_board import PartStatus


PROCESS = "process"


def merge_metrics(texts: Mapping[str, str], own: Iterable[Metric] = ()) -> bytes:
    """Merge the metrics of processes, labelled by process, and families of our own, with each family once."""
    families: dict[str, Metric] = {family.name: family for family in own}
    for process, text in texts.items():
        for family in text_string_to_metric_families(text):
            merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            merged.samples += [sample._replace(labels={**sample.labels, PROCESS: process}) for sample in family.samples]
    return format_metrics(families.values())


def format_metrics(families: Iterable[Metric]) -> bytes:
    """Format families in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


GROUP: Literal["group"] = "group"  # the process that supervises the others
LOOK_SECONDS = 2.0
SCRAPE_SECONDS = 8.0  # some metrics are read from storage, and Prometheus times out after 10 seconds
MAX_REPLY_BYTES = 64 * 1024 * 1024
MAX_CONNECTIONS = 4
Answer = TypeVar("Answer")


@dataclass
class GroupMonitor:
    """Client of the health ports of a group's processes.

    The processes report their addresses. `processes` has the parts of each.
    """

    processes: Mapping[str, Sequence[str]]
    supervisor: Supervisor | None = None
    token: str = ""
    _failures: Counter[str] = field(default_factory=Counter)

    @cached_property
    def _client(self) -> HttpClient:
        from neve.http_client import HttpClient  # noqa: PLC0415 - after the ports are open

        return HttpClient(timeout_seconds=SCRAPE_SECONDS, max_reply_bytes=MAX_REPLY_BYTES, connections=MAX_CONNECTIONS)

    def look(self) -> PartsHealth:
        """Return the health of the parts of all processes."""
        if self.supervisor is None:
            return PartsHealth([], ["the processes are starting"])
        seen = self._of_each(self._look_at)
        return PartsHealth(
            [part for health in seen for part in health.parts], [one for health in seen for one in health.waiting]
        )

    def collect_metrics(self) -> bytes:
        """Return the metrics of all processes, and of their states."""
        texts = dict(self._of_each(self._scrape))
        return merge_metrics({**texts, GROUP: generate_latest().decode()}, self._own())

    def _of_each(self, ask: Callable[[PartStatus], Answer]) -> list[Answer]:
        """Query all processes at once, so that a slow one does not delay the others."""
        statuses = self.supervisor.statuses() if self.supervisor else []
        with ThreadPoolExecutor(max(1, len(statuses))) as pool:
            return list(pool.map(ask, statuses))

    def _look_at(self, status: PartStatus) -> PartsHealth:
        address = _health_address(status)
        if address is None:
            return self._from_outside(status)
        health = self._get(f"{address}/healthz", LOOK_SECONDS)
        if health is None:
            return self._from_outside(replace(status, state=LOST, error=f"{address} does not respond"))
        found = json.loads(health.body)
        if "parts" in found:
            return PartsHealth(found["parts"])
        if problems := found.get("problems"):
            status = replace(status, details={**status.details, "error": "; ".join(problems)})
        ready = self._get(f"{address}/readyz", LOOK_SECONDS)
        reason = json.loads(ready.body).get("reason") if ready else f"{address} does not respond"
        return replace(self._from_outside(status), waiting=[f"{status.name}: {reason}"] if reason else [])

    def _from_outside(self, status: PartStatus) -> PartsHealth:
        """Return the parts of a process with the state of the process itself."""
        return PartsHealth(
            [part_document(status.name, replace(status, name=part)) for part in self.processes[status.name]]
        )

    def _scrape(self, status: PartStatus) -> tuple[str, str]:
        """Return the name of a process and its metrics.

        Without a response the metrics are empty, and the failure is counted.
        """
        address = _health_address(status)
        answer = self._get(f"{address}/metrics", SCRAPE_SECONDS) if address else None
        if address and (answer is None or answer.status != 200):
            self._failures[status.name] += 1
        return status.name, answer.body.decode() if answer and answer.status == 200 else ""

    def _get(self, url: str, seconds: float) -> HttpReply | None:
        from neve.http_client import NoReply  # noqa: PLC0415 - as above

        try:
            # A process that listens on all addresses is queried over loopback, whatever hosts it accepts.
            headers = {GROUP_HEADER: self.token, "host": "localhost"}
            reply = self._client.request("GET", url, headers=headers, timeout_seconds=seconds)
        except NoReply:
            return None
        return None if reply.is_truncated else reply

    def _own(self) -> list[Metric]:
        up = GaugeMetricFamily("neve_serve_up", "1 if a process runs", labels=[PROCESS])
        restarts = CounterMetricFamily("neve_serve_restarts", "Restarts of a process", labels=[PROCESS])
        failures = CounterMetricFamily("neve_serve_scrape_failures", "Failed scrapes of a process", labels=[PROCESS])
        for status in self.supervisor.statuses() if self.supervisor else []:
            up.add_metric([status.name], float(status.state == PartState.RUNNING))
            restarts.add_metric([status.name], status.restarts)
            failures.add_metric([status.name], self._failures[status.name])
        return [up, restarts, failures]


def _health_address(status: PartStatus) -> str | None:
    """Return the health address of a process; none while it does not run, or if it has no health port."""
    health = status.details.get("health") if status.state == PartState.RUNNING else None
    return str(health) if health else None
