"""Where rows of different tasks meet: parcels of Arrow in files, left by the tasks that have them for those that write.

Spark's own shuffle would carry the rows through the JVM twice; measured on spans that doubled the cost of ingestion. So
Spark shuffles only where the parcels are. The folder must be reachable by every worker: a local one where Spark runs in
this process, the warehouse's storage where it runs on a cluster.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs

from neve.lake.filesystem import filesystem_of
from neve.lake.lane import forget_archives, watched
from neve.lake.store_calls import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame

    from neve.lake.config import S3Config

Result = TypeVar("Result")

LEFT_BEHIND_SECONDS = 86_400  # no batch takes a day

PACKED = pa.ipc.IpcWriteOptions(compression="lz4")  # telemetry repeats itself, and this costs next to nothing


@dataclass(frozen=True)
class Parcel:
    """Rows for the writer with a number, and what they are."""

    writer: int
    label: str
    rows: pa.Table


@dataclass(frozen=True)
class Exchange:
    """Hands rows from the tasks that read to those that write. It pickles."""

    folder: str
    s3: S3Config

    def run(
        self,
        frame: DataFrame,
        scatter: Callable[[Iterable[pa.RecordBatch]], Iterable[Parcel]],
        gather: Callable[[Iterable[Parcel]], Result],
        writers: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Result]:
        """Scatter what comes of each partition of a frame over writers; the result of each writer.

        With one writer both happen in the same task, and no parcel leaves it.
        """
        if writers == 1:
            return self._run_at_once(frame, scatter, gather, progress)
        self.sweep()
        batch = Exchange(f"{self.folder.rstrip('/')}/{uuid4()}", self.s3)

        def send(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            for parcel in scatter(batches):
                place = batch.leave(parcel.rows)
                yield pa.RecordBatch.from_pydict(
                    {"writer": pa.array([parcel.writer], pa.int32()), "label": [parcel.label], "place": [place]}
                )
            forget_archives()

        def receive(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"result": [packed(gather(batch.fetch(batches)))]})
            forget_archives()

        parcels = frame.mapInArrow(send, "writer int, label string, place string")
        done = parcels.repartitionById(writers, "writer").mapInArrow(receive, "result binary")
        try:
            with watched(frame.sparkSession, writers, progress):
                return [unpacked(row.result) for row in done.collect()]
        finally:
            batch.remove()

    def _run_at_once(
        self,
        frame: DataFrame,
        scatter: Callable[[Iterable[pa.RecordBatch]], Iterable[Parcel]],
        gather: Callable[[Iterable[Parcel]], Result],
        progress: Callable[[int, int], None] | None,
    ) -> list[Result]:
        def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"result": [packed(gather(scatter(batches)))]})
            forget_archives()

        done = frame.coalesce(1).mapInArrow(work, "result binary")
        with watched(frame.sparkSession, 1, progress):
            return [unpacked(row.result) for row in done.collect()]

    def sweep(self) -> None:
        """Remove what batches left behind that were killed long ago."""
        filesystem, inner = filesystem_of(self.folder, self.s3)
        found = filesystem.get_file_info(pafs.FileSelector(inner, recursive=True, allow_not_found=True))
        oldest = time.time() - LEFT_BEHIND_SECONDS
        files = [entry for entry in found if entry.type == pafs.FileType.File]
        fresh = {entry.path.split("/")[-2] for entry in files if (entry.mtime_ns or 0) / 1e9 > oldest}
        for batch in {entry.path.rsplit("/", 1)[0] for entry in files}:
            if batch.split("/")[-1] not in fresh:
                with suppress(FileNotFoundError):  # another sweeper was quicker
                    filesystem.delete_dir(batch)

    def leave(self, rows: pa.Table) -> str:
        """Put rows where another task finds them."""
        place = f"{self.folder}/{uuid4()}.arrow"
        filesystem, inner = filesystem_of(place, self.s3)
        if not place.startswith("s3://"):
            Path(inner).parent.mkdir(parents=True, exist_ok=True)
        with (
            filesystem.open_output_stream(inner, compression=None) as sink,
            pa.ipc.new_stream(sink, rows.schema, options=PACKED) as stream,
        ):
            stream.write_table(rows)
        return place

    def fetch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """The parcels that stand at some places, one after the other."""
        for batch in batches:
            for row in batch.to_pylist():
                filesystem, inner = filesystem_of(row["place"], self.s3)
                with (
                    filesystem.open_input_stream(inner, compression=None) as source,
                    pa.ipc.open_stream(source) as rows,
                ):
                    yield Parcel(row["writer"], row["label"], rows.read_all())

    def remove(self) -> None:
        """Forget the parcels of a batch."""
        filesystem, inner = filesystem_of(self.folder, self.s3)
        if self.folder.startswith("s3://") or Path(inner).exists():
            filesystem.delete_dir(inner)
