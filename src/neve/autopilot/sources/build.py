"""The sources that the configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.autopilot.sources.clickhouse_client import clickhouse_log
from neve.autopilot.sources.scan_reports import ScanReports
from neve.autopilot.sources.spark_log import SparkLog
from neve.autopilot.sources.trino_events import TrinoEvents
from neve.autopilot.sources.trino_kafka import TrinoKafka
from neve.autopilot.sources.trino_runtime import TrinoRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.autopilot.sources.config import LogsConfig, TrinoConfig
    from neve.autopilot.sources.neve_log import NeveLog
    from neve.autopilot.sources.record import Source


def sources_of(config: LogsConfig, own: NeveLog | None = None) -> list[Source]:
    """The logs to read; `own` is the lake's table of queries, where there is one."""
    found: list[Source] = [*_trino(config.trino)]
    if config.clickhouse.host:
        found.append(clickhouse_log(config.clickhouse))
    found += [SparkLog(place) for place in config.spark]
    found += [ScanReports(place) for place in config.scan_reports]
    return [*found, own] if own is not None and config.neve else found


def _trino(config: TrinoConfig) -> Iterator[Source]:
    """Events; the coordinator, which forgets soon and counts no bytes, only where there are none."""
    yield from (TrinoEvents(place, config.catalog) for place in config.events)
    if config.kafka.bootstrap_servers:
        yield TrinoKafka(config.kafka, config.catalog)
    if config.host and not config.events and not config.kafka.bootstrap_servers:
        yield TrinoRuntime(config)
