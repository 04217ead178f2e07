"""One question of whoever owns the process, without limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from neve.query.request import Request
from neve.query.service import QueryService, no_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig


def run_query(lake: Lake, config: QueryConfig, sql: str, organization_id: str) -> pa.RecordBatchReader:
    """Answer one statement; every table name stands for the organization's rows of that table."""
    service = QueryService(lake, config, limits=no_limits)
    try:
        running = service.start(Request(sql, organization_id))
    except BaseException:
        service.close()
        raise

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from running.batches()
        finally:
            service.close()

    return pa.RecordBatchReader.from_batches(running.schema, batches())
