"""Every file that a table's metadata names, of all its snapshots, branches and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.paths import same_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table


def reachable_files(table: Table) -> frozenset[str]:
    """Metadata, manifest lists, manifests, data and delete files and statistics, as `same_path` writes them."""
    return frozenset(map(same_path, _named(table)))


def _named(table: Table) -> Iterator[str]:
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        yield statistics.statistics_path
    for snapshot in metadata.snapshots:
        if snapshot.manifest_list:
            yield snapshot.manifest_list
    for manifest in _manifests(table).values():
        yield manifest.manifest_path
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            yield entry.data_file.file_path


def _manifests(table: Table) -> dict[str, ManifestFile]:
    """The manifests of every snapshot, each once."""
    return {
        manifest.manifest_path: manifest
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
    }
