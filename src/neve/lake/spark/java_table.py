"""A table through Iceberg's Java library inside Spark's driver, for operations that its SQL procedures do not offer."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from neve.errors import EnvironmentFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from neve.lake.write.data_file_json import DataFileJson


TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
DATA_PATH = "write.data.path"


class JavaTable:
    """One loaded table. The untyped objects of py4j stay in this class and its callers."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        if getattr(spark, "_jvm", None) is None:
            raise EnvironmentFault(
                "commits that replace files need a Spark driver in this process, and Spark Connect has none",
                hint="set spark.master instead of spark.connect, to a cluster or to local[*]",
            )
        self._spark = spark
        # A Python thread has no session in the JVM, and without a session the JVM does not have the lake's catalog.
        self.jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
        self.java = self.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)

    @property
    def jvm(self) -> Any:
        """Java's packages."""
        return self._spark._jvm

    @property
    def iceberg(self) -> Any:
        """Iceberg's packages."""
        return self.jvm.org.apache.iceberg

    def files(self, contents: Iterable[DataFileJson]) -> Iterator[Any]:
        """Yield Java's files for the documents. Every call to the JVM is expensive, so there are few per file."""
        read, parse = self.iceberg.util.JsonUtil.mapper().readTree, self.iceberg.ContentFileParser.fromJson
        specs = self.java.specs()
        for content in contents:
            yield parse(read(json.dumps(content)), specs)

    def contents(self, files: Iterable[Any]) -> list[DataFileJson]:
        """Return the documents of Java's files."""
        parser, specs = self.iceberg.ContentFileParser, self.java.specs()
        return [json.loads(parser.toJson(file, specs.get(file.specId()))) for file in files]

    def written_under(self, folder: str) -> Any:
        """Return the same table with a folder for new data files."""
        properties = self.jvm.java.util.HashMap(self.java.properties())
        properties.put(DATA_PATH, folder)
        metadata = self.java.operations().current().replaceProperties(properties)
        places = self.iceberg.LocationProviders.locationsFor(metadata.location(), properties)
        operations = self.iceberg.StaticTableOperations(metadata, self.java.io(), places)
        return self.iceberg.BaseTable(operations, self.java.name())

    def no(self, kind: Any) -> Any:
        """Return Java's empty array of a class."""
        gateway: Any = self._spark.sparkContext._gateway
        return gateway.new_array(kind, 0)

    @cached_property
    def cache(self) -> Any:
        """The cache in which Spark finds tables by a generated name.

        Its static `get` is hidden from py4j by another `get`.
        """
        loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        method = loader.loadClass(TABLE_CACHE).getMethod("get", self.no(self.jvm.java.lang.Class))
        return method.invoke(None, self.no(self.jvm.java.lang.Object))


def remove_dangling_deletes(spark: SparkSession, name: str) -> int:
    """Remove delete files that are older than every data file that they could apply to. Return their number."""
    table = JavaTable(spark, name)
    actions = table.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
    removed = actions.removeDanglingDeleteFiles(table.java).execute().removedDeleteFiles()
    return sum(1 for _file in removed)
