"""Read-only scan of the lake: the managed tables, the queries on them, and the recommended layouts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from neve.autopilot.analyzer import analyze
from neve.autopilot.attempt import Stage
from neve.autopilot.expected_gain import expect_gains
from neve.autopilot.logs.clickhouse_log import open_clickhouse_log
from neve.autopilot.logs.neve_log import open_neve_log
from neve.autopilot.logs.scan_reports import ScanReports
from neve.autopilot.logs.spark_log import SparkLog
from neve.autopilot.logs.trino_log import TrinoEvents, TrinoKafka, TrinoRuntime
from neve.autopilot.recommend.advisor import advise
from neve.autopilot.recommend.rules import LayoutChange
from neve.autopilot.workload.tables import Tables
from neve.errors import ConfigError
from neve.lake.calendar import now_utc
from neve.lake.lake import parse_table_name
from neve.model.signals import NAMESPACE
from neve.model.tables import BY_SIGNAL, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from neve.autopilot.analyzer import Analysis
    from neve.autopilot.attempt import Attempt
    from neve.autopilot.config import AutopilotConfig, LogsConfig, TrinoConfig
    from neve.autopilot.expected_gain import ExpectedGains
    from neve.autopilot.history import History
    from neve.autopilot.logs.neve_log import NeveLog
    from neve.autopilot.logs.records import LogSource
    from neve.lake.lake import Lake


def build_sources(config: LogsConfig, own: NeveLog | None = None) -> list[LogSource]:
    """Build the sources of query logs; `own` is the lake's table of queries, if there is one."""
    found: list[LogSource] = [*_build_trino_sources(config.trino)]
    if config.clickhouse.host:
        found.append(open_clickhouse_log(config.clickhouse))
    found += [SparkLog(place) for place in config.spark]
    found += [ScanReports(place) for place in config.scan_reports]
    return [*found, own] if own is not None and config.neve else found


def _build_trino_sources(config: TrinoConfig) -> Iterator[LogSource]:
    """Yield the Trino events; the coordinator only if there are none, because it keeps little and counts no bytes."""
    yield from (TrinoEvents(place, config.catalog) for place in config.events)
    if config.kafka.bootstrap_servers:
        yield TrinoKafka(config.kafka, config.catalog)
    if config.host and not config.events and not config.kafka.bootstrap_servers:
        yield TrinoRuntime(config)


# Internal tables of Neve: their writers depend on their layout.
INTERNAL_TABLES = frozenset(f"{NAMESPACE}.{one.name}" for one in TABLES if one not in BY_SIGNAL.values())


@dataclass(frozen=True)
class WorkloadScan:
    """Read-only access to the lake, the query logs and the history."""

    lake: Lake
    config: AutopilotConfig
    history: History
    clock: Callable[[], datetime] = now_utc

    def tables(self, patterns: Iterable[str] = ()) -> list[str]:
        """Return the managed tables, or the requested ones.

        Raises `ConfigError` for a requested table that doesn't exist.
        """
        names = sorted(_list_tables(self.lake))
        requested = tuple(patterns)
        for one in requested:
            if not any(matches_table(name, one) for name in names):
                raise ConfigError(f"no table {one} in the catalog", hint=f"tables: {', '.join(names)}")
        return [name for name in names if any(matches_table(name, one) for one in requested or self.config.tables)]

    def analyze(self) -> Analysis:
        """Analyze the queries on every table of the catalog."""
        schemas = {name: self.lake.table(name).schema() for name in _list_tables(self.lake)}
        logs = self.config.logs
        since = self.clock() - timedelta(days=logs.lookback_days)
        sources = build_sources(logs, open_neve_log(self.lake))
        if not sources:
            raise ConfigError(
                "no query log to analyze",
                hint="name one in autopilot.logs, or run `neve init` for Neve's own table of queries",
            )
        return analyze(sources, Tables(schemas), since, max_queries=logs.max_queries)

    def advise(self, table: str, analysis: Analysis) -> ExpectedGains:
        """Return the recommended changes of a table, and their expected gains."""
        config = self.config.recommend
        changes = [change for one in self.history.attempts(table) for change in list_layout_changes(one)]
        found = advise(self.lake.table(table), analysis.queries, config, now=self.clock(), history=changes)
        return expect_gains(found, tuple(self.history.outcomes()), config.min_reduction)


def matches_table(table: str, pattern: str) -> bool:
    """Return whether a pattern matches a table; wildcards don't match internal tables of Neve.

    >>> matches_table("telemetry.spans", "spans"), matches_table("telemetry.queries", "*")
    (True, False)
    >>> matches_table("shop.orders", "shop.*")
    True
    """
    whole = pattern if pattern == "*" else ".".join(parse_table_name(pattern))
    is_pattern = any(mark in pattern for mark in "*?[")
    return fnmatchcase(table, whole) and not (is_pattern and table in INTERNAL_TABLES)


def list_layout_changes(attempt: Attempt) -> Iterator[LayoutChange]:
    """Yield the layouts that an attempt applied to main: the new one, and the old one after a rollback."""
    merged = False
    for step in attempt.steps:
        if step.stage is Stage.MERGED:
            merged = True
            yield LayoutChange(step.at, attempt.before, attempt.after)
        elif step.stage is Stage.ROLLED_BACK and merged:
            merged = False
            yield LayoutChange(step.at, attempt.after, attempt.before)


def _list_tables(lake: Lake) -> Iterator[str]:
    for namespace in lake.catalog.list_namespaces():
        yield from (".".join(name) for name in lake.catalog.list_tables(namespace))
