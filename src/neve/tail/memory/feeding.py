"""Rows as they are fed, made fit to be held: the columns of `spans`, of a trace, of the selector's organization."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from neve.model.columns import TIMESTAMP
from neve.model.tables import SPANS
from neve.tail.memory.held import BATCH_ROWS, RECEIPT, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

ARRIVED = "ingested_at"


def fit(rows: pa.Table | pa.RecordBatch, organization: str, now_us: int) -> tuple[pa.Table, int]:
    """The rows that a selector is for, each with its time of arrival; and how many belong to no trace.

    Rows of other organizations, where it is for one, are another selector's.
    """
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    table = table.select(SPANS.schema.names).cast(SPANS.schema)
    if organization:
        table = table.filter(pc.equal(table.column("organization_id"), organization))
    traced = pc.fill_null(pc.greater(pc.binary_length(table.column("trace_id")), 0), False)
    lost = table.num_rows - (pc.sum(traced).as_py() or 0)
    table = table.filter(traced) if lost else table
    arrived = table.column(ARRIVED)
    if arrived.null_count:
        now = pa.scalar(now_us, pa.int64()).cast(TIMESTAMP)
        table = table.set_column(table.schema.get_field_index(ARRIVED), ARRIVED, pc.fill_null(arrived, now))
    return table, lost


def pieces(rows: pa.Table, receipt: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Rows in batches that are no larger than a size, about."""
    parts = -(-rows.nbytes // most_bytes) or 1
    most = max(1, min(BATCH_ROWS, -(-rows.num_rows // parts)))
    receipts = pa.repeat(pa.scalar(receipt, pa.int64()), rows.num_rows)
    table = rows.append_column(SCHEMA.field(RECEIPT), receipts)
    return (batch for batch in table.to_batches(max_chunksize=most) if batch.num_rows)
