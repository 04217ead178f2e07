"""Versions of tables: what a result was made from, and the earlier versions that a table has only grown from.

A table has grown from a version if each commit since added rows or rewrote files without a change of rows. Then the
rows of that version and those of the files that were added since are all rows of the table. Some come twice, if
compaction has rewritten them.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING

from neve.errors import QueryError
from neve.lake.read.history import walk_history

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["find_version_sequence", "list_grown_versions", "table_version"]

MOST_VERSIONS = 100  # commits that are looked back; older values are made anew
_KEEPS_ROWS = frozenset({"append", "replace"})  # operations of snapshots


def table_version(table: Table, snapshot_id: int | None = None) -> str:
    """Return the version of a table's rows and columns, by default the current one.

    Columns can change without a new snapshot, and a new table can be empty.
    """
    metadata = table.metadata
    return f"{metadata.table_uuid} {metadata.current_schema_id} {snapshot_id or metadata.current_snapshot_id}"


def list_grown_versions(table: Table) -> list[str]:
    """Return the earlier versions from which a table has only grown, the newest first."""
    return [table_version(table, one.snapshot_id) for one in _list_grown(table)]


def find_version_sequence(table: Table, version: str) -> int:
    """Return the sequence number of a version from which a table has only grown: later files have higher ones.

    Raises `QueryError` if it has not.
    """
    current = table.metadata.current_snapshot()
    for one in ([current] if current is not None else []) + list(_list_grown(table)):
        if table_version(table, one.snapshot_id) == version:
            return one.sequence_number or 0
    raise QueryError(f"{table.name()[-1]} has lost rows since the version {version}")


def _list_grown(table: Table) -> Iterator[Snapshot]:
    """Yield the ancestors of the current snapshot, up to a commit that may have removed rows."""
    for newer, older in islice(pairwise(walk_history(table)), MOST_VERSIONS):
        if newer.summary is None or newer.summary.operation.value not in _KEEPS_ROWS:
            return
        yield older
