"""Manifests of a snapshot in batches that DuckDB can read with one statement each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.transforms import VoidTransform

from neve.lake.duckdb import to_duckdb_path
from neve.lake.read.snapshot_files import has_live_files, holds_deletes, list_manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

BATCH_BYTES = 32 * 1024 * 1024
_BatchKey = tuple[int, bool, bool, str]


@dataclass(frozen=True)
class ManifestSource:
    """A manifest: its path, and the values that entries inherit from it."""

    path: str
    bytes: int
    sequence: int
    snapshot_id: int | None


@dataclass(frozen=True)
class ManifestBatch:
    """Manifests with the same partition spec, content type and shape of entries."""

    spec_id: int
    holds_deletes: bool
    has_sequences: bool
    sources: tuple[ManifestSource, ...]


def batch_manifests(table: Table, snapshot: Snapshot) -> list[ManifestBatch]:
    """Return all manifests with live entries in batches. The size of a batch limits the memory that it needs."""
    batches: dict[_BatchKey, list[ManifestSource]] = {}
    for manifest in filter(has_live_files, list_manifests(table, snapshot)):
        source = ManifestSource(
            to_duckdb_path(manifest.manifest_path),
            manifest.manifest_length,
            manifest.sequence_number or 0,
            manifest.added_snapshot_id,
        )
        batches.setdefault(_find_batch_key(manifest, source), []).append(source)
    return [ManifestBatch(*kind[:3], part) for kind, sources in batches.items() for part in _split_by_bytes(sources)]


def _split_by_bytes(sources: list[ManifestSource]) -> Iterator[tuple[ManifestSource, ...]]:
    part: list[ManifestSource] = []
    for source in sources:
        if part and sum(other.bytes for other in part) + source.bytes > BATCH_BYTES:
            yield tuple(part)
            part = []
        part.append(source)
    yield tuple(part)


def _find_batch_key(manifest: ManifestFile, source: ManifestSource) -> _BatchKey:
    has_deletes = holds_deletes(manifest)
    # Manifests of format version 1 have no sequence numbers. Other data manifests differ little in the columns that are
    # read. Delete manifests may or may not have a column for the data file that they refer to, so each one is a batch.
    alone = source.path if has_deletes else ""
    return manifest.partition_spec_id, has_deletes, source.sequence > 0, alone


def is_unpartitioned(spec: PartitionSpec) -> bool:
    """Return whether a spec is unpartitioned. In format version 1, removed fields stay and have no values."""
    return all(isinstance(field.transform, VoidTransform) for field in spec.fields)
