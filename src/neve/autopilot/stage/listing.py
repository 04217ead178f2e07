"""The data files of a table at a snapshot, and the files in an attempt's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.fs as pafs
from pyiceberg.manifest import ManifestContent

from neve.autopilot.stage.steps import StageFile
from neve.errors import LakeError
from neve.lake.filesystem import filesystem_of, plain_path
from neve.lake.live import live_among

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.lake.lake import Lake


def files_at(table: Table, snapshot_id: int) -> dict[str, StageFile]:
    """Every data file of a snapshot, by its path."""
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise LakeError(
            f"{'.'.join(table.name())} has no snapshot {snapshot_id} any more",
            hint="roll the attempt back, and begin anew",
        )
    found: dict[str, StageFile] = {}
    for manifest in snapshot.manifests(table.io):
        if manifest.content is not ManifestContent.DATA:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            values = repr([file.partition[position] for position in range(len(file.partition))])
            found[file.file_path] = StageFile(
                manifest.partition_spec_id,
                values,
                file.file_path,
                file.file_size_in_bytes,
                file.record_count,
                file.sort_order_id or 0,
            )
    return found


def folder_of(table: Table, branch: str) -> str:
    """Where an attempt's new files are."""
    return f"{table.location()}/data/{branch}"


def unused_files(lake: Lake, table: Table, folder: str) -> list[str]:
    """The files in an attempt's folder that no snapshot of the table has."""
    files, root = filesystem_of(folder, lake.s3)
    if files.get_file_info(root).type is not pafs.FileType.Directory:
        return []
    selector = pafs.FileSelector(root, recursive=True)
    paths = [info.path for info in files.get_file_info(selector) if info.type is pafs.FileType.File]
    used = {plain_path(path) for path in live_among(table, paths)}
    return [path for path in paths if plain_path(path) not in used]


def remove_unused(lake: Lake, table: Table, folder: str) -> int:
    """Remove them; how many there were. Their folder goes when it is empty."""
    unused = unused_files(lake, table, folder)
    files, root = filesystem_of(folder, lake.s3)
    for path in unused:
        files.delete_file(path)
    if files.get_file_info(root).type is pafs.FileType.Directory:
        selector = pafs.FileSelector(root, recursive=True)
        left = [one for one in files.get_file_info(selector) if _is_kept(one)]
        if not left:
            files.delete_dir(root)
    return len(unused)


def _is_kept(info: pafs.FileInfo) -> bool:
    """Whether it is a file of a table; Hadoop puts checksums beside each, which mean nothing alone."""
    return info.type is pafs.FileType.File and not info.base_name.endswith(".crc")
