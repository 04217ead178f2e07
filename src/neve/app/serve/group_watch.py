"""The process group as it is watched: each of its processes is asked, and their answers are made one."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import urllib3
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from neve.app.serve.exposition import PROCESS, merge
from neve.app.serve.instance import GROUP_HEADER
from neve.app.serve.part import PartState
from neve.app.serve.sight import Sight, plain
from neve.work.board import LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prometheus_client import Metric

    from neve.app.serve.household import Household
    from neve.work.board import PartStatus

GROUP: Literal["group"] = "group"  # the process that keeps the others running
LOOK_SECONDS = 2.0
SCRAPE_SECONDS = 8.0  # some of what is counted is looked up in storage, and who scrapes waits for ten
Answer = TypeVar("Answer")


@dataclass
class GroupWatch:
    """Asks the processes of a group, at the addresses that they said; `processes` has the parts of each."""

    processes: Mapping[str, Sequence[str]]
    household: Household | None = None
    token: str = ""
    _failures: Counter[str] = field(default_factory=Counter)
    _pool: urllib3.PoolManager = field(default_factory=lambda: urllib3.PoolManager(retries=False, maxsize=4))

    def look(self) -> Sight:
        """How the parts of all processes are."""
        if self.household is None:
            return Sight([], ["the processes are being started"])
        seen = self._of_each(self._look_at)
        return Sight([part for sight in seen for part in sight.parts], [one for sight in seen for one in sight.waiting])

    def counted(self) -> bytes:
        """What all processes have counted, and how they are."""
        texts = dict(self._of_each(self._counted_by))
        return merge({**texts, GROUP: generate_latest().decode()}, self._own())

    def _of_each(self, ask: Callable[[PartStatus], Answer]) -> list[Answer]:
        """What each process answers; all are asked at once, so that a slow one costs no more than itself."""
        statuses = self.household.statuses() if self.household else []
        with ThreadPoolExecutor(max(1, len(statuses))) as pool:
            return list(pool.map(ask, statuses))

    def _look_at(self, status: PartStatus) -> Sight:
        address = _address(status)
        if address is None:
            return self._from_outside(status)
        health = self._get(f"{address}/healthz", LOOK_SECONDS)
        if health is None:
            return self._from_outside(replace(status, state=LOST, error=f"{address} does not answer"))
        found = json.loads(health.data)
        if "parts" in found:
            return Sight(found["parts"])
        if problems := found.get("problems"):
            status = replace(status, details={**status.details, "error": "; ".join(problems)})
        ready = self._get(f"{address}/readyz", LOOK_SECONDS)
        reason = json.loads(ready.data).get("reason") if ready else f"{address} does not answer"
        return replace(self._from_outside(status), waiting=[f"{status.name}: {reason}"] if reason else [])

    def _from_outside(self, status: PartStatus) -> Sight:
        """The parts of a process as the process is."""
        return Sight([plain(status.name, replace(status, name=part)) for part in self.processes[status.name]])

    def _counted_by(self, status: PartStatus) -> tuple[str, str]:
        """The name of a process and what it has counted; nothing where it does not say so, which is counted too."""
        address = _address(status)
        answer = self._get(f"{address}/metrics", SCRAPE_SECONDS) if address else None
        if address and (answer is None or answer.status != 200):
            self._failures[status.name] += 1
        return status.name, answer.data.decode() if answer and answer.status == 200 else ""

    def _get(self, url: str, seconds: float) -> urllib3.BaseHTTPResponse | None:
        try:
            # A process that listens on all addresses is asked on this machine, whatever hosts it is for.
            headers = {GROUP_HEADER: self.token, "host": "localhost"}
            return self._pool.request("GET", url, timeout=seconds, headers=headers)
        except (urllib3.exceptions.HTTPError, OSError):
            return None

    def _own(self) -> list[Metric]:
        up = GaugeMetricFamily("neve_serve_up", "whether a process runs", labels=[PROCESS])
        restarts = CounterMetricFamily(
            "neve_serve_restarts", "times that a process was started again", labels=[PROCESS]
        )
        failures = CounterMetricFamily(
            "neve_serve_scrape_failures", "times that a process did not say what it had counted", labels=[PROCESS]
        )
        for status in self.household.statuses() if self.household else []:
            up.add_metric([status.name], float(status.state == PartState.RUNNING))
            restarts.add_metric([status.name], status.restarts)
            failures.add_metric([status.name], self._failures[status.name])
        return [up, restarts, failures]


def _address(status: PartStatus) -> str | None:
    """Where a process can be asked; none while it does not run, or where it has no door for it."""
    health = status.details.get("health") if status.state == PartState.RUNNING else None
    return str(health) if health else None
