"""The long run: `python -m tests.soak --seconds 1200 --rate 2000`, with `--kill` or `--two`."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.plan import Plan
from tests.soak.soak import Soak
from tests.soak.verdict import judge

SECONDS, RATE = 1200.0, 2000.0


def main() -> int:
    """Run it, say what happened; 1 when a bound is broken."""
    options = _options()
    plan = Plan(options.seconds, options.rate, kill=options.kill, two=options.two)
    folder = Path(options.keep or tempfile.mkdtemp(prefix="neve-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nothing is left running
    _tell(f"{plan.seconds:g} s at {plan.rate:g} records of each signal a second, folder {folder}")
    verdict = judge(Soak(plan, folder, _tell).run())
    for words in verdict.broken:
        _tell(f"BROKEN: {words}")
    verdict.report.show()
    if not verdict.broken and not options.keep:
        shutil.rmtree(folder)
    return 1 if verdict.broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long is sent")
    parser.add_argument("--rate", type=float, default=RATE, help="records of each signal a second")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--kill", action="store_true", help="kill each part in turn")
    how.add_argument("--two", action="store_true", help="two services of one lake, of which one is killed in turn")
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
