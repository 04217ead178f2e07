"""Count the source files that one command executes, on a small lake that is made for it.

python -m tools.code_walk query                             # this tree
python -m tools.code_walk tail query compact                # several commands on one lake
python -m tools.code_walk compact --source OTHER/src        # another tree, such as a worktree of an older commit
python -m tools.code_walk tail --list                       # the files, in the order of their first call

The lake is made by this tree, in a temporary folder. Each command runs there in a process of its own, with the code of
the measured tree, under `sys.setprofile`. A file counts when one of its functions is called,
except while a module is imported. The Python workers of Spark are processes of their own and do not count.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from neve import open_lake
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import SPANS

START = datetime(2026, 1, 1, tzinfo=UTC)
DATA_FILES, SPANS_OF_A_FILE = 12, 20  # enough small files that there is something to compact
POLICIES = """
tail_sampling:
  policies:
    - {name: errors, type: error}
    - {name: slow, type: latency, latency: {threshold_ms: 50}}
    - {name: rest, type: probabilistic, probabilistic: {sampling_percentage: 10}}
"""
COMMANDS = {
    "query": ("query", "SELECT service_name, count(*) FROM spans WHERE duration_ms > 1 GROUP BY 1"),
    "compact": ("compact", "run", "spans"),
    "tail": ("tail", "run", "--once", "--policies", "policies.yaml"),
}
# Runs in the measured process: the arguments are the package, the file for the result, and those of the command.
PROFILED = """
import inspect, json, sys, threading
package, result, *command = sys.argv[1:]
sys.argv = ["neve", *command]
seen, known = {}, {}

def is_import(frame):
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False

def note(frame, event, _argument):
    code = frame.f_code
    if event != "call" or code in known:
        return
    if not code.co_filename.startswith(package) or not code.co_flags & inspect.CO_OPTIMIZED:
        known[code] = True
    elif not is_import(frame):
        known[code] = True
        seen.setdefault(code.co_filename[len(package) + 1:], None)

from neve.cli.main import main
threading.setprofile(note)
sys.setprofile(note)
try:
    main()
finally:
    sys.setprofile(None)
    with open(result, "w") as file:
        json.dump(list(seen), file)
"""


def make_spans(number: int) -> pa.Table:
    """Make spans of one file, each a trace of its own, the same in each run."""
    rows = []
    for place in range(number * SPANS_OF_A_FILE, (number + 1) * SPANS_OF_A_FILE):
        start, milliseconds = START + timedelta(seconds=place), place % 100
        nanos = int(start.timestamp()) * 10**9
        rows.append(
            {
                "organization_id": "default",
                "timestamp": start,
                "trace_id": place.to_bytes(16, "big"),
                "span_id": place.to_bytes(8, "big"),
                "service_name": f"shop-{place % 3}",
                "operation_name": "GET /cart",
                "span_kind": 2,
                "status_code": 2 if place % 7 == 0 else 0,
                "duration_ms": float(milliseconds),
                "start_time_unix_nano": nanos,
                "end_time_unix_nano": nanos + milliseconds * 10**6,
                "attributes": [("http.route", "/cart")],
                "attribute_types": [],
                "resource_attrs": [("service.name", f"shop-{place % 3}")],
                "record_id": place.to_bytes(16, "big"),
                "ingested_at": start,
            }
        )
    return pa.Table.from_pylist(rows, SPANS.schema)


def make_lake(folder: Path) -> None:
    """Create a lake with several small files of spans, and a file of policies."""
    (folder / "policies.yaml").write_text(POLICIES)
    with contextlib.chdir(folder), open_lake() as opened:
        opened.init_tables()
        for number in range(DATA_FILES):
            table = opened.lake.table("spans")
            files = write_files(Target.of(table), make_spans(number))
            append_once(table, files, batch_id=f"walk-{number}", operation="walk")


def walk(folder: Path, command: str, source: Path) -> list[str]:
    """Return the files that a command executes in the folder of a lake, in the order of their first call."""
    result = folder / "walk.json"
    arguments = [str(source / "neve"), str(result), *COMMANDS[command]]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    run = [sys.executable, "-c", PROFILED, *arguments]
    done = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(COMMANDS[command])} failed:\n{done.stdout}{done.stderr}")
    found: list[str] = json.loads(result.read_text())
    return found


def main() -> None:
    """Print the number of files of each command, and the files if asked for."""
    parser = argparse.ArgumentParser(description="Count the source files that a command executes.")
    parser.add_argument("commands", nargs="+", choices=sorted(COMMANDS))
    parser.add_argument("--source", default="src", type=Path, help="folder with the package neve")
    parser.add_argument("--list", action="store_true", help="print the files, too")
    given = parser.parse_args()
    source = given.source.resolve()
    with tempfile.TemporaryDirectory(prefix="neve-walk-") as name:
        make_lake(Path(name))
        for command in given.commands:
            files = walk(Path(name), command, source)
            lines = [*(files if given.list else ()), f"{command}: {len(files)} files"]
            sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
