"""The part that watches the executors of a Spark cluster.

On a cluster whose cores are all in use, Spark waits for an executor without an error and without an end, and only its
own log says so. The service would look healthy while nothing moves.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from neve.app.serve.part import ReportDetails

LOOK_SECONDS = 2.0
PATIENCE_SECONDS = 10.0  # a cluster needs some seconds to start an executor


@dataclass(frozen=True)
class ExecutorCounts:
    """Numbers of a Spark application: its executors, without the driver, and its running jobs."""

    executors: int
    jobs: int


def count_executors() -> ExecutorCounts | None:
    """Return the numbers of the application of this process, or `None` if Spark does not run or does not respond."""
    context: Any = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_active_spark_context", None)
    if context is None or context._jsc is None:
        return None
    from py4j.protocol import Py4JError  # noqa: PLC0415 - only with Spark

    try:
        tracker = context._jsc.sc().statusTracker()
        return ExecutorCounts(len(tracker.getExecutorInfos()) - 1, len(tracker.getActiveJobIds()))
    except (Py4JError, OSError):  # another check notices the end of the JVM
        return None


@dataclass
class ExecutorsPart:
    """Part that is degraded while jobs of Spark wait for an executor."""

    count: Callable[[], ExecutorCounts | None] = count_executors
    clock: Callable[[], float] = time.monotonic
    name: str = "spark"
    _since: float | None = field(default=None, init=False)

    def run(self, stop: threading.Event, report: ReportDetails) -> None:
        """Look every few seconds until asked to stop."""
        while True:
            report(self.look())
            if stop.wait(LOOK_SECONDS):
                return

    def look(self) -> dict[str, object]:
        """Return the numbers, and the problem if there is one."""
        found = self.count()
        if found is None:
            self._since = None
            return {"idle": "Spark is not running"}
        if found.executors > 0 or not found.jobs:
            self._since = None
            return {"executors": found.executors, "jobs": found.jobs}
        now = self.clock()
        self._since = now if self._since is None else self._since
        waited = now - self._since
        details: dict[str, object] = {"executors": 0, "jobs": found.jobs}
        if waited >= PATIENCE_SECONDS:
            details["error"] = (
                f"Spark has had no executor for {waited:.0f} s, and its jobs wait ({found.jobs}): the cluster has no "
                "free cores or memory. Limit each process with `spark.cores.max` in spark.conf, or add workers"
            )
        return details
