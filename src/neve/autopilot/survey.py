"""A look at the lake: the tables that are looked after, what is asked of them, and what should change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from neve.autopilot.analyzer import analyze
from neve.autopilot.journal import Stage
from neve.autopilot.own_log import own_log
from neve.autopilot.parse.tables import Tables
from neve.autopilot.promise import promised
from neve.autopilot.recommend.advise import advise
from neve.autopilot.recommend.hysteresis import Change
from neve.autopilot.sources.build import sources_of
from neve.errors import ConfigError
from neve.lake.calendar import now_utc
from neve.lake.lake import identify
from neve.model.tables import BY_SIGNAL, NAMESPACE, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from neve.autopilot.analyzer import Analysis
    from neve.autopilot.config import AutopilotConfig
    from neve.autopilot.journal import Attempt, History
    from neve.autopilot.promise import Promises
    from neve.lake.lake import Lake

# Tables that Neve keeps for itself: their layout is part of how they are written.
OWN = frozenset(f"{NAMESPACE}.{one.name}" for one in TABLES if one not in BY_SIGNAL.values())


@dataclass(frozen=True)
class Survey:
    """Looks, and changes nothing."""

    lake: Lake
    config: AutopilotConfig
    history: History
    clock: Callable[[], datetime] = now_utc

    def tables(self, patterns: Iterable[str] = ()) -> list[str]:
        """The tables that are looked after, or those that were asked for; raises `ConfigError` for one that is not."""
        names = sorted(_names(self.lake))
        asked = tuple(patterns)
        for one in asked:
            if not any(is_meant(name, one) for name in names):
                raise ConfigError(f"there is no table {one} in the catalog", hint=f"there are {', '.join(names)}")
        return [name for name in names if any(is_meant(name, one) for one in asked or self.config.tables)]

    def analyze(self) -> Analysis:
        """What was asked of every table of the catalog."""
        schemas = {name: self.lake.table(name).schema() for name in _names(self.lake)}
        logs = self.config.logs
        since = self.clock() - timedelta(days=logs.lookback_days)
        sources = sources_of(logs, own_log(self.lake))
        if not sources:
            raise ConfigError(
                "there is no query log to analyse",
                hint="name one in autopilot.logs, or run `neve init` for Neve's own table of queries",
            )
        return analyze(sources, Tables(schemas), since, max_queries=logs.max_queries)

    def advise(self, table: str, analysis: Analysis) -> Promises:
        """What should change about a table, and what that promises."""
        config = self.config.recommend
        changes = [change for one in self.history.attempts(table) for change in changes_of(one)]
        found = advise(self.lake.table(table), analysis.queries, config, now=self.clock(), history=changes)
        return promised(found, tuple(self.history.outcomes()), config.min_reduction)


def is_meant(table: str, pattern: str) -> bool:
    """Whether a pattern means a table; one with wildcards means no table that Neve keeps for itself.

    >>> is_meant("telemetry.spans", "spans"), is_meant("telemetry.queries", "*"), is_meant("shop.orders", "shop.*")
    (True, False, True)
    """
    whole = pattern if pattern == "*" else ".".join(identify(pattern))
    is_pattern = any(mark in pattern for mark in "*?[")
    return fnmatchcase(table, whole) and not (is_pattern and table in OWN)


def changes_of(attempt: Attempt) -> Iterator[Change]:
    """The layouts that an attempt gave to main: the new one, and the old one again."""
    merged = False
    for step in attempt.steps:
        if step.stage is Stage.MERGED:
            merged = True
            yield Change(step.at, attempt.before, attempt.after)
        elif step.stage is Stage.ROLLED_BACK and merged:
            merged = False
            yield Change(step.at, attempt.after, attempt.before)


def _names(lake: Lake) -> Iterator[str]:
    for namespace in lake.catalog.list_namespaces():
        yield from (".".join(name) for name in lake.catalog.list_tables(namespace))
