"""What a dead run left: groups that only had to be published, groups that were, and files that are nobody's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from neve.compact.journal import Entry, Journal, Run, Stage
from neve.lake.commits import find_batch
from neve.lake.filesystem import filesystem_of, plain_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyiceberg.table import Table

    from neve.lake.config import S3Config


@dataclass(frozen=True)
class Settled:
    """What became of a run that did not end by itself."""

    run_id: str
    entries: tuple[Entry, ...]
    published_now: int
    orphans: int
    orphan_bytes: int


def settle(
    run: Run,
    table: Table,
    journal: Journal,
    s3: S3Config,
    publish: Callable[[Run, Sequence[Entry]], list[Entry]],
    is_live: Callable[[Iterable[str]], set[str]],
) -> Settled:
    """Finish a dead run: its lease is ours, so nobody else will. The table is asked before a file is removed."""
    entries = [_asked(entry, table, is_live) for entry in journal.entries(run.id)]
    entries = [_found(entry, s3) if entry.stage is Stage.WRITTEN else entry for entry in entries]
    waiting = [entry for entry in entries if entry.stage is Stage.WRITTEN]
    published = publish(run, waiting) if waiting else []
    entries = [entry for entry in entries if entry.stage is not Stage.WRITTEN] + published
    # Its files that were refused are left to the removal of old orphans: should the run not be dead after all, but in
    # the middle of this very commit, they are about to be part of the table.
    refused = {plain_path(path) for entry in entries if entry.stage is Stage.CONFLICT for path in _paths(entry)}
    removed = sweep(run.folder, s3, kept_paths(entries) | refused, is_live)
    return Settled(
        run.id,
        tuple(entries),
        sum(entry.stage is Stage.COMMITTED for entry in published),
        len(removed),
        sum(removed.values()),
    )


def _asked(entry: Entry, table: Table, is_live: Callable[[Iterable[str]], set[str]]) -> Entry:
    """A group whose commit may have happened, as the table knows it."""
    if not entry.is_unsettled or entry.rewritten is None:
        return entry
    snapshot = find_batch(table, entry.batch_id) if entry.batch_id else None
    # A snapshot may have been expired since; files that are in the table are there all the same.
    if snapshot is not None or (entry.batch_id and is_live(_paths(entry))):
        return replace(entry, stage=Stage.COMMITTED, snapshot_id=snapshot)
    return replace(entry, stage=Stage.WRITTEN)


def _found(entry: Entry, s3: S3Config) -> Entry:
    """A group that is still to be published, if all that was written for it is still there."""
    for file in entry.rewritten.added if entry.rewritten else ():
        filesystem, path = filesystem_of(str(file["file-path"]), s3)
        info = filesystem.get_file_info(path)
        if not info.is_file or info.size != file["file-size-in-bytes"]:
            return replace(entry, stage=Stage.FAILED, error=f"{file['file-path']} is gone; it will be rewritten")
    return entry


def _paths(entry: Entry) -> list[str]:
    return [str(file["file-path"]) for file in entry.rewritten.added] if entry.rewritten else []


def kept_paths(entries: Iterable[Entry]) -> set[str]:
    """Files that are part of the table or may be: also those that a later rewrite took out of its newest snapshot."""
    kept = (Stage.COMMITTED, Stage.UNKNOWN, Stage.PUBLISHING, Stage.WRITTEN)
    return {plain_path(path) for entry in entries if entry.stage in kept for path in _paths(entry)}


def sweep(folder: str, s3: S3Config, kept: set[str], is_live: Callable[[Iterable[str]], set[str]]) -> dict[str, int]:
    """Remove the files under a run's folder that nobody knows; gives their sizes."""
    filesystem, root = filesystem_of(folder, s3)
    listed = filesystem.get_file_info(pafs.FileSelector(root, recursive=True, allow_not_found=True))
    unknown = {info.path: info.size or 0 for info in listed if info.is_file and plain_path(info.path) not in kept}
    live = {plain_path(path) for path in is_live(unknown)} if unknown else set()
    removed = {path: size for path, size in unknown.items() if plain_path(path) not in live}
    for path in removed:
        filesystem.delete_file(path)
    _remove_empty(filesystem, root)
    return removed


def _remove_empty(filesystem: pafs.FileSystem, root: str) -> None:
    """Object storage has no folders; a disk keeps empty ones."""
    if not isinstance(filesystem, pafs.LocalFileSystem):
        return
    infos = filesystem.get_file_info(pafs.FileSelector(root, recursive=True, allow_not_found=True))
    if filesystem.get_file_info(root).type is pafs.FileType.Directory and not any(info.is_file for info in infos):
        filesystem.delete_dir(root)
