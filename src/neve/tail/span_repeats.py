"""Repeats of stored spans, which the collector counts: rows of `span_repeats` for the batches that a cycle reads.

Ingestion commits them before the spans of their batch. The commit of the spans makes them count, so that a cycle
counts each once, in the order of arrival, whatever was killed in between.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from pyiceberg.expressions import In, LessThan, Or, Reference

from neve.errors import TableMissing
from neve.lake.calendar import EPOCH
from neve.lake.duckdb import quote_literal
from neve.model.tables import SPAN_REPEATS
from neve.tail.new_files import list_all_files

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

    from neve.tail.new_files import RepeatBatches
    from neve.tail.span_source import SpanSource

# Columns of the summary query by those of the table.
COLUMNS = {
    "organization_id": "organization_id",
    "trace_id": "trace_id",
    "span_id": "span_id",
    "start_time_unix_nano": "start_ns",
    "end_time_unix_nano": "end_ns",
    "span_bytes": "span_bytes",
    "arrival_order": "arrival_order",
    "epoch_us(ingested_at)": "arrived_us",
}
READ = ("ingested_at", "batch_id", "recorded_at", *(name for name in COLUMNS if "(" not in name))


def find_repeats(source: SpanSource, batches: RepeatBatches) -> str:
    """Return a subquery in parentheses: the repeats of some batches. It is empty if there are none.

    Without such batches nothing is read. An older lake has no table of repeats until `neve init` creates it.
    """
    if not (source.counts_repeats and batches):
        return ""
    try:
        table = source.lake.table(SPAN_REPEATS.name)
    except TableMissing:
        return ""
    files = list_all_files(table, None, "to count repeats", _filter_files(batches)).files
    if not files:
        return ""
    reader = replace(source.reader, schema=table.schema())
    where = [_select_batches_sql(batches)]
    if reader.organization:
        where.append(f"organization_id = {quote_literal(reader.organization)}")
    return select_repeats_sql(f"{reader.rows(files, READ)} WHERE {' AND '.join(where)}")


def select_repeats_sql(rows: str) -> str:
    """Return a subquery in parentheses: rows of `span_repeats` with the columns that summaries are made of."""
    return f"(SELECT {', '.join(f'{column} AS {name}' for column, name in COLUMNS.items())} FROM {rows})"


def _select_batches_sql(batches: RepeatBatches) -> str:
    """Return a condition for the rows of some batches."""
    ids = ", ".join(map(quote_literal, sorted(batches.ids)))
    parts = [f"batch_id IN ({ids})"] if ids else []
    parts += [f"epoch_us(recorded_at) < {batches.before_us}"] if batches.before_us is not None else []
    return f"({' OR '.join(parts)})"


def _filter_files(batches: RepeatBatches) -> BooleanExpression:
    found: BooleanExpression = In(term=Reference("batch_id"), literals=set(batches.ids))
    if batches.before_us is None:
        return found
    before = (EPOCH + timedelta(microseconds=batches.before_us)).isoformat()
    return Or(found, LessThan(term=Reference("recorded_at"), value=before))
