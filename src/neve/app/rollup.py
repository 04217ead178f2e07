"""Rollups wired from the settings. Windows that retention may have deleted rows of are not computed again."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.app.wiring import build_documents
from neve.lake.calendar import micros_of, now_utc
from neve.lake.time_ranges import BEGINNING
from neve.logger import get_logger
from neve.maintain.retention_plan import rule_for, rules_for
from neve.model.levels import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.lake.read.incremental import Frozen
    from neve.rollup.job import Progress, Rollup
    from neve.state.documents import Documents

log = get_logger("neve.rollup")


def build_rollup(
    settings: Settings,
    lake: Lake,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    steal: bool = False,
    clock: Callable[[], datetime] = now_utc,
) -> Rollup:
    """Build the rollups of a lake; `steal` takes the lease of another run that is known to be dead."""
    from neve.rollup.job import Rollup  # noqa: PLC0415 - queries need only the rules of retention

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
    """Update the metrics of rollup lag, whether or not a rollup has run.

    One process of a lake does it, and reads metadata alone. An unknown lag is NaN and is logged: a metric is no reason
    to fail.
    """
    from neve.rollup.job import LAG, Rollup  # noqa: PLC0415 - as above

    try:
        Rollup(lake, settings.rollup, documents).watch_lag()
    except Exception as error:
        # Any error of the catalog, the storage or the network.
        log.warning("lag of rollups is unknown", error=str(error))
        for level in LEVELS:
            LAG.labels(level.name).set(math.nan)


def clear_lag() -> None:
    """Remove the metrics of rollup lag, because another process reports them now."""
    from neve.rollup.job import LAG  # noqa: PLC0415 - as above

    LAG.clear()


def frozen_by_retention(settings: Settings, source: str, now: datetime) -> Frozen:
    """Return a function for the time before which retention may delete an organization's rows.

    Windows before it are frozen.
    """
    rules = rules_for(settings.maintain.retention, source)

    def moment(owner: str) -> int:
        rule = rule_for(rules, owner)
        if rule is None or not rule.days:
            return BEGINNING
        return micros_of(now - timedelta(days=rule.days))

    return moment
