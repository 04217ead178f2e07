"""The history: attempts, their reports and outcomes survive the way into the store, and nobody's step is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from neve.autopilot.attempt import Attempt, Stage, Step
from neve.autopilot.history import History
from neve.autopilot.outcome import Outcome
from neve.errors import LakeError
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.autopilot.propose.examples import AFTER, BEFORE, PROPOSAL, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = datetime(2026, 1, 31, tzinfo=UTC)
FIRST = Attempt("a/1", TABLE, "zorder", BEFORE, AFTER, (Step(Stage.RECOMMENDED, NOW, "because"),))
OUTCOME = Outcome(TABLE, "a/1", "zorder", NOW, 62.0, 55.5, 58.25)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """One in a SQLite file."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
    yield History(documents)
    documents.close()


def test_an_attempt_is_told_from_its_beginning_to_its_end(history: History) -> None:
    """Every stage with its time, its reason and its report, in the order that they came."""
    history.begin(FIRST)
    for stage in list(Stage)[1:5]:
        noted = history.note(
            TABLE, "a/1", stage, f"why {stage}", {"stage": stage.value, "proposal": PROPOSAL.as_document()}
        )
        assert (history.report(noted.steps[-1]) or {})["stage"] == stage
    assert history.note(TABLE, "a/1", Stage.ROLLED_BACK, "by hand").steps[-1].report == ""
    found = history.attempt(TABLE, "a/1")
    assert found is not None
    assert (found.before, found.after, found.kind, found.started_at) == (BEFORE, AFTER, "zorder", NOW)
    assert [step.stage for step in found.steps] == list(Stage)[:6]
    assert found.stage is Stage.ROLLED_BACK
    assert [step.reason for step in found.steps[1:3]] == ["why staged", "why canary"]
    assert all(step.at.tzinfo for step in found.steps)


def test_attempts_are_listed_newest_first(history: History) -> None:
    """Of one table or of all; a table whose name begins alike is another."""
    for number, table in enumerate((TABLE, TABLE, f"{TABLE}/x", f"{TABLE}2")):
        step = Step(Stage.RECOMMENDED, NOW + timedelta(days=number))
        history.begin(replace(FIRST, id=str(number), table=table, steps=(step,)))
    assert [one.id for one in history.attempts(TABLE)] == ["1", "0"]
    assert [one.id for one in history.attempts()] == ["3", "2", "1", "0"]


def test_an_attempt_begins_once(history: History) -> None:
    """And what never began has no stages."""
    history.begin(FIRST)
    with pytest.raises(LakeError, match="is already in the history"):
        history.begin(FIRST)
    with pytest.raises(LakeError, match="is not in the history"):
        history.note(TABLE, "a2", Stage.STAGED)
    assert history.attempt(TABLE, "a2") is None


def test_steps_of_several_are_all_kept(history: History) -> None:
    """Threads that note at the same time overwrite neither each other's steps nor reports."""
    history.begin(FIRST)
    with ThreadPoolExecutor(4) as pool:
        each = list(
            pool.map(lambda number: history.note(TABLE, "a/1", Stage.CANARY, str(number), {"n": number}), range(12))
        )
    found = history.attempt(TABLE, "a/1")
    assert found is not None
    assert sorted(int(step.reason) for step in found.steps[1:]) == list(range(12))
    assert [(history.report(noted.steps[-1]) or {})["n"] for noted in each] == list(range(12))


def test_outcomes_come_back(history: History) -> None:
    """The last measure of an attempt counts."""
    history.deliver(replace(OUTCOME, delivered_pct=1.0))
    history.deliver(OUTCOME)
    history.deliver(replace(OUTCOME, table="lake.other"))
    assert list(history.outcomes(TABLE)) == [OUTCOME]
    assert len(list(history.outcomes())) == 2


def test_reports_of_what_is_long_over_are_forgotten(history: History) -> None:
    """What is open keeps them, and every attempt keeps its stages, reasons and outcome."""
    for number, last in enumerate((Stage.ROLLED_BACK, Stage.MERGED, Stage.STAGED)):
        history.begin(replace(FIRST, id=str(number)))
        history.note(TABLE, str(number), Stage.STAGED, "staged", {"rows": number})
        history.note(TABLE, str(number), last, "in the end", {"rows": 10 + number})
    history.deliver(replace(OUTCOME, attempt_id="1"))
    assert history.forget_reports(NOW) == []  # they ended later
    later = datetime.now(UTC) + timedelta(days=1)
    assert {one.id for one in history.forget_reports(later)} == {"0", "1"}
    assert history.forget_reports(later) == []
    kept = {one.id: [history.report(step) for step in one.steps] for one in history.attempts()}
    assert kept == {"0": [None] * 3, "1": [None] * 3, "2": [None, {"rows": 2}, {"rows": 12}]}
    assert [step.reason for step in history.attempts()[0].steps] == ["because", "staged", "in the end"]
    assert len(list(history.outcomes())) == 1
