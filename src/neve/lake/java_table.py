"""A table through Iceberg's own Java library, inside Spark's driver: what its SQL procedures can't be asked for."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from neve.errors import EnvironmentFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from neve.lake.content import Content

TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
DATA_PATH = "write.data.path"


class JavaTable:
    """One loaded table; py4j's untyped objects stay in here and in those who are handed them."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        if getattr(spark, "_jvm", None) is None:
            raise EnvironmentFault(
                "compaction needs a Spark driver in this process, and Spark Connect has none",
                hint="run it with spark.master, or use `CALL system.rewrite_data_files` on the server",
            )
        self._spark = spark
        # A thread of ours has no session of its own in the JVM, and one without a session knows no catalog of ours.
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

    def files(self, contents: Iterable[Content]) -> Iterator[Any]:
        """Java's files that the documents describe. Every word to the JVM costs, so there are few for each."""
        read, parse = self.iceberg.util.JsonUtil.mapper().readTree, self.iceberg.ContentFileParser.fromJson
        specs = self.java.specs()
        for content in contents:
            yield parse(read(json.dumps(content)), specs)

    def contents(self, files: Iterable[Any]) -> list[Content]:
        """The documents of Java's files."""
        parser, specs = self.iceberg.ContentFileParser, self.java.specs()
        return [json.loads(parser.toJson(file, specs.get(file.specId()))) for file in files]

    def written_under(self, folder: str) -> Any:
        """The same table, whose writers put their data files under a folder."""
        properties = self.jvm.java.util.HashMap(self.java.properties())
        properties.put(DATA_PATH, folder)
        metadata = self.java.operations().current().replaceProperties(properties)
        places = self.iceberg.LocationProviders.locationsFor(metadata.location(), properties)
        operations = self.iceberg.StaticTableOperations(metadata, self.java.io(), places)
        return self.iceberg.BaseTable(operations, self.java.name())

    def no(self, kind: Any) -> Any:
        """Java's empty array of a class."""
        gateway: Any = self._spark.sparkContext._gateway
        return gateway.new_array(kind, 0)

    @cached_property
    def cache(self) -> Any:
        """Where Spark finds tables by a made-up name; its static `get` hides from py4j behind another `get`."""
        loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        method = loader.loadClass(TABLE_CACHE).getMethod("get", self.no(self.jvm.java.lang.Class))
        return method.invoke(None, self.no(self.jvm.java.lang.Object))
