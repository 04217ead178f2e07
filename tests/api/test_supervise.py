"""The start of a process group."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from structlog.testing import capture_logs

from neve.api import supervise
from neve.app.serve.household import Household
from neve.errors import NeveError
from tests.app.serve.little import QUICK, Failing, Steady

if TYPE_CHECKING:
    import pytest


def test_who_is_not_ready_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again, with what it failed of last, until all are ready."""
    monkeypatch.setattr(supervise, "LATE_SECONDS", 0.1)
    tend = Failing(NeveError("the process tend ended: exit code 1"), times=1, name="tend")
    slow = QUICK.model_copy(update={"restart_first_seconds": 0.5, "restart_most_seconds": 0.5})
    household = Household([Steady("receiver"), tend], slow)

    async def start() -> bool:
        household.start()
        return await supervise._runs(household, asyncio.Event())

    with capture_logs() as said:
        assert asyncio.run(start())
    late = [line for line in said if line["event"] == "processes are not ready"]
    assert len(late) > 1
    assert all([*line["waiting_for"]] == ["tend"] for line in late)
    assert late[0]["waiting_for"]["tend"] == "failed: the process tend ended: exit code 1"
    assert household.stop()
