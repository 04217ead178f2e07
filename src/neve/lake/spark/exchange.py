"""Shuffle of Arrow rows between tasks by files: reading tasks write blocks of rows, and writing tasks fetch them.

Spark's own shuffle would send the rows through the JVM twice, which doubled the cost of ingestion, measured on spans.
So Spark shuffles only the locations of the blocks. Every worker must be able to access the folder: a local one if Spark
runs in this process, the warehouse's storage if it runs on a cluster.

Each batch has its own folder with a marker file in it. On a disk, both this folder and its parent are private to the
user. Folders of killed batches are removed a day later. They are recognised by name, marker and owner, and all other
files stay.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs

from neve.lake.spark.tasks import drop_zip_importers, report_progress
from neve.lake.storage.call_counters import pack_result, unpack_result
from neve.lake.storage.filesystem import resolve_filesystem
from neve.local_folders import GROUP_WRITES, check_private_folder, make_private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame

    from neve.lake.config import S3Config

Result = TypeVar("Result")

LEFT_BEHIND_SECONDS = 86_400  # no batch takes a day
KEY = "lake.exchange"
MARKER = ".neve-exchange"
MARKER_TEXT = b"Neve made this folder for rows of one batch, and removes it when the batch ends or a day later.\n"
HEX = "[0-9a-f]"
BATCH = re.compile(f"{HEX}{{8}}-{HEX}{{4}}-4{HEX}{{3}}-[89ab]{HEX}{{3}}-{HEX}{{12}}|query-{HEX}{{32}}")
PRIVATE, GROUP = 0o700, 0o770

PACKED = pa.ipc.IpcWriteOptions(compression="lz4")  # telemetry is repetitive, and lz4 costs almost nothing


@dataclass(frozen=True)
class ExchangeBlock:
    """Rows for one writer, with the writer's number and a label."""

    writer: int
    label: str
    rows: pa.Table


@dataclass(frozen=True)
class Exchange:
    """Transfer of rows from reading to writing tasks. Can be pickled.

    `shared` is true if workers of a cluster use the folder, too. They may run as another user of the same group.
    """

    folder: str
    s3: S3Config
    shared: bool = False

    def run(
        self,
        frame: DataFrame,
        scatter: Callable[[Iterable[pa.RecordBatch]], Iterable[ExchangeBlock]],
        gather: Callable[[Iterable[ExchangeBlock]], Result],
        writers: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Result]:
        """Scatter the rows of each partition of a frame over writers, and return the result of each writer.

        With one writer both happen in the same task, and no block leaves it.
        """
        if writers == 1:
            return self._run_at_once(frame, scatter, gather, progress)
        batch = self.open_batch()

        def send(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            for parcel in scatter(batches):
                place = batch.leave(parcel.rows)
                yield pa.RecordBatch.from_pydict(
                    {"writer": pa.array([parcel.writer], pa.int32()), "label": [parcel.label], "place": [place]}
                )
            drop_zip_importers()

        def receive(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"result": [pack_result(gather(batch.fetch(batches)))]})
            drop_zip_importers()

        parcels = frame.mapInArrow(send, "writer int, label string, place string")
        done = parcels.repartitionById(writers, "writer").mapInArrow(receive, "result binary")
        try:
            with report_progress(frame.sparkSession, writers, progress):
                return [unpack_result(row.result) for row in done.collect()]
        finally:
            batch.remove()

    def _run_at_once(
        self,
        frame: DataFrame,
        scatter: Callable[[Iterable[pa.RecordBatch]], Iterable[ExchangeBlock]],
        gather: Callable[[Iterable[ExchangeBlock]], Result],
        progress: Callable[[int, int], None] | None,
    ) -> list[Result]:
        def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"result": [pack_result(gather(scatter(batches)))]})
            drop_zip_importers()

        done = frame.coalesce(1).mapInArrow(work, "result binary")
        with report_progress(frame.sparkSession, 1, progress):
            return [unpack_result(row.result) for row in done.collect()]

    def open_batch(self, name: str = "") -> Exchange:
        """Create the folder of one batch, and remove old folders of killed batches.

        Raises `ConfigError` for a folder that another user owns or may write to.
        """
        name = name or str(uuid4())
        batch = Exchange(f"{self.folder.rstrip('/')}/{name}", self.s3, self.shared)
        if self._on_disk:
            self._make_folder(Path(resolve_filesystem(batch.folder, self.s3)[1]))
        marker = f"{batch.folder}/{MARKER}"
        filesystem, inner = resolve_filesystem(marker, self.s3)
        with filesystem.open_output_stream(inner, compression=None) as sink:
            sink.write(MARKER_TEXT)
        # The storage's clock, not this machine's: the ages of other folders are computed from its times.
        self.sweep(now=(filesystem.get_file_info(inner).mtime_ns or 0) / 1e9)
        return batch

    @property
    def _on_disk(self) -> bool:
        return not self.folder.startswith("s3://")

    def _make_folder(self, batch: Path) -> None:
        root = batch.parent
        make_private_folder(root)
        check_private_folder(root, KEY, group_may_write=self.shared)
        mode = GROUP if self.shared and root.stat().st_mode & GROUP_WRITES else PRIVATE
        batch.mkdir(mode=PRIVATE)
        batch.chmod(mode)

    def sweep(self, *, now: float) -> None:
        """Remove the folders of batches that were killed long ago, and nothing that Neve did not create."""
        oldest = now - LEFT_BEHIND_SECONDS
        if self._on_disk:
            self._sweep_disk(Path(resolve_filesystem(self.folder, self.s3)[1]), oldest)
            return
        filesystem, inner = resolve_filesystem(self.folder, self.s3)
        newest: dict[str, float] = {}
        marked: set[str] = set()
        for entry in filesystem.get_file_info(pafs.FileSelector(inner, recursive=True, allow_not_found=True)):
            name, _, rest = entry.path.removeprefix(inner.rstrip("/") + "/").partition("/")
            if entry.type == pafs.FileType.File and BATCH.fullmatch(name):
                newest[name] = max(newest.get(name, 0.0), (entry.mtime_ns or 0) / 1e9)
                marked |= {name} if rest == MARKER else set()
        for name in marked:
            if newest[name] < oldest:
                with suppress(FileNotFoundError):  # another process was faster
                    filesystem.delete_dir(f"{inner.rstrip('/')}/{name}")

    def _sweep_disk(self, root: Path, oldest: float) -> None:
        for folder in root.iterdir():
            with suppress(FileNotFoundError):  # another process was faster
                if BATCH.fullmatch(folder.name) and _is_own_batch(folder) and _newest_change(folder) < oldest:
                    shutil.rmtree(folder)

    def leave(self, rows: pa.Table) -> str:
        """Write rows to a file for another task, and return its location."""
        place = f"{self.folder}/{uuid4()}.arrow"
        filesystem, inner = resolve_filesystem(place, self.s3)
        with (
            filesystem.open_output_stream(inner, compression=None) as sink,
            pa.ipc.new_stream(sink, rows.schema, options=PACKED) as stream,
        ):
            stream.write_table(rows)
        return place

    def fetch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[ExchangeBlock]:
        """Yield the blocks at some locations, one after the other."""
        for batch in batches:
            for row in batch.to_pylist():
                filesystem, inner = resolve_filesystem(row["place"], self.s3)
                with (
                    filesystem.open_input_stream(inner, compression=None) as source,
                    pa.ipc.open_stream(source) as rows,
                ):
                    yield ExchangeBlock(row["writer"], row["label"], rows.read_all())

    def remove(self) -> None:
        """Remove the blocks of a batch."""
        filesystem, inner = resolve_filesystem(self.folder, self.s3)
        if not self._on_disk or Path(inner).exists():
            filesystem.delete_dir(inner)


def _is_own_batch(folder: Path) -> bool:
    """Return whether this user created a folder for a batch. Links are not followed."""
    marker = folder / MARKER
    return (
        stat.S_ISDIR(folder.lstat().st_mode)
        and folder.lstat().st_uid == os.geteuid()
        and stat.S_ISREG(marker.lstat().st_mode)
        and marker.lstat().st_uid == os.geteuid()
    )


def _newest_change(folder: Path) -> float:
    """Return the time of the last change in a folder. Links are not followed."""
    times = [folder.lstat().st_mtime]
    for where, folders, files in os.walk(folder, followlinks=False):
        times += [Path(where, name).lstat().st_mtime for name in (*folders, *files)]
    return max(times)
