"""Compaction that is killed while others write changes no row."""

import random
from pathlib import Path

import pytest

from tests.race.deaths import Point, death_at
from tests.race.race import Race, Round
from tests.race.table import Mode

SEED, SECONDS = 20_261_116, 10.0
ROUNDS = (
    (Mode.BY_FILE, Point.WRITTEN),
    (Mode.COPY, Point.COMMITTED),
    (Mode.BY_PARTITION, Point.PUBLISHING),
)


@pytest.mark.kills
def test_rows_are_what_they_would_be_without_compaction(tmp_path: Path) -> None:
    """Appends, deletes, updates, merges and overwrites go on while compactors die; `make race` does more."""
    rng = random.Random(SEED)
    rounds = [Round(number, mode, (death_at(point, rng),)) for number, (mode, point) in enumerate(ROUNDS, 1)]
    outcome = Race(tmp_path, SEED, SECONDS, lambda _line: None).run(rounds)
    assert outcome.good, str(outcome)
    assert outcome.rounds == len(ROUNDS)
    assert outcome.groups > 0, "nothing was compacted: nothing was raced against"
    assert outcome.settled["runs"] > 0, "no compactor left anything to settle"
    assert sum(outcome.deaths.values()) > 0, "no compactor died where it should"
