"""Data files of a rollout: list them, select those that gain by the layout, and pack them into steps.

Each step is one commit, so that a killed run keeps the steps that it has finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from neve.autopilot.attempt import SkippedFiles
from neve.errors import LakeError
from neve.lake.read.file_values import partition_values
from neve.lake.read.snapshot_files import find_live_paths, iterate_data_files
from neve.lake.storage.filesystem import resolve_filesystem
from neve.lake.storage.paths import strip_scheme

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from pyiceberg.table import Table

    from neve.lake.lake import Lake


@dataclass(frozen=True, order=True)
class StageFile:
    """A data file to rewrite."""

    spec_id: int
    partition: str  # in any form that distinguishes partitions
    path: str
    bytes: int
    rows: int
    order_id: int = 0  # of the sort order of its rows; 0: none


@dataclass(frozen=True)
class Step:
    """Files of one partition spec that are rewritten together."""

    files: tuple[StageFile, ...]

    @property
    def bytes(self) -> int:
        """The bytes to read."""
        return sum(file.bytes for file in self.files)

    @property
    def rows(self) -> int:
        """The rows of the files, including deleted ones."""
        return sum(file.rows for file in self.files)

    @property
    def spec_id(self) -> int:
        """The partition spec of the files."""
        return self.files[0].spec_id


def pack_steps(files: Iterable[StageFile], step_bytes: int) -> tuple[Step, ...]:
    """Pack files into steps of about this size; files of a partition stay together if a step has space for them.

    Rows are ordered within a step, so larger steps give files that overlap less.
    """
    return tuple(
        step
        for _, alike in groupby(sorted(files), lambda file: file.spec_id)
        for step in _split_steps(alike, step_bytes)
    )


def _split_steps(files: Iterable[StageFile], step_bytes: int) -> Iterator[Step]:
    open_step: list[StageFile] = []
    held = 0
    for _partition, alike in groupby(files, lambda file: file.partition):
        together = list(alike)
        size = sum(file.bytes for file in together)
        if open_step and held + size > step_bytes:
            yield Step(tuple(open_step))
            open_step, held = [], 0
        for file in together:
            if open_step and held + file.bytes > step_bytes:
                yield Step(tuple(open_step))
                open_step, held = [], 0
            open_step.append(file)
            held += file.bytes
    if open_step:
        yield Step(tuple(open_step))


UNREAD_REASON = "no logged query that can gain reads them"
LAID_OUT_REASON = "they already have the layout"


@dataclass(frozen=True)
class FileShape:
    """The partition spec and the sort order of files that have a layout."""

    spec_id: int
    order_id: int


@dataclass(frozen=True)
class FileGain:
    """The files that are rewritten, and those that are not."""

    files: tuple[str, ...]
    left_out: tuple[SkippedFiles, ...] = ()


def select_files(files: Iterable[StageFile], shape: FileShape | None, read: Collection[str]) -> FileGain:
    """Select the files that gain: a logged query reads them now, and they don't have the wanted shape.

    `read` has the paths of files that queries read. Without a shape, files don't show whether they have the layout.
    """
    gaining: list[str] = []
    left: dict[str, list[StageFile]] = {UNREAD_REASON: [], LAID_OUT_REASON: []}
    for file in files:
        if shape is not None and FileShape(file.spec_id, file.order_id) == shape:
            left[LAID_OUT_REASON].append(file)
        elif file.path not in read:
            left[UNREAD_REASON].append(file)
        else:
            gaining.append(file.path)
    groups = [
        SkippedFiles(reason, len(some), sum(file.bytes for file in some)) for reason, some in left.items() if some
    ]
    return FileGain(tuple(gaining), tuple(groups))


def format_selection(rewritten: int, left_out: Collection[SkippedFiles]) -> str:
    """Describe in one sentence which files are rewritten and which are not.

    >>> format_selection(48, [SkippedFiles("no logged query reads them", 352, 9)])
    '48 of 400 files are rewritten; 352 stay as they are: no logged query reads them'
    """
    every = rewritten + sum(group.files for group in left_out)
    stay = "; ".join(f"{group.files:,} stay as they are: {group.reason}" for group in left_out)
    return f"{rewritten:,} of {every:,} files are rewritten; {stay}"


def list_data_files(table: Table, snapshot_id: int) -> dict[str, StageFile]:
    """Return every data file of a snapshot, by its path."""
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise LakeError(
            f"{'.'.join(table.name())} has no snapshot {snapshot_id} any more",
            hint="roll the attempt back, and start again",
        )
    found: dict[str, StageFile] = {}
    for file in iterate_data_files(table, snapshot):
        found[file.file_path] = StageFile(
            file.spec_id,
            repr(list(partition_values(file))),
            file.file_path,
            file.file_size_in_bytes,
            file.record_count,
            file.sort_order_id or 0,
        )
    return found


def attempt_folder(table: Table, branch: str) -> str:
    """Return the folder of an attempt's new files."""
    return f"{table.location()}/data/{branch}"


def find_unused_files(lake: Lake, table: Table, folder: str) -> list[str]:
    """Return the files in an attempt's folder that no snapshot of the table has."""
    files, root = resolve_filesystem(folder, lake.s3)
    if files.get_file_info(root).type is not pafs.FileType.Directory:
        return []
    selector = pafs.FileSelector(root, recursive=True)
    paths = [info.path for info in files.get_file_info(selector) if info.type is pafs.FileType.File]
    used = {strip_scheme(path) for path in find_live_paths(table, paths)}
    return [path for path in paths if strip_scheme(path) not in used]


def remove_unused_files(lake: Lake, table: Table, folder: str) -> int:
    """Remove the unused files and the folder if it is empty, and return the number of removed files."""
    unused = find_unused_files(lake, table, folder)
    files, root = resolve_filesystem(folder, lake.s3)
    for path in unused:
        files.delete_file(path)
    if files.get_file_info(root).type is pafs.FileType.Directory:
        selector = pafs.FileSelector(root, recursive=True)
        left = [one for one in files.get_file_info(selector) if _is_table_file(one)]
        if not left:
            files.delete_dir(root)
    return len(unused)


def _is_table_file(info: pafs.FileInfo) -> bool:
    """Return whether a file belongs to a table; Hadoop's checksum files have no meaning of their own."""
    return info.type is pafs.FileType.File and not info.base_name.endswith(".crc")
