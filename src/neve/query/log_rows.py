"""Entries of the query log as rows of its table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.model.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.query.entry import Entry

MAX_TEXT_BYTES = 100_000


def rows_of(entries: Iterable[Entry]) -> pa.Table:
    """A row for each entry, in their order."""
    return pa.Table.from_pylist([_row(entry) for entry in entries], schema=QUERIES.schema)


def _row(entry: Entry) -> dict[str, Any]:
    statistics = entry.statistics
    return {
        "organization_id": entry.organization,
        "timestamp": entry.started,
        "query_id": entry.id,
        "key_id": entry.key_id,
        "sql": bounded(entry.sql),
        "normalised": bounded(entry.normalised),
        "tables": list(entry.tables),
        "scans": [asdict(scan) | {"predicate": bounded(scan.predicate)} for scan in statistics.scans],
        "files": statistics.files,
        "bytes": statistics.bytes,
        "pruned_files": statistics.pruned_files,
        "pruned_bytes": statistics.pruned_bytes,
        "rows": statistics.rows,
        "planning_seconds": statistics.planning_seconds,
        "seconds": statistics.seconds,
        "engine": statistics.engine,
        "cache": statistics.cache,
        "rollup": statistics.rollup,
        "state": entry.state,
        "error": bounded(entry.error),
        "limit_name": entry.limit,
        "partial": statistics.partial,
        "truncated": statistics.truncated,
        "notes": [bounded(note) for note in statistics.notes],
    }


def bounded(text: str) -> str:
    r"""Text that can be stored: half characters become question marks, and what is too long is cut, which is said.

    >>> bounded("SELECT '\ud800'")
    "SELECT '?'"
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_TEXT_BYTES:
        return data.decode()
    return f"{data[:MAX_TEXT_BYTES].decode('utf-8', 'ignore')} … (cut: it has {len(data):,} bytes)"
