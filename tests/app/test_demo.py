"""The demo's own decisions, without its hour of telemetry."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from neve.app.demo import demo
from neve.app.demo.demo import HOUR_NANOS, Demo, Facts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

NOON = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 10**9
FACTS = Facts(
    files=1,
    bytes=1,
    traces=1,
    spans=1,
    logs=1,
    points=1,
    incident_service="payment",
    incident_start_unix_nano=NOON + HOUR_NANOS // 2,
    incident_end_unix_nano=NOON + HOUR_NANOS // 2 + 1,
    requests_in_window=1,
    failed_in_window=1,
)


def test_rollups_of_the_demo_do_not_depend_on_the_time_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All windows of the demo's hour are closed, and none of later hours, so that a second demo has nothing to do."""
    clocks: list[Callable[[], datetime]] = []

    class NoRollup:
        def run(self) -> list[object]:
            return []

    def build(_settings: object, _lake: object, _say: object, *, clock: Callable[[], datetime]) -> NoRollup:
        clocks.append(clock)
        return NoRollup()

    monkeypatch.setattr(demo, "build_rollup", build)
    run = Demo.at(tmp_path / "demo")
    run.roll_up(FACTS, lambda *_: None)
    assert run.settings.rollup.grace_seconds == 60
    assert [clock() for clock in clocks] == [datetime(2026, 3, 1, 13, 1, tzinfo=UTC)]
