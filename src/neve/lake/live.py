"""Which of some files are part of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.filesystem import plain_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table


def live_among(table: Table, paths: Iterable[str], since: int = 0) -> set[str]:
    """Those of the paths that any snapshot refers to that was made after the sequence number `since`."""
    asked = {plain_path(path): path for path in paths}
    found: set[str] = set()
    seen: set[str] = set()
    for snapshot in reversed(table.metadata.snapshots):
        if (snapshot.sequence_number or 0) < since or found.issuperset(asked.values()):
            continue
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                path = asked.get(plain_path(entry.data_file.file_path))
                if path is not None:
                    found.add(path)
    return found
