"""The long run: `python -m tests.chaos`, with `--collector` for the senders that people have."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos import own, stock
from tests.chaos.exports import plan_exports
from tests.chaos.kills import Victim, plan_kills
from tests.parts.collector import missing, missing_telemetrygen

if TYPE_CHECKING:
    from tests.chaos.outcome import Outcome

RECORDS, KILLS, EXPORTS_PER_SECOND = 100_000, 10, 8.0
SECONDS_PER_KILL = 17.0  # about how long a kill and the start after it take, so that telemetrygen lasts as long


def main() -> int:
    """Run it, say what happened; 1 when something is lost or doubled, 2 when it can't run here."""
    options = _options()
    if options.collector and (lacking := missing() or missing_telemetrygen()):
        _tell(lacking)
        return 2
    folder = Path(options.keep or tempfile.mkdtemp(prefix="neve-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    _tell(f"seed {options.seed}, {options.records:,} records of each signal, folder {folder}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nothing is left running
    outcome = _run(options, folder)
    _tell(str(outcome))
    if outcome.good and not options.keep:
        shutil.rmtree(folder)
    return 0 if outcome.good else 1


def _run(options: argparse.Namespace, folder: Path) -> Outcome:
    rng = random.Random(options.seed)
    exports, kills = plan_exports(options.records, rng), plan_kills(dict.fromkeys(Victim, options.kills), rng)
    if options.collector:
        return stock.run(stock.StockPlan(options.records, len(kills) * SECONDS_PER_KILL, kills), folder, _tell)
    return own.run(own.Plan(exports, kills, EXPORTS_PER_SECOND), folder, _tell)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS, help="of each signal")
    parser.add_argument("--kills", type=int, default=KILLS, help="of each victim: receiver, stream, Spark driver")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--collector", action="store_true", help="telemetrygen sends, through a collector")
    parser.add_argument(
        "--keep",
        metavar="FOLDER",
        help="an empty folder for everything of the run; without it only a bad run leaves one",
    )
    return parser.parse_args()


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
