"""One hostile organization beside an honest one: `python -m tests.siege --seconds 300`."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.siege.plan import Plan
from tests.siege.siege import run_siege
from tests.siege.verdict import by_attack, judge


def main() -> int:
    """Run it, report what happened; 1 when a promise is broken."""
    options = _options()
    plan = Plan(seconds=options.seconds, quiet_seconds=options.quiet_seconds, slow_clients=options.slow_clients)
    folder = Path(options.keep or tempfile.mkdtemp(prefix="neve-siege-"))
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nothing is left running
    _tell(f"{plan.quiet_seconds:g} s quiet, {plan.seconds:g} s of siege, folder {folder}")
    run = run_siege(plan, folder, _tell)
    for line in by_attack(run.answers):
        _tell(line)
    report, broken = judge(run)
    for words in broken:
        _tell(f"BROKEN: {words}")
    report.show()
    if not broken and not options.keep:
        shutil.rmtree(folder)
    return 1 if broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.siege", description=__doc__)
    parser.add_argument("--seconds", type=float, default=Plan.seconds, help="how long the siege is")
    parser.add_argument(
        "--quiet-seconds", type=float, default=Plan.quiet_seconds, help="how long it is quiet before, and again after"
    )
    parser.add_argument("--slow-clients", type=int, default=Plan.slow_clients, help="clients that send slowly")
    parser.add_argument(
        "--keep",
        metavar="FOLDER",
        help="an empty folder for everything of the run; without it only a bad run leaves one",
    )
    return parser.parse_args()


def _tell(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
