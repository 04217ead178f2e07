"""The option `--cpu-report` of pytest: CPU seconds of a run, of its most expensive files and of slow tests.

Slow tests are listed if they are not marked so.

Wall time depends on what else a machine does. CPU time counts the process of pytest or its workers, and the processes
that tests started and waited for.
"""

from __future__ import annotations

import heapq
import resource
from collections import Counter, defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

MOST_EXPENSIVE = 40
SLOW_SECONDS = 0.4  # on a busy machine, of a test that should be marked slow
LEFT_OUT = frozenset({"slow", "lake"})  # marks of tests that may be expensive
OUTPUT_KEY = "cpu"


def own_seconds() -> float:
    """CPU time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def used_seconds() -> float:
    """CPU time of this process and of those that it started and waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own_seconds() + usage.ru_utime + usage.ru_stime


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--cpu-report", action="store_true", help="print CPU seconds in total and by file at the end")


def pytest_configure(config: pytest.Config) -> None:
    """Measure in each process, if it is asked for."""
    if config.getoption("--cpu-report"):
        config.pluginmanager.register(CpuReport(), "cpu report")


class CpuReport:
    """CPU seconds by file. In a run with workers, each measures its tests, and the controller sums and prints."""

    def __init__(self) -> None:
        self.by_file: dict[str, float] = defaultdict(float)
        self.by_test: dict[str, float] = defaultdict(float)
        self.tests: Counter[str] = Counter()
        self.collection = 0.0
        self.workers = 0.0
        self._last = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Note the CPU time of imports and collection."""
        self.collection = self._last = used_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give each report the CPU time since the one before, so that nothing between two tests is lost."""
        report: Any = yield
        now = used_seconds()
        report.cpu_seconds, self._last = now - self._last, now
        return report  # type: ignore[no-any-return]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Sum by file."""
        file = report.nodeid.partition("::")[0]
        used = getattr(report, "cpu_seconds", 0.0)
        self.by_file[file] += used
        if report.when == "call" and not LEFT_OUT.intersection(report.keywords):
            self.by_test[report.nodeid] += used
        self.tests[file] += report.when == "call"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send a worker's collection and total to the controller."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[OUTPUT_KEY] = (self.collection, used_seconds())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a worker used."""
        collection, total = getattr(node, "workeroutput", {}).get(OUTPUT_KEY, (0.0, 0.0))
        self.collection += collection
        self.workers += total

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the report."""
        terminalreporter.section("CPU seconds")
        for line in self.lines(self.total()):
            terminalreporter.write_line(line)

    def total(self) -> float:
        """Return the CPU time of the run. A controller's children are its workers, which have told theirs."""
        return self.workers + own_seconds() if self.workers else used_seconds()

    def lines(self, total: float) -> Iterator[str]:
        """Return the lines of the report."""
        yield f"{total:8.1f} in total"
        yield f"{self.collection:8.1f} imports and collection"
        for file, seconds in heapq.nlargest(MOST_EXPENSIVE, self.by_file.items(), key=itemgetter(1)):
            yield f"{seconds:8.1f} {file}, {self.tests[file]} tests"
        slow = {test: seconds for test, seconds in self.by_test.items() if seconds > SLOW_SECONDS}
        for test, seconds in heapq.nlargest(MOST_EXPENSIVE, slow.items(), key=itemgetter(1)):
            yield f"{seconds:8.1f} {test}"
