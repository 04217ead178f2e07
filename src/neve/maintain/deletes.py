"""Write position deletes anew: fewer files, and none about data files that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, FileFormat

from neve.maintain.deletes_plan import FILE, DeletesPlan, PositionDeletes, plan_deletes
from neve.maintain.procedures import call, options
from neve.maintain.result import Cost, Gain, Outcome
from neve.maintain.words import counted

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.maintain.work import Work

STEP = "deletes"
PATH_COLUMN = 2147483546  # the field id that Iceberg reserves for the path in a delete file


def deletes(work: Work) -> Outcome:
    """Rewrite position deletes where there is something to gain; the rows that are read stay the same."""
    plan = _plan(work)
    gain = Gain(delete_files=max(len(plan.dangling), plan.excess)) if plan.rewrite else Gain()
    if work.dry_run or not plan.rewrite:
        return Outcome(plan.reason, False, plan.entries, gain)
    work.tell(STEP, 0, 1)
    work.check()
    answer = call(work.lake, "rewrite_position_delete_files", work.name, {"options": options({"rewrite-all": "true"})})
    work.tell(STEP, 1, 1)
    before, after = int(answer["rewritten_delete_files_count"]), int(answer["added_delete_files_count"])
    removed, written = int(answer["rewritten_bytes_count"]), int(answer["added_bytes_count"])
    gain = Gain(delete_files=before - after, bytes=max(0, removed - written))
    cost = Cost(api_calls=before + after + 3, bytes_written=written)
    return Outcome(f"{counted(before, FILE)} became {after:,}", before > 0, plan.entries, gain, cost)


def _plan(work: Work) -> DeletesPlan:
    table = work.table()
    snapshot, least = table.current_snapshot(), work.config.deletes.min_files
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    if snapshot is None or summary.get("total-delete-files") == "0":
        return plan_deletes((), (), least=least)
    return _read(table, least)


def _read(table: Table, least: int) -> DeletesPlan:
    found: list[PositionDeletes] = []
    live: list[tuple[Hashable, str]] = []
    others = 0
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else []:
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            partition = _partition(file)
            if file.content == DataFileContent.DATA:
                live.append((partition, file.file_path))
            elif file.content == DataFileContent.POSITION_DELETES and file.file_format != FileFormat.PUFFIN:
                found.append(_position_deletes(table, file, partition))
            else:
                others += 1
    return plan_deletes(found, live, least=least, others=others)


def _position_deletes(table: Table, file: DataFile, partition: Hashable) -> PositionDeletes:
    return PositionDeletes(file.file_path, partition, file.file_size_in_bytes, _about(table, file))


def _about(table: Table, file: DataFile) -> frozenset[str]:
    """The data files that deletes are about: by their bounds where it is one, else by what is in the file."""
    first, last = ((bounds or {}).get(PATH_COLUMN) for bounds in (file.lower_bounds, file.upper_bounds))
    if first is not None and first == last:
        return frozenset({bytes(first).decode()})
    if file.file_format != FileFormat.PARQUET:
        return frozenset()
    with table.io.new_input(file.file_path).open() as source:
        paths = pq.ParquetFile(source).read(columns=["file_path"]).column("file_path")
        return frozenset(paths.unique().to_pylist())


def _partition(file: DataFile) -> Hashable:
    return (file.spec_id, *(file.partition[position] for position in range(len(file.partition))))
