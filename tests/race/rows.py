"""The rows that a table should have: what the writer did, done to a dictionary."""

from __future__ import annotations

from dataclasses import dataclass

BUCKETS = range(8)


@dataclass(frozen=True, order=True)
class Row:
    """One row; the bucket is its partition, the version tells which change wrote it last."""

    id: int
    bucket: int
    payload: str
    version: int


Rows = dict[int, Row]


def row_of(number: int, version: int, bucket: int | None = None) -> Row:
    """A row as a change writes it, so that a row of another change never looks like it."""
    return Row(number, number % len(BUCKETS) if bucket is None else bucket, f"row {number} of {version}", version)
