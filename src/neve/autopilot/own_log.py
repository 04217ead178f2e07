"""The lake's own table of queries as a log to analyse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.expressions import GreaterThanOrEqual, Reference

from neve.autopilot.sources.neve_log import COLUMNS, NeveLog
from neve.errors import TableMissing
from neve.model.queries import QUERIES
from neve.model.tables import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import pyarrow as pa

    from neve.lake.lake import Lake


def own_log(lake: Lake) -> NeveLog | None:
    """The log of a lake; none where it has no such table."""
    try:
        table = lake.table(QUERIES.name)
    except TableMissing:
        return None

    def read(since: datetime) -> Iterator[pa.RecordBatch]:
        newer = GreaterThanOrEqual(term=Reference("timestamp"), value=since.isoformat())
        yield from table.scan(row_filter=newer, selected_fields=COLUMNS).to_arrow_batch_reader()

    return NeveLog(read, NAMESPACE)
