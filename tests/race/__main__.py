"""The long run: `python -m tests.race`."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.race.deaths import draw_deaths
from tests.race.race import Race, plan_rounds

ROUNDS, SECONDS = 50, 12.0


def main() -> int:
    """Run it, say what happened; 1 when a row is lost, doubled or changed, or something is left behind."""
    options = _options()
    folder = Path(options.keep or tempfile.mkdtemp(prefix="neve-race-"))
    folder.mkdir(parents=True, exist_ok=True)
    _tell(f"seed {options.seed}, {options.rounds} rounds, folder {folder}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nothing is left running
    rng = random.Random(options.seed)
    rounds = plan_rounds(draw_deaths(options.rounds, rng), rng)
    outcome = Race(folder, options.seed, options.seconds_per_round, _tell).run(rounds)
    _tell(str(outcome))
    if outcome.good and not options.keep:
        shutil.rmtree(folder)
    return 0 if outcome.good else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.race", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds-per-round",
        type=float,
        default=SECONDS,
        help="how long a compactor may work until it is killed wherever it is, if it did not die as planned",
    )
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
