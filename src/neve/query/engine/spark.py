"""Statements on Spark, for what is too large for one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from neve.errors import LakeError
from neve.lake.filesystem import filesystem_of
from neve.lake.remote import check_reachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from neve.lake.lake import Lake

SPARK = "spark"
ROWS = "rows"  # the folder of a result: Spark wants to make it itself
GONE = "INVALID_HANDLE"  # what a server says of a session or an operation that it does not know
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.variable.substitute": "false",  # ${env:…} in a text would be the environment of the driver
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


class SparkRun:
    """One statement whose result lies in a folder that all workers reach, so that no memory has to hold it."""

    def __init__(self, lake: Lake, session: SparkSession, sql: str, most_rows: int) -> None:
        self._session = session
        self._sql = sql
        self._most = most_rows
        self._remote = lake.spark_config.connect
        self._tag = f"query-{uuid4().hex}"
        self._exchange = lake.exchange
        self._folder = f"{self._exchange.folder.rstrip('/')}/{self._tag}"
        self._filesystem, self._inner = filesystem_of(self._folder, lake.s3)

    def begin(self) -> None:
        """Run it; blocks until the whole result is there. Raises `LakeError` when its Spark goes away meanwhile."""
        try:
            self._begin()
        except Exception as error:
            if self._remote:
                check_reachable(self._remote)
                if GONE in str(error):
                    raise LakeError("Spark was started anew while it answered", hint="ask again") from error
            raise

    def _begin(self) -> None:
        self._session.addTag(self._tag)
        frame = self._session.sql(self._sql).limit(self._most)
        self._names = frame.columns
        self._exchange.open_batch(self._tag)
        # Files have every name once, and not every name that SQL has.
        frame.toDF(*(f"c{number}" for number in range(len(self._names)))).write.parquet(f"{self._folder}/{ROWS}")
        found = ds.dataset(f"{self._inner}/{ROWS}", filesystem=self._filesystem, format="parquet")
        self._files = sorted(found.files)
        self._stored = found.schema

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return pa.schema([(name, field.type) for name, field in zip(self._names, self._stored, strict=True)])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The result, file by file in the order of the rows."""
        for path in self._files:
            part = ds.dataset(path, schema=self._stored, filesystem=self._filesystem, format="parquet")
            for batch in part.scanner(use_threads=False).to_batches():
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def interrupt(self) -> None:
        """End it, from any thread."""
        self._session.interruptTag(self._tag)

    def close(self) -> None:
        """Remove the result, and the session where it is one of a server; others end with Spark itself."""
        if self._remote:
            self._session.stop()
        if self._filesystem.get_file_info(self._inner).type != pafs.FileType.NotFound:
            self._filesystem.delete_dir(self._inner)


class SparkEngine:
    """A session of its own, in UTC, on the lake's Spark."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def run(self, sql: str, most_rows: int) -> SparkRun:
        """A statement, of whose result so many rows are kept: they fill a disk before the first one is sent."""
        return SparkRun(self._lake, self._lake.new_session(SETTINGS), sql, most_rows)

    def source(self, table: str, snapshot: int | None, conditions: list[str]) -> str:
        """A subquery in parentheses: the rows of a table at a snapshot that some conditions let through."""
        version = f" VERSION AS OF {snapshot}" if snapshot is not None else ""
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"(SELECT * FROM {self._lake.spark_name(table)}{version}{where})"  # noqa: S608 - quoted
