"""Rollups as the settings describe them: what retention may have taken is not computed anew."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from neve.app.wiring import build_documents
from neve.lake.calendar import now_utc
from neve.maintain.retention_rules import rule_for, rules_for
from neve.model.rollups import LEVELS
from neve.rollup.job import Rollup
from neve.rollup.metrics import LAG
from neve.rollup.ranges import BEGINNING, micros_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.rollup.job import Progress
    from neve.rollup.wanted import Frozen

log = structlog.get_logger("neve.rollup")


def build_rollup(
    settings: Settings,
    lake: Lake,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
    clock: Callable[[], datetime] = now_utc,
) -> Rollup:
    """The rollups of a lake; `steal` takes the lease of another run that is known to be dead."""
    return Rollup(
        lake,
        settings.rollup,
        build_documents(settings),
        frozen=lambda source: frozen_by_retention(settings, source, clock()),
        clock=clock,
        steal=steal,
        progress=progress,
    )


def refresh_lag(settings: Settings, lake: Lake, documents: Documents) -> None:
    """Bring the metrics of how far rollups are behind up to date, whether any has run or not.

    One process of a lake does it, and reads metadata alone. What can't be told is not a number, and said in the log: a
    metric is no reason to fail.
    """
    try:
        Rollup(lake, settings.rollup, documents).watch_lag()
    except Exception as error:
        # Whatever it is, of the catalog, the storage or the network.
        log.warning("how far rollups are behind can't be told", error=str(error))
        for level in LEVELS:
            LAG.labels(level.name).set(math.nan)


def forget_lag() -> None:
    """Say no more how far rollups are behind: somebody else does now."""
    LAG.clear()


def frozen_by_retention(settings: Settings, source: str, now: datetime) -> Frozen:
    """Before which moment the rows of an organization may be deleted for their age: those windows stay as they are."""
    rules = rules_for(settings.maintain.retention, source)

    def moment(owner: str) -> int:
        rule = rule_for(rules, owner)
        if rule is None or not rule.days:
            return BEGINNING
        return micros_of(now - timedelta(days=rule.days))

    return moment
