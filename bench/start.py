"""The price of one command: CPU seconds and imported modules of the ten most used ones, on a lake of 24 commits.

Each command is a process of its own, as at a shell. Its CPU seconds count all processes that it started. Bytecode is
cached, as after the first run of an installation. The ratios compare with the goals of the most used commands.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from bench.report import Report
from bench.search import lake_of
from bench.sizes import choose_number

NAME, COMMITS = "start", 24
ROUNDS = choose_number("BENCH_ROUNDS", whole=3, quick=1)
COUNT = "SELECT severity_text, count(*) FROM logs GROUP BY ALL ORDER BY ALL"
COMMANDS = {
    "help": ("--help",),
    "tables": ("tables",),
    "status": ("status",),
    "query": ("query", "--org", "acme", COUNT),
    "doctor": ("doctor",),
    "compact_status": ("compact", "status"),
    "compact_plan": ("compact", "plan", "logs"),
    "plan": ("plan",),
    "jobs": ("jobs", "list"),
    "keys": ("keys", "list"),
}
GOALS = {"tables": 0.5, "status": 0.5, "query": 1.0, "doctor": 1.0, "compact_status": 1.0}  # CPU seconds
RUN = "import runpy; runpy.run_module('neve', run_name='__main__')"
RUN_TO_END = "from neve.cli.main import main; main()"  # with handlers that were registered before
COUNT_MODULES = """\
import atexit, sys
atexit.register(lambda: print(len(sys.modules), file=sys.stderr))
"""


def main() -> None:
    """Measure each command; the rounds take turns, so that a busy moment meets all commands."""
    report = Report("start")
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        make_lake(Path(folder))
        seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _round in range(ROUNDS):
            for name, arguments in COMMANDS.items():
                seconds[name].append(measure_cpu(folder, arguments))
        for name, arguments in COMMANDS.items():
            report.ours[f"{name}_cpu_s"] = min(seconds[name])
            report.ours[f"{name}_modules"] = count_modules(folder, arguments)
        for name, goal in GOALS.items():
            report.ratios[f"{name}_of_goal"] = min(seconds[name]) / goal
    report.show()


def make_lake(folder: Path) -> None:
    """Write a lake, its configuration and a state store with one key; the first command also fills the caches."""
    lake = lake_of(folder, NAME, files=COMMITS)
    settings = {
        "lake": {"warehouse": lake.lake.warehouse},
        "catalog": {"name": NAME, "path": lake.catalog_config.path},
        "state": {"path": str(folder / "state.db")},
    }
    (folder / "neve.yaml").write_text(yaml.safe_dump(settings))
    run(str(folder), ("keys", "create", "--org", "acme", "--scope", "read"))
    for arguments in COMMANDS.values():
        run(str(folder), arguments)


def measure_cpu(folder: str, arguments: tuple[str, ...]) -> float:
    """Return the CPU seconds of a command and of all processes that it started and waited for."""
    started = subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _pid, status, usage = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert started.returncode == 0, f"neve {' '.join(arguments)} ended with {started.returncode}"
    return usage.ru_utime + usage.ru_stime


def count_modules(folder: str, arguments: tuple[str, ...]) -> int:
    """Return the number of modules that a command has imported when it ends."""
    return int(run(folder, arguments, COUNT_MODULES).stderr.splitlines()[-1])


def run(folder: str, arguments: tuple[str, ...], before: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-c", before + (RUN_TO_END if before else RUN), *arguments]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=True)


def environment() -> dict[str, str]:
    """Return the environment without variables that keep Python from writing bytecode, and without Neve's own."""
    return {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith("NEVE_")
    } | ({"NEVE_CACHE": os.environ["NEVE_CACHE"]} if "NEVE_CACHE" in os.environ else {})
