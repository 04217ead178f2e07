"""Rows of the quarantine table, and a commit of them that needs no Spark task."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.ingest.assignment import Assignment
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.columns import TIMESTAMP
from neve.model.tables import QUARANTINE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.ingest.config import IngestConfig
    from neve.lake.lake import Lake
    from neve.otlp import Rejected

# Rejected records of each organization, with their source.
Refusals = dict[str, list[tuple[str, "Rejected"]]]


def quarantine_rows(
    assignment: Assignment, organization_id: str, source: str, signal: str, rejected: Sequence[Rejected]
) -> pa.RecordBatch:
    """Return a row for each rejected record. A payload that is too large is omitted, its row is not."""
    count, limit = len(rejected), assignment.config.quarantine_bytes
    now = assignment.started_unix_nano // 1000
    columns = {
        "organization_id": [organization_id] * count,
        "quarantined_at": pa.array([now] * count, TIMESTAMP),
        "signal": pa.array([signal or None] * count, pa.string()),
        "reason": [bad.reason for bad in rejected],
        "detail": [bad.detail for bad in rejected],
        "source": [source] * count,
        "position": [bad.message for bad in rejected],
        "encoding": [bad.encoding for bad in rejected],
        "payload": pa.array([bad.payload if len(bad.payload) <= limit else None for bad in rejected], pa.binary()),
        "batch_id": [assignment.batch_id] * count,
    }
    return pa.RecordBatch.from_pydict(columns, schema=QUARANTINE.schema)


def commit_quarantine(
    lake: Lake, config: IngestConfig, batch_id: str, operation: str, refused: Mapping[str, list[tuple[str, Rejected]]]
) -> None:
    """Commit rejected records to quarantine. The batch id identifies the commit, so that a repetition adds nothing."""
    if not refused:
        return
    table = lake.table(QUARANTINE.name)
    assignment = Assignment(batch_id, time.time_ns(), config, lake.s3, {})
    rows = [
        quarantine_rows(assignment, organization, source, "", [bad])
        for organization, found in refused.items()
        for source, bad in found
    ]
    files = write_files(Target.of(table), pa.Table.from_batches(rows))
    append_once(table, files, batch_id=batch_id, operation=operation, remember_batch=True)
