"""What applies now, asked for every job that waits."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from neve.app.serve.parts.build import FRESH_SECONDS, ActiveRules
from neve.jobs.job import Job, Task
from neve.jobs.pauses import Pauses
from neve.jobs.policies import Policies, PolicyStore
from neve.jobs.policy import Policy, build_default_policy
from tests.jobs.support import Clock, sqlite

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NIGHT = Policy.model_validate(
    {"name": "night", "tables": ["*"], "quiet": [{"start": "12:00", "end": "12:30", "tasks": ["compact"]}]}
)


def test_the_store_is_not_asked_for_the_time_of_each_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many jobs that wait for the end of quiet hours cost a look every few seconds; then they may begin."""
    documents, clock, looks, local = sqlite(tmp_path), Clock(), list[datetime](), [0.0]

    def now() -> datetime:
        looks.append(clock())
        return clock()

    monkeypatch.setattr(documents, "now", now)
    rules = ActiveRules(
        PolicyStore(documents, Policies((NIGHT,), build_default_policy(None))),
        Pauses(documents, fresh_seconds=60),
        monotonic=lambda: local[0],
    )
    job = Job("1", Task.COMPACT, "logs", "", "12 files", created=clock(), not_before=clock())
    assert all(rules.against(job) for _ in range(100))
    assert len(looks) == 2  # of the pauses, and of the policies
    clock.forward(30 * 60)
    local[0] += FRESH_SECONDS
    assert rules.against(job) is None
    documents.close()
