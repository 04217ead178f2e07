"""PromQL over the lake: series come from SQL that the query service runs for its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.promql.storage.metric_source import MetricSource
from neve.query.request import Request, TimeRange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.promql.storage.metric_source import TimeWindow
    from neve.query.execution import RunningQuery
    from neve.query.service import QueryService

__all__ = ["open_series"]


def open_series(
    service: QueryService,
    organization: str,
    key_id: str = "",
    ended: Callable[[RunningQuery], None] = lambda _running: None,
) -> MetricSource:
    """Return the series of an organization. Each statement has the limits of the key and an entry in the query log."""

    def run(sql: str, parameters: Sequence[Any], window: TimeWindow) -> pa.Table:
        request = Request(sql, organization, parameters=parameters, time=TimeRange(*window), key_id=key_id)
        running = service.start(request)
        try:
            return pa.Table.from_batches(list(running.batches()), running.schema)
        finally:
            ended(running)

    return MetricSource(run)
