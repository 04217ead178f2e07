"""Rewrite position deletes: fewer files, and none for data files that no longer exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent, FileFormat

from neve.lake.read.data_file_reader import read_columns
from neve.lake.read.file_values import find_referenced_path, partition_values
from neve.lake.read.history import read_summary
from neve.lake.read.snapshot_files import iterate_entries
from neve.maintain.procedures import call_procedure, format_options
from neve.maintain.step import KEEP, Cost, Entry, Gain, Outcome
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.maintain.step import StepContext


REWRITE, REMOVE = "rewrite", "remove"
FILE = "file of position deletes"


@dataclass(frozen=True)
class PositionDeletes:
    """A file of position deletes, and the paths of its data files (none: unknown)."""

    path: str
    partition: Hashable
    bytes: int
    data_files: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DeletesPlan:
    """Planned work, and the reason."""

    dangling: tuple[PositionDeletes, ...]
    excess: int
    rewrite: bool
    reason: str
    entries: tuple[Entry, ...]


def plan_deletes(
    deletes: Iterable[PositionDeletes], live: Iterable[tuple[Hashable, str]], *, least: int, others: int = 0
) -> DeletesPlan:
    """Plan to drop deletes of removed data files, and to merge several delete files of one data file.

    `live` are the data files, each with its partition. `others` counts equality deletes and deletion vectors, which are
    not rewritten.
    """
    every = tuple(deletes)
    by_partition: dict[Hashable, set[str]] = {}
    for partition, path in live:
        by_partition.setdefault(partition, set()).add(path)
    dangling = tuple(one for one in every if _is_dangling(one, by_partition.get(one.partition, set())))
    rest = tuple(one for one in every if one not in dangling)
    excess = _count_excess(rest)
    rewrite = bool(dangling) or excess >= least
    entries = [
        *(Entry(REMOVE, one.path, "its data files were removed", one.bytes) for one in dangling),
        *_summarize(rest, excess, rewrite),
        *([Entry(KEEP, f"{others} other delete files", "compaction applies them")] if others else []),
    ]
    reason = _explain(len(every), len(dangling), excess, least) if every else _explain_none(others)
    return DeletesPlan(dangling, excess, rewrite, reason, tuple(entries))


def _is_dangling(one: PositionDeletes, live: set[str]) -> bool:
    return not live or (bool(one.data_files) and one.data_files.isdisjoint(live))


def _count_excess(deletes: tuple[PositionDeletes, ...]) -> int:
    """Count the delete files beyond one for each data file that has deletes."""
    data_files = {(one.partition, path) for one in deletes for path in one.data_files or ("",)}
    return max(0, len(deletes) - len(data_files))


def _summarize(rest: tuple[PositionDeletes, ...], excess: int, rewrite: bool) -> list[Entry]:
    if not rest:
        return []
    reason = f"{excess} more than needed" if excess else "at most one for each data file with deletes"
    what = format_count(len(rest), FILE)
    return [Entry(REWRITE if rewrite else KEEP, what, reason, sum(one.bytes for one in rest))]


def _explain(count: int, dangling: int, excess: int, least: int) -> str:
    if dangling:
        return f"{dangling:,} of {format_count(count, FILE)} for removed data files"
    if excess >= least:
        return f"{format_count(count, FILE)} could be {count - excess:,}"
    return f"{format_count(count, FILE)}, {excess} more than needed: not rewritten below {least}"


def _explain_none(others: int) -> str:
    return f"no position deletes ({others} other delete files: compaction applies them)" if others else "no deletes"


STEP = "deletes"


def rewrite_deletes(work: StepContext) -> Outcome:
    """Rewrite position deletes if there is a gain. Readers get the same rows."""
    plan = _make_plan(work)
    gain = Gain(delete_files=max(len(plan.dangling), plan.excess)) if plan.rewrite else Gain()
    if work.dry_run or not plan.rewrite:
        return Outcome(plan.reason, False, plan.entries, gain)
    work.report_progress(STEP, 0, 1)
    work.check()
    answer = call_procedure(
        work.lake, "rewrite_position_delete_files", work.name, {"options": format_options({"rewrite-all": "true"})}
    )
    work.report_progress(STEP, 1, 1)
    before, after = int(answer["rewritten_delete_files_count"]), int(answer["added_delete_files_count"])
    removed, written = int(answer["rewritten_bytes_count"]), int(answer["added_bytes_count"])
    gain = Gain(delete_files=before - after, bytes=max(0, removed - written))
    cost = Cost(api_calls=before + after + 3, bytes_written=written)
    return Outcome(f"{format_count(before, FILE)} became {after:,}", before > 0, plan.entries, gain, cost)


def _make_plan(work: StepContext) -> DeletesPlan:
    table = work.table()
    snapshot, least = table.current_snapshot(), work.config.deletes.min_files
    if snapshot is None or read_summary(snapshot).get("total-delete-files") == "0":
        return plan_deletes((), (), least=least)
    return _read_plan(table, least)


def _read_plan(table: Table, least: int) -> DeletesPlan:
    found: list[PositionDeletes] = []
    live: list[tuple[Hashable, str]] = []
    others = 0
    for entry in iterate_entries(table):
        file = entry.data_file
        partition = (file.spec_id, *partition_values(file))
        if file.content == DataFileContent.DATA:
            live.append((partition, file.file_path))
        elif file.content == DataFileContent.POSITION_DELETES and file.file_format != FileFormat.PUFFIN:
            paths = _find_data_files(table, file)
            found.append(PositionDeletes(file.file_path, partition, file.file_size_in_bytes, paths))
        else:
            others += 1
    return plan_deletes(found, live, least=least, others=others)


def _find_data_files(table: Table, file: DataFile) -> frozenset[str]:
    """Return the data files of a delete file: by its bounds if it is one, else by its content."""
    path = find_referenced_path(file)
    if path is not None:
        return frozenset({path})
    if file.file_format != FileFormat.PARQUET:
        return frozenset()
    return frozenset(read_columns(table.io, file.file_path, ["file_path"]).column(0).unique().to_pylist())
