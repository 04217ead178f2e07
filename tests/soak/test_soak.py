"""A short soak: a real service, a part of it killed, and every record there once."""

from pathlib import Path

import pytest

from tests.soak.plan import Plan
from tests.soak.soak import Soak
from tests.soak.verdict import judge


@pytest.mark.kills
def test_what_is_acknowledged_under_load_and_kills_is_there_once(tmp_path: Path) -> None:
    """A minute with the receiver killed in the midst; `make soak` does more."""
    plan = Plan(
        seconds=60,
        rate=50,
        kill=True,
        commit_seconds=5,
        sample_seconds=2,
        recovery_seconds=20,
        gap_seconds=30,
        inactivity_seconds=10,
        settle_seconds=120,
    )
    said: list[str] = []
    run = Soak(plan, tmp_path, said.append).run()
    numbers = judge(run).report.ours
    assert numbers["records"] > 3 * 50 * 40
    assert run.recoveries
    wrong = {
        name: numbers[name]
        for name in ("lost", "duplicated", "strangers", "rollup_wrong", "undecided", "decided_twice")
    }
    assert wrong == dict.fromkeys(wrong, 0), "\n".join(said)
    assert not run.finals.troubles, "\n".join(said)
