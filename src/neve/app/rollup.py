"""Rollups as the settings describe them: what retention may have taken is not computed anew."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from neve.app.wiring import build_documents
from neve.lake.calendar import now_utc
from neve.maintain.retention_rules import rule_for, rules_for
from neve.rollup.job import Rollup
from neve.rollup.ranges import BEGINNING, micros_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.rollup.job import Progress
    from neve.rollup.wanted import Frozen


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


def frozen_by_retention(settings: Settings, source: str, now: datetime) -> Frozen:
    """Before which moment the rows of an organization may be deleted for their age: those windows stay as they are."""
    rules = rules_for(settings.maintain.retention, source)

    def moment(owner: str) -> int:
        rule = rule_for(rules, owner)
        if rule is None or not rule.days:
            return BEGINNING
        return micros_of(now - timedelta(days=rule.days))

    return moment
