"""Which of some files are part of a table now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.filesystem import plain_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table


def live_among(table: Table, paths: Iterable[str]) -> set[str]:
    """Those of the paths that the newest snapshot of the table, or the head of a branch or tag, refers to."""
    asked = {plain_path(path): path for path in paths}
    found: set[str] = set()
    seen: set[str] = set()
    heads = {ref.snapshot_id for ref in table.metadata.refs.values()} | {table.metadata.current_snapshot_id}
    for head in heads - {None}:
        snapshot = table.metadata.snapshot_by_id(head) if head is not None else None
        for manifest in snapshot.manifests(table.io) if snapshot else ():
            if manifest.manifest_path in seen or found.issuperset(asked.values()):
                continue
            seen.add(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                path = asked.get(plain_path(entry.data_file.file_path))
                if path is not None:
                    found.add(path)
    return found
