"""Spark, for queries that are too large for one machine."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

    from neve.lake.lake import Lake
    from neve.lake.spark.exchange import Exchange

SPARK = "spark"
LOCATIONS = "part int, file string"  # output of a task that stores rows
GONE = "INVALID_HANDLE"  # error of a server for an unknown session or operation
PACKED = pa.ipc.IpcWriteOptions(compression="zstd")
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.variable.substitute": "false",  # ${env:…} in a literal would read the environment of the driver
}


class SparkRun:
    """One statement whose result is stored in a folder that all workers reach, so that it need not fit into memory."""

    def __init__(self, lake: Lake, session: SparkSession, sql: str, most_rows: int) -> None:
        from neve.lake.storage.filesystem import resolve_filesystem  # noqa: PLC0415 - for queries on Spark, as below

        self._session = session
        self._sql = sql
        self._most = most_rows
        self._remote = lake.spark_config.connect
        self._tag = f"query-{uuid4().hex}"
        self._exchange = lake.exchange
        self._folder = f"{self._exchange.folder.rstrip('/')}/{self._tag}"
        self._filesystem, self._inner = resolve_filesystem(self._folder, lake.s3)

    def begin(self) -> None:
        """Run the statement. Blocks until the whole result is stored. Raises `LakeError` if Spark is lost meanwhile."""
        from neve.lake.spark.session import check_reachable  # noqa: PLC0415

        try:
            self._begin()
        except Exception as error:
            if self._remote:
                check_reachable(self._remote)
                if GONE in str(error):
                    raise LakeError("Spark was restarted while it ran the query", hint="run the query again") from error
            raise

    def _begin(self) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

        self._session.addTag(self._tag)
        frame = self._session.sql(self._sql).limit(self._most)
        names = frame.columns
        frame = frame.toDF(*(f"c{number}" for number in range(len(names))))  # SQL allows a name more than once
        stored = to_arrow_schema(frame.schema)
        self._schema = pa.schema([(name, field.type) for name, field in zip(names, stored, strict=True)])
        batch = self._exchange.open_batch(self._tag)
        found = frame.mapInArrow(partial(_store_rows, batch), LOCATIONS).collect()
        self._files = [row.file for row in sorted(found, key=lambda row: int(row.part))]

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return self._schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result, part by part in the order of the rows."""
        for name in self._files:
            with self._filesystem.open_input_stream(f"{self._inner}/{name}") as file:
                for batch in pa.ipc.open_stream(file):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)

    def interrupt(self) -> None:
        """Interrupt the statement, from any thread."""
        self._session.interruptTag(self._tag)

    def close(self) -> None:
        """Remove the result, and close the session if it is one of a server. Other sessions end with Spark itself."""
        import pyarrow.fs as pafs  # noqa: PLC0415

        if self._remote:
            self._session.stop()
        if self._filesystem.get_file_info(self._inner).type != pafs.FileType.NotFound:
            self._filesystem.delete_dir(self._inner)


def _store_rows(exchange: Exchange, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Store the rows of one task in the exchange, and return the name of the file.

    Spark itself could write only to storage that its own Hadoop file systems know, which S3 is not without more jars.
    A repeated task has another file, and only the names of successful tasks are read.
    """
    from pyspark import TaskContext  # noqa: PLC0415 - only in tasks

    from neve.lake.storage.filesystem import resolve_filesystem  # noqa: PLC0415

    rows = iter(batches)
    first = next(rows, None)
    if first is None:
        return
    context = TaskContext.get()
    part = context.partitionId() if context is not None else 0
    name = f"{part}-{uuid4().hex}.arrow"
    filesystem, inner = resolve_filesystem(f"{exchange.folder}/{name}", exchange.s3)
    with filesystem.open_output_stream(inner) as sink, pa.ipc.new_stream(sink, first.schema, options=PACKED) as writer:
        for batch in chain([first], rows):
            writer.write_batch(batch)
    yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32()), "file": [name]})


class SparkEngine:
    """A separate session, in UTC, on the lake's Spark."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def run(self, sql: str, most_rows: int, check: Callable[[], None]) -> SparkRun:
        """Return a run of a statement with at most so many rows. `check` may end the wait for the start of Spark.

        The whole result is on disk before the first row is sent.
        """
        return SparkRun(self._lake, self._lake.new_session(SETTINGS, check), sql, most_rows)

    def source(self, table: str, snapshot: int | None, conditions: list[str]) -> str:
        """Return a subquery in parentheses: the rows of a table at a snapshot that match the conditions."""
        version = f" VERSION AS OF {snapshot}" if snapshot is not None else ""
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"(SELECT * FROM {self._lake.spark_name(table)}{version}{where})"  # noqa: S608 - quoted
