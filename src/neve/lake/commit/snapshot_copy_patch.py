"""Patch pyiceberg so that a commit copies a table's metadata less often, and shares what does not change.

pyiceberg copies the whole metadata of a table about 16 times per commit, mostly for one and the same state of a
transaction, which is remembered here. The schema of a table with 70 columns took three quarters of the CPU time of a
small commit, and after a day of commits every ten seconds the snapshots took most of the time between two commits.
Snapshots, schemas, partition specs and sort orders are immutable once they are in the metadata, so copies share them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot, SnapshotLogEntry
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import update_table_metadata

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pyiceberg.table.metadata import TableMetadata

SHARED_CLASSES: tuple[type[BaseModel], ...] = (
    *(Snapshot, SnapshotLogEntry, MetadataLogEntry),
    *(Schema, PartitionSpec, SortOrder),
)
REMEMBERED = "_neve_metadata"
Itself = TypeVar("Itself")


def patch_snapshot_copies() -> None:
    """Apply the patch to this process. A second call has no effect."""
    for kind in SHARED_CLASSES:
        kind.__deepcopy__ = _return_self  # type: ignore[method-assign,assignment]
    Transaction.table_metadata = property(_remember_metadata)  # type: ignore[method-assign,assignment]


def _remember_metadata(transaction: Transaction) -> TableMetadata:
    """Return the metadata with the transaction's updates, computed once for each state of the transaction."""
    base, updates = transaction._table.metadata, transaction._updates
    known = transaction.__dict__.get(REMEMBERED)
    if known is None or known[0] is not base or known[1] is not updates:
        known = (base, updates, update_table_metadata(base, updates))
        transaction.__dict__[REMEMBERED] = known
    found: TableMetadata = known[2]
    return found


def _return_self(frozen: Itself, _memo: object = None) -> Itself:
    return frozen
