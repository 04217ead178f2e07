"""Which files of the lake an export reads, shared out over tasks: the same table always gives the same plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import FileScanTask, Table

    from neve.reservoir.export.request import ExportRequest

TASK_BYTES = 128 * 1024 * 1024  # of data files; not by cores, so that every machine makes the same parts


@dataclass(frozen=True)
class ExportPlan:
    """The files of each task, and a hash that changes when any of them does."""

    tasks: tuple[tuple[FileScanTask, ...], ...]
    fingerprint: str


def plan_export(table: Table, request: ExportRequest) -> ExportPlan:
    """The files that may have rows of the request, in the order of their paths."""
    files = sorted(_scan(table, request), key=lambda task: task.file.file_path)
    told = "\n".join(_told(file) for file in files)
    return ExportPlan(share_out(files, TASK_BYTES), xxhash.xxh3_128_hexdigest(told.encode()))


def share_out(files: Sequence[FileScanTask], most: int) -> tuple[tuple[FileScanTask, ...], ...]:
    """Runs of neighbours of at most so many bytes; a larger file is alone."""
    runs: list[list[FileScanTask]] = []
    held = most
    for file in files:
        size = file.file.file_size_in_bytes
        if held + size > most:
            runs.append([])
            held = 0
        runs[-1].append(file)
        held += size
    return tuple(map(tuple, runs))


def _scan(table: Table, request: ExportRequest) -> list[FileScanTask]:
    if table.metadata.current_snapshot_id is None:
        return []
    try:
        return list(table.scan(row_filter=request.row_filter).plan_files())
    except ValueError as error:
        if "equality" not in str(error).lower():
            raise
        raise LakeError(
            f"{request.table} has equality deletes, which can't be read without Spark",
            hint=f"`neve compact run {request.table} --strategy deletes` applies them; then export again",
        ) from error


def _told(task: FileScanTask) -> str:
    return "|".join([task.file.file_path, *sorted(deleted.file_path for deleted in task.delete_files)])
