"""Killed at random moments under load: what was acknowledged is there, once."""

import random
from pathlib import Path

import pytest

from tests.chaos.exports import plan_exports
from tests.chaos.kills import Moment, Victim, kill_at
from tests.chaos.own import Plan, run

RECORDS, SEED = 3_000, 20_261_116
# A stream takes long to start: one is killed in the midst of its commits, one wherever it is with its first batch.
KILLS = (
    (Victim.RECEIVER, Moment.WORK),
    (Victim.STREAM, Moment.COMMIT),
    (Victim.RECEIVER, Moment.WORK),
    (Victim.DRIVER, Moment.WORK),
)


@pytest.mark.kills
def test_what_was_acknowledged_is_in_the_tables_once(tmp_path: Path) -> None:
    """Receiver, stream and Spark driver die while three signals come over gRPC and HTTP; `make chaos` does more."""
    rng = random.Random(SEED)
    kills = [kill_at(victim, moment, rng) for victim, moment in KILLS]
    outcome = run(Plan(plan_exports(RECORDS, rng), kills, exports_per_second=3.0), tmp_path)
    assert outcome.good, str(outcome)
    assert outcome.records == 3 * RECORDS
    assert outcome.retried > outcome.deaf > 0, "nobody was hit: the receiver died while nothing was sent"
    assert outcome.duplicates > 0, "nothing came twice: the sieve was not tried"
    assert outcome.kills == kills
