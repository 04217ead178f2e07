"""The measurement of CPU seconds and memory in benchmarks."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest
from bench.sizes import QUICK, choose_number, is_quick

pytestmark = pytest.mark.slow

BURN = "import time\nwhile time.process_time() < 0.3: pass"


def measure(code: str) -> dict[str, float]:
    """Run code in a process of its own, whose tree is measured; return the object that it prints."""
    prelude = (
        f"import json, subprocess, sys, time\nfrom bench.usage import Meter, run_apart, tree_cpu\nBURN = {BURN!r}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_children_that_ended_count() -> None:
    """The CPU of a child counts while it runs, when it ended, and after it was waited for."""
    found = measure(
        """
        before = tree_cpu()
        child = subprocess.Popen([sys.executable, "-c", BURN + "\\nprint(1, flush=True)\\ntime.sleep(60)"], stdout=-1)
        child.stdout.readline()
        running = tree_cpu() - before
        child.kill()
        while open(f"/proc/{child.pid}/stat").read().split()[2] != "Z":
            time.sleep(0.01)
        ended = tree_cpu() - before
        child.wait()
        print(json.dumps({"running": running, "ended": ended, "waited": tree_cpu() - before}))
        """
    )
    assert 0.28 < found["running"] <= found["ended"] <= found["waited"] < 2


def test_orphans_count() -> None:
    """The CPU of a process counts although its parent ended without waiting for it."""
    found = measure(
        """
        before = tree_cpu()
        start = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BURN!r}], stdout=sys.stderr)"
        subprocess.run([sys.executable, "-c", start], check=True)
        deadline = time.monotonic() + 60
        while tree_cpu() - before < 0.3 and time.monotonic() < deadline:
            time.sleep(0.05)
        print(json.dumps({"cpu_s": tree_cpu() - before}))
        """
    )
    assert found["cpu_s"] >= 0.3


def test_clock_never_falls_while_processes_come_and_go() -> None:
    """Readings rise while short processes with children of their own end all the time."""
    found = measure(
        """
        children = [subprocess.Popen(["sh", "-c", "for i in 1 2 3 4 5; do sh -c :; done"]) for _ in range(8)]
        readings = []
        while any(child.poll() is None for child in children):
            readings.append(tree_cpu())
        steps = [after - before for before, after in zip(readings, readings[1:])]
        print(json.dumps({"readings": len(readings), "least": min(steps, default=0.0)}))
        """
    )
    assert found["readings"] > 0
    assert found["least"] >= 0


def test_command_of_its_own_is_measured_with_its_tree() -> None:
    """The cost of a command has the CPU and the memory of the processes that it starts."""
    found = measure(
        """
        hold = "held = bytearray(80_000_000)\\n" + BURN + "\\ntime.sleep(0.5)\\nprint(7)"
        printed, usage = run_apart([sys.executable, "-c", f"import subprocess, sys\\n"
            f"sys.stdout.write(subprocess.run([sys.executable, '-c', {hold!r}], stdout=-1, text=True).stdout)"])
        print(json.dumps({"printed": int(printed), **vars(usage)}))
        """
    )
    assert found["printed"] == 7
    assert 0.28 < found["cpu_s"] < 3
    assert found["peak_mb"] > 80


def test_sizes_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable sets a size, otherwise the run is whole or quick."""
    monkeypatch.delenv(QUICK, raising=False)
    assert (is_quick(), choose_number("BENCH_X", 100, 5)) == (False, 100)
    monkeypatch.setenv(QUICK, "1")
    assert (is_quick(), choose_number("BENCH_X", 100, 5)) == (True, 5)
    monkeypatch.setenv("BENCH_X", "7")
    assert choose_number("BENCH_X", 100, 5) == 7
