"""Spark tasks of a run: write kept records to new files of the sample, and delete the rows that they replace.

Kept records get their decision as columns, and as the attribute that other tools read.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, In, Reference
from pyiceberg.io.pyarrow import ArrowScan

from neve.lake.attribute_maps import set_map_entry
from neve.lake.read.file_values import partition_to_json
from neve.lake.read.incremental import find_rows_within
from neve.lake.read.snapshot_files import filter_by_time
from neve.lake.spark.tasks import drop_zip_importers, use_jemalloc
from neve.lake.time_columns import to_moments
from neve.lake.time_ranges import Ranges
from neve.lake.write.data_file_json import make_removal_json, new_files_to_json
from neve.lake.write.table_writer import Target, write_files, write_position_deletes
from neve.model.columns import STRING_MAP, TIMESTAMP
from neve.reservoir.weights import ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask

    from neve.lake.write.data_file_json import DataFileJson
    from neve.reservoir.config import LakeSampling


def stamp_decisions(rows: pa.Table, decisions: pa.Table, config: LakeSampling) -> pa.Table:
    """Add decisions to their rows, in the same order."""
    start = decisions.column("sampling_window")
    end = pa.array(np.asarray(start) + config.micros)
    adjusted = decisions.column("adjusted_count").combine_chunks()
    doubles, everywhere = pa.repeat(pa.scalar("double"), rows.num_rows), np.ones(rows.num_rows, np.bool_)
    for name, values in (("attributes", adjusted.cast(pa.string())), ("attribute_types", doubles)):
        place = rows.column_names.index(name)
        maps = rows.column(name).cast(STRING_MAP).combine_chunks()
        rows = rows.set_column(place, name, set_map_entry(maps, ATTRIBUTE, values, everywhere))
    sampler = pa.repeat(pa.scalar(f"{config.name}@{config.policy}"), rows.num_rows)
    return (
        rows.append_column("adjusted_count", adjusted)
        .append_column("sampling_weight", decisions.column("weight"))
        .append_column("sampling_group", decisions.column("sampling_group").cast(pa.string()))
        .append_column("sampling_window", start.cast(TIMESTAMP))
        .append_column("sampling_window_end", end.cast(TIMESTAMP))
        .append_column("sampling_method", pa.repeat(pa.scalar(config.method), rows.num_rows))
        .append_column("sampler", sampler)
    )


KEYS = ("organization_id", "sampling_window", "record_id")
MAX_NAMED_RECORDS = (
    100_000  # records of a file that are filtered by their ids; for more, all rows of the time range are read
)
HELD_BYTES = 128 * 1024 * 1024  # rows that a task holds before it writes them


@dataclass(frozen=True)
class FetchTask:
    """Task that reads kept records from their files and writes them as files of the target.

    It can be pickled.
    """

    source: Target
    target: Target
    files: Mapping[str, FileScanTask]
    config: LakeSampling

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process decisions in the order of their files, and yield the numbers of written rows and the new files."""
        use_jemalloc()
        held: list[pa.Table] = []
        for path, decisions in _by_file(batches):
            held.append(self.records(path, decisions))
            if sum(rows.nbytes for rows in held) >= HELD_BYTES:
                yield self._write(held)
                held = []
        if held:
            yield self._write(held)
        drop_zip_importers()

    def records(self, path: str, decisions: pa.Table) -> pa.Table:
        """Return the records of a file that have a decision, each once, with the decision."""
        metadata, micros = self.source.metadata, self.config.micros
        scan = ArrowScan(metadata, self.source.io, metadata.schema(), self._filter(decisions))
        rows = pa.Table.from_batches(scan.to_record_batches([self.files[path]]))
        keys = pa.table(
            {
                "organization_id": rows.column("organization_id").cast(pa.string()),
                "sampling_window": pa.array(to_moments(rows.column("timestamp")) // micros * micros),
                "record_id": rows.column("record_id").cast(pa.binary()),
                "row": pa.array(np.arange(rows.num_rows)),
            }
        )
        numbered = decisions.select(KEYS).append_column("decision", pa.array(np.arange(decisions.num_rows)))
        pairs = numbered.join(keys, list(KEYS), join_type="inner")
        # Of duplicate records the first is used.
        first = pairs.group_by("decision").aggregate([("row", "min")]).sort_by("row_min")
        return stamp_decisions(
            rows.take(first.column("row_min")), decisions.take(first.column("decision")), self.config
        )

    def _filter(self, decisions: pa.Table) -> BooleanExpression:
        starts = np.asarray(decisions.column("sampling_window"))
        wanted = filter_by_time(Ranges.of([(int(starts.min()), int(starts.max()) + self.config.micros)]))
        ids = pc.unique(decisions.column("record_id"))
        return (
            wanted
            if len(ids) > MAX_NAMED_RECORDS
            else And(wanted, In(term=Reference("record_id"), literals=ids.to_pylist()))
        )

    def _write(self, held: list[pa.Table]) -> pa.RecordBatch:
        metadata = self.target.metadata
        rows = pa.concat_tables(held, promote_options="default")
        files = write_files(self.target, rows)
        contents = new_files_to_json(metadata, files)
        return pa.RecordBatch.from_pydict({"rows": [rows.num_rows], "files": [pickle.dumps(contents)]})


SCHEMA = "rows long, files binary"


def parse_task_row(row: tuple[int, bytes]) -> tuple[int, list[DataFileJson]]:
    """Parse the result of a task."""
    return row[0], pickle.loads(row[1])  # noqa: S301 - our own


def _by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """Yield all decisions about each file; they arrive in the order of files."""
    path = ""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        paths = batch.column("_file")
        for part in _runs(paths):
            found = str(paths[part.start])
            if held and found != path:
                yield path, pa.Table.from_batches(held)
                held = []
            path = found
            held.append(batch.slice(part.start, part.stop - part.start))
    if held:
        yield path, pa.Table.from_batches(held)


def _runs(paths: pa.Array) -> Iterator[slice]:
    """Yield the runs of equal values of a column."""
    if not len(paths):
        return
    ends = pc.run_end_encode(paths).run_ends.to_pylist()
    for start, end in zip([0, *ends], ends, strict=False):
        yield slice(start, end)


@dataclass(frozen=True)
class FileChange:
    """Change of a file: it is removed, or some of its rows are deleted."""

    removed: tuple[DataFileJson, ...] = ()
    deletes: tuple[DataFileJson, ...] = ()


@dataclass(frozen=True)
class MarkTask:
    """Task that finds the rows of windows in files of a sample.

    It can be pickled.
    """

    target: Target
    windows: Mapping[str, Ranges]

    def __call__(self, file: DataFile) -> FileChange:
        """Find the rows of windows in one file; a file without any other row is removed."""
        # By the times of records: windows may have had another length when they were sampled.
        rows = find_rows_within(self.target.io, file.file_path, self.windows)
        if not len(rows.positions):
            return FileChange()
        metadata = self.target.metadata
        if len(rows.positions) == rows.total:
            return FileChange(removed=(make_removal_json(metadata, file),))
        partition = partition_to_json(metadata, file, file.spec_id)
        deletes = write_position_deletes(self.target, file.file_path, rows.positions, file.spec_id, partition)
        return FileChange(deletes=(deletes,))
