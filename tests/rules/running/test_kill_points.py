"""Killed at each step of a cycle, in this process: no alert is lost, and none fires twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from neve.rules.notify.delivery_queue import DeliveryQueue
from neve.rules.notify.destination import Destination
from neve.rules.running.runner import RuleRunner
from neve.rules.status import RuleStatuses
from tests.query.lakes import ACME
from tests.rules.running.alert_receiver import open_receiver
from tests.rules.running.test_delivery import Room, manager, webhook

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.lake.lake import Lake

POINTS: dict[str, tuple[Any, str, bool]] = {
    "after the evaluation": (RuleRunner, "_evaluate_sources", True),
    "before the commit": (RuleRunner, "_commit", False),
    "after the commit": (RuleRunner, "_commit", True),
    "before the queue": (DeliveryQueue, "add", False),
    "before the status": (RuleStatuses, "publish", False),
    "before the request": (Destination, "send", False),
    "after the request": (Destination, "send", True),
    "before the cursor": (DeliveryQueue, "_store", False),
    "after the cursor": (DeliveryQueue, "_store", True),
}


class Killed(BaseException):
    """The end of the process."""


def kill_at(place: Any, name: str, *, after: bool) -> Callable[..., Any]:
    """Return a method that ends the process before or after its work."""
    original = getattr(place, name)

    def method(*arguments: Any, **named: Any) -> Any:
        if after:
            original(*arguments, **named)
        raise Killed

    return method


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_killed_at(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """A process that ends at a step of firing and of resolving is continued: each alert arrives, with one start."""
    place, name, after = POINTS[point]
    with open_receiver() as first, open_receiver() as second:
        room = Room(lake, tmp_path, manager(first), webhook(second), resend_seconds=30)
        room.cycle(1)
        for value in (9, 1):
            with monkeypatch.context() as patched:
                patched.setattr(place, name, kill_at(place, name, after=after))
                with pytest.raises(Killed):
                    room.cycle(value)
            room.restart()
            room.service.deliver()
            room.cycle(value)
        rows = room.desk.ask("SELECT DISTINCT fired_at FROM recorded WHERE fired_at IS NOT NULL")
        assert len(rows) == 1
        expected = f"{rows[0]['fired_at']:%Y-%m-%dT%H:%M:%S}.000Z"
        for receiver in (first, second):
            assert {one["startsAt"] for one in receiver.alerts()} == {expected}
        assert next(one["status"] for one in second.alerts()) == "firing"
        assert [one["status"] for one in second.alerts()][-1] == "resolved"
        cycles = room.desk.ask("SELECT DISTINCT cycle FROM recorded ORDER BY cycle", ACME)
        assert [row["cycle"] for row in cycles] == list(range(1, len(cycles) + 1))
