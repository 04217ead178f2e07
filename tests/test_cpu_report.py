"""The report of CPU seconds at the end of a run."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests.cpu_report import OUTPUT_KEY, CpuReport

if TYPE_CHECKING:
    from pathlib import Path

BUSY = """
import subprocess, sys, time

LOOP = "import time\\nwhile time.process_time() < 0.3: pass"

def test_here():
    end = time.process_time() + 0.3
    while time.process_time() < end: pass

def test_in_a_child():
    subprocess.run([sys.executable, "-S", "-c", LOOP], check=True)
"""


def report_of(node: str, seconds: float, when: str = "call", mark: str = "slow") -> pytest.TestReport:
    """A report with a measurement, as a worker sends it."""
    return pytest.TestReport(node, (node, 1, node), {mark: 1}, "passed", None, when, cpu_seconds=seconds)  # type: ignore[arg-type]


def test_seconds_are_summed_by_file() -> None:
    """Setup, call and teardown count, the most expensive file comes first, and a test counts once."""
    report = CpuReport()
    for when in ("setup", "call", "teardown"):
        report.pytest_runtest_logreport(report_of("a.py::one", 1.0, when))
    for name in ("one", "two[::]"):
        report.pytest_runtest_logreport(report_of(f"b.py::{name}", 2.0))
    assert list(report.lines(9.0))[2:] == ["     4.0 b.py, 2 tests", "     3.0 a.py, 1 tests"]


def test_slow_tests_without_a_mark_are_listed() -> None:
    """By what they do themselves: the first test of a file pays for the fixtures of all."""
    report = CpuReport()
    report.pytest_runtest_logreport(report_of("a.py::quick", 0.3, mark=""))
    report.pytest_runtest_logreport(report_of("a.py::quick", 7.0, "setup", mark=""))
    for name, mark in (("slow", ""), ("marked", "slow"), ("lake", "lake")):
        report.pytest_runtest_logreport(report_of(f"a.py::{name}", 0.5, mark=mark))
    assert list(report.lines(9.0))[3:] == ["     0.5 a.py::slow"]


def test_workers_are_added() -> None:
    """The totals of workers are summed; one that crashed has sent none."""
    report = CpuReport()
    for output in ({OUTPUT_KEY: (2.0, 10.0)}, {OUTPUT_KEY: (3.0, 11.0)}, {}):
        report.pytest_testnodedown(SimpleNamespace(workeroutput=output))
    report.pytest_testnodedown(SimpleNamespace())
    assert (report.collection, report.workers) == (5.0, 21.0)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_reports_itself_and_its_children(tmp_path: Path, workers: int) -> None:
    """CPU time of a test and of a process that it waits for are in the total, once, and in its file."""
    (tmp_path / "test_busy.py").write_text(BUSY)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.cpu_report", "-p", "no:hypothesispytest"]
    command += ["-n", str(workers)]
    done = subprocess.run(
        [*command, "--cpu-report", "--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path / "test_busy.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(maxsplit=1) for line in done.stdout.partition("CPU seconds")[2].splitlines()[1:4]]
    (total, _), (collection, _), (busy, name) = lines
    assert name == "test_busy.py, 2 tests"
    assert 0.6 <= float(busy) <= float(total)
    assert float(collection) + float(busy) <= float(total) + 0.1
    assert float(total) < 2 * (float(collection) + float(busy))
