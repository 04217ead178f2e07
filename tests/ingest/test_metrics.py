"""What ingestion says of itself to Prometheus."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from neve.ingest import metrics
from neve.ingest.metrics import watch_backlog

if TYPE_CHECKING:
    import pytest


def waiting(stream: str) -> tuple[float | None, float | None]:
    """What a scrape sees."""
    names = ("neve_ingest_waiting_bytes", "neve_ingest_waiting_seconds")
    bytes_, seconds = (REGISTRY.get_sample_value(name, {"stream": stream}) for name in names)
    return bytes_, seconds


def test_one_look_at_the_raw_zone_does_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """And for the scrapes that come soon after; then there is another one."""
    looks = itertools.count(1)
    watch_backlog("counted", lambda: (next(looks), 0.5))
    assert [waiting("counted") for _scrape in range(3)] == [(1, 0.5)] * 3
    monkeypatch.setattr(metrics, "BACKLOG_CACHE_SECONDS", 0.0)
    watch_backlog("counted", lambda: (next(looks), 0.5))
    seen = [waiting("counted")[0] or 0 for _scrape in range(2)]
    assert seen[0] < seen[1]


def test_a_raw_zone_that_is_away_takes_no_other_metric_along() -> None:
    """What waits is not a number then, and the log says why."""

    def away() -> tuple[int, float]:
        raise OSError("no such bucket")

    watch_backlog("away", away)
    with capture_logs() as said:
        assert all(math.isnan(value or 0) for value in waiting("away"))
    assert [(line["stream"], line["error"]) for line in said] == [("away", "no such bucket")]
