"""What Spark's tasks do with decisions: kept records, file by file, become new files of the sample."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, GreaterThanOrEqual, In, LessThan, Reference
from pyiceberg.io.pyarrow import ArrowScan

from neve.lake.changes import partition_json
from neve.lake.content import content_of
from neve.lake.lane import forget_archives, keep_memory
from neve.lake.writer import Target, write_files
from neve.reservoir.lake.stamp import stamped
from neve.reservoir.lake.touched import starts_of
from neve.reservoir.lake.windows import moment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask

    from neve.lake.content import Content
    from neve.reservoir.lake.config import LakeSampling

KEYS = ("organization_id", "sampling_window", "record_id")
MOST_NAMED = 100_000  # records that a file is asked for by their ids; of more, all of the time are read
HELD_BYTES = 128 * 1024 * 1024  # of rows that a task holds before it writes them


@dataclass(frozen=True)
class Fetch:
    """Reads kept records from the files that they lie in and writes them as files of the target. It pickles."""

    source: Target
    target: Target
    files: Mapping[str, FileScanTask]
    config: LakeSampling

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decisions in the order of their files; gives how many rows were written, and the documents of the files."""
        keep_memory()
        held: list[pa.Table] = []
        for path, decisions in _by_file(batches):
            held.append(self.records(path, decisions))
            if sum(rows.nbytes for rows in held) >= HELD_BYTES:
                yield self._written(held)
                held = []
        if held:
            yield self._written(held)
        forget_archives()

    def records(self, path: str, decisions: pa.Table) -> pa.Table:
        """The records of a file that decisions are about, each once, with what was decided."""
        metadata = self.source.metadata
        scan = ArrowScan(metadata, self.source.io, metadata.schema(), self._filter(decisions))
        rows = pa.Table.from_batches(scan.to_record_batches([self.files[path]]))
        keys = pa.table(
            {
                "organization_id": rows.column("organization_id").cast(pa.string()),
                "sampling_window": starts_of(rows.column("timestamp"), self.config.micros),
                "record_id": rows.column("record_id").cast(pa.binary()),
                "row": pa.array(np.arange(rows.num_rows)),
            }
        )
        numbered = decisions.select(KEYS).append_column("decision", pa.array(np.arange(decisions.num_rows)))
        pairs = numbered.join(keys, list(KEYS), join_type="inner")
        # A record that is there twice is the first of the two.
        first = pairs.group_by("decision").aggregate([("row", "min")]).sort_by("row_min")
        return stamped(rows.take(first.column("row_min")), decisions.take(first.column("decision")), self.config)

    def _filter(self, decisions: pa.Table) -> BooleanExpression:
        starts = np.asarray(decisions.column("sampling_window"))
        first, last = (moment_of(int(edge)) for edge in (starts.min(), starts.max() + self.config.micros))
        time = Reference("timestamp")
        wanted: BooleanExpression = And(
            GreaterThanOrEqual(term=time, value=first.isoformat()), LessThan(term=time, value=last.isoformat())
        )
        ids = pc.unique(decisions.column("record_id"))
        return (
            wanted if len(ids) > MOST_NAMED else And(wanted, In(term=Reference("record_id"), literals=ids.to_pylist()))
        )

    def _written(self, held: list[pa.Table]) -> pa.RecordBatch:
        metadata = self.target.metadata
        spec = metadata.default_spec_id
        rows = pa.concat_tables(held, promote_options="default")
        files = write_files(self.target, rows)
        contents = [content_of(file, spec, partition_json(metadata, file, spec)) for file in files]
        return pa.RecordBatch.from_pydict({"rows": [rows.num_rows], "files": [pickle.dumps(contents)]})


SCHEMA = "rows long, files binary"


def told(row: tuple[int, bytes]) -> tuple[int, list[Content]]:
    """What a task gave."""
    return row[0], pickle.loads(row[1])  # noqa: S301 - our own


def _by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """All decisions about each file; they come in the order of files."""
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
    """The stretches of a column with one value."""
    if not len(paths):
        return
    ends = pc.run_end_encode(paths).run_ends.to_pylist()
    for start, end in zip([0, *ends], ends, strict=False):
        yield slice(start, end)
