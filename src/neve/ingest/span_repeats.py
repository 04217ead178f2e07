"""Repeats of spans that an earlier write has stored, as rows of `span_repeats`.

The collector counts each span that arrives, and tail sampling does so with these rows. They are committed before the
spans of their batch, and count when a commit of `spans` has their batch id. So a batch that was killed between the
two commits counts once.
"""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from neve.ingest.arrival import ARRIVAL_ORDER, INGESTED_AT
from neve.lake.calendar import EPOCH
from neve.lake.config import S3Config
from neve.lake.duckdb import connect
from neve.lake.span_size import OWN_COLUMNS, span_size_sql
from neve.model.tables import SPAN_REPEATS

COPIED = ("organization_id", "trace_id", "span_id", "start_time_unix_nano", "end_time_unix_nano", INGESTED_AT)


def build_repeat_rows(spans: pa.Table, batch_id: str, started_unix_nano: int) -> pa.Table:
    """Return the rows of dropped spans. `started_unix_nano` is the start of the batch that dropped them."""
    count = spans.num_rows
    started = EPOCH + timedelta(microseconds=started_unix_nano // 1000)
    is_ordered = ARRIVAL_ORDER in spans.column_names  # an older lake lacks the column until `neve init` adds it
    columns = {
        **{name: spans.column(name) for name in COPIED},
        "recorded_at": pa.array([started] * count),
        "span_bytes": _measure(spans),
        ARRIVAL_ORDER: spans.column(ARRIVAL_ORDER) if is_ordered else pa.nulls(count),
        "batch_id": pa.array([batch_id] * count),
    }
    return pa.table([columns[name] for name in SPAN_REPEATS.schema.names], SPAN_REPEATS.schema.names).cast(
        SPAN_REPEATS.schema
    )


def _measure(spans: pa.Table) -> pa.ChunkedArray:
    with connect(S3Config(), on_s3=False, threads=1, extensions=()) as connection:
        relation = connection.from_arrow(spans)
        return relation.project(f"{span_size_sql(OWN_COLUMNS)}::BIGINT AS size").to_arrow_table().column("size")
