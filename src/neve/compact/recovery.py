"""Recover a dead run: publish groups that were written, recognise those that were committed, remove leftover files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from neve.compact.journal import Entry, Journal, Run, Stage
from neve.lake.commit.append import find_batch
from neve.lake.storage.filesystem import resolve_filesystem
from neve.lake.storage.paths import strip_scheme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyiceberg.table import Table

    from neve.lake.config import S3Config


@dataclass(frozen=True)
class RecoveredRun:
    """Outcome of a run that did not end by itself."""

    run_id: str
    entries: tuple[Entry, ...]
    published_now: int
    orphans: int


def recover_run(
    run: Run,
    table: Table,
    journal: Journal,
    s3: S3Config,
    publish: Callable[[Run, Sequence[Entry]], list[Entry]],
    is_live: Callable[[Iterable[str]], set[str]],
) -> RecoveredRun:
    """Finish a dead run. This process holds the lease, so no other process will finish it.

    The table is checked before a file is removed.
    """
    entries = [_check_committed(entry, table, is_live) for entry in journal.entries(run.id)]
    entries = [_check_files(entry, s3) if entry.stage is Stage.WRITTEN else entry for entry in entries]
    waiting = [entry for entry in entries if entry.stage is Stage.WRITTEN]
    published = publish(run, waiting) if waiting else []
    entries = [entry for entry in entries if entry.stage is not Stage.WRITTEN] + published
    # The files of rejected commits are left to orphan removal, because the run may not be dead after all. If it is in
    # the middle of this very commit, the files are about to be part of the table.
    refused = {strip_scheme(path) for entry in entries if entry.stage is Stage.CONFLICT for path in _paths(entry)}
    removed = remove_leftovers(run.folder, s3, find_paths_to_keep(entries) | refused, is_live)
    return RecoveredRun(
        run.id,
        tuple(entries),
        sum(entry.stage is Stage.COMMITTED for entry in published),
        len(removed),
    )


def _check_committed(entry: Entry, table: Table, is_live: Callable[[Iterable[str]], set[str]]) -> Entry:
    """Return a group whose commit may have happened with its state in the table."""
    if not entry.is_pending or entry.rewritten is None:
        return entry
    snapshot = find_batch(table, entry.batch_id) if entry.batch_id else None
    # The snapshot may have expired since. Files in the table show the commit all the same.
    if snapshot is not None or (entry.batch_id and is_live(_paths(entry))):
        return replace(entry, stage=Stage.COMMITTED, snapshot_id=snapshot)
    return replace(entry, stage=Stage.WRITTEN)


def _check_files(entry: Entry, s3: S3Config) -> Entry:
    """Mark a group that is to be published as failed, if a file of it is missing or has another size."""
    for file in entry.rewritten.added if entry.rewritten else ():
        filesystem, path = resolve_filesystem(str(file["file-path"]), s3)
        info = filesystem.get_file_info(path)
        if not info.is_file or info.size != file["file-size-in-bytes"]:
            return replace(
                entry, stage=Stage.FAILED, error=f"{file['file-path']} is missing; the group will be rewritten"
            )
    return entry


def _paths(entry: Entry) -> list[str]:
    return [str(file["file-path"]) for file in entry.rewritten.added] if entry.rewritten else []


def find_paths_to_keep(entries: Iterable[Entry]) -> set[str]:
    """Return files that are or may be in the table, also those that a later rewrite removed from its head."""
    stages = (Stage.COMMITTED, Stage.UNKNOWN, Stage.PUBLISHING, Stage.WRITTEN)
    return {strip_scheme(path) for entry in entries if entry.stage in stages for path in _paths(entry)}


def remove_leftovers(
    folder: str, s3: S3Config, kept: set[str], is_live: Callable[[Iterable[str]], set[str]]
) -> dict[str, int]:
    """Remove the unknown files under a run's folder. Return their sizes."""
    filesystem, root = resolve_filesystem(folder, s3)
    listed = filesystem.get_file_info(pafs.FileSelector(root, recursive=True, allow_not_found=True))
    unknown = {info.path: info.size or 0 for info in listed if info.is_file and strip_scheme(info.path) not in kept}
    live = {strip_scheme(path) for path in is_live(unknown)} if unknown else set()
    removed = {path: size for path, size in unknown.items() if strip_scheme(path) not in live}
    for path in removed:
        filesystem.delete_file(path)
    _remove_empty(filesystem, root)
    return removed


def _remove_empty(filesystem: pafs.FileSystem, root: str) -> None:
    """Remove empty folders. Object storage has no folders, but a disk keeps them."""
    if not isinstance(filesystem, pafs.LocalFileSystem):
        return
    infos = filesystem.get_file_info(pafs.FileSelector(root, recursive=True, allow_not_found=True))
    if filesystem.get_file_info(root).type is pafs.FileType.Directory and not any(info.is_file for info in infos):
        filesystem.delete_dir(root)
