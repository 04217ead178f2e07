"""Rows of the table quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from neve.model.columns import TIMESTAMP
from neve.model.tables import QUARANTINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.ingest.assignment import Assignment
    from neve.otlp import Rejected


def quarantine_rows(
    assignment: Assignment, organization_id: str, source: str, signal: str, rejected: Sequence[Rejected]
) -> pa.RecordBatch:
    """A row for each rejected record; a payload that is too large is left out, not the row."""
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
