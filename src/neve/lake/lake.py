"""The lake: one catalog, reached through pyiceberg without a JVM or through Spark."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from neve.errors import ConfigError, LakeError, TableMissing
from neve.lake.catalog import pyiceberg_properties, sqlite_path
from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.pandas_import import load_pandas
from neve.lake.read.local_table import UNREADABLE, LocalTable
from neve.lake.sqlite_catalog import SqliteCatalog, is_plain_sqlite
from neve.local_folders import make_private_folder, user_folder, warn_network_file_system
from neve.model.properties import LAKE_FORMAT, LAKE_FORMAT_PROPERTY
from neve.model.signals import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from neve.lake.spark.exchange import Exchange
    from neve.lake.spark.jars import Jar


@dataclass(frozen=True)
class Lake:
    """The catalog and its tables. Connections open at the first use."""

    lake: LakeConfig = field(default_factory=LakeConfig)
    catalog_config: CatalogConfig = field(default_factory=CatalogConfig)
    s3: S3Config = field(default_factory=S3Config)
    spark_config: SparkConfig = field(default_factory=SparkConfig)
    further_jars: tuple[Jar, ...] = ()
    # Called before a session on a Spark Connect server is opened: another process may have to start it. Its argument
    # raises the reason to give up.
    request_spark: Callable[[Callable[[], None]], None] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog, through pyiceberg."""
        config = self.catalog_config
        properties = pyiceberg_properties(config, self.lake, self.s3)
        if config.kind != "sqlite":
            return self._open_catalog(properties)
        file = sqlite_path(config)
        if not self.exists:
            raise TableMissing(f"there is no lake at {file}", hint="run `neve init`")
        warn_network_file_system(file, "catalog.path")
        if not is_plain_sqlite(config):
            return self._open_catalog(properties)
        light = SqliteCatalog(file, config.name, properties, partial(self._open_catalog, properties))
        return cast("Catalog", light)

    def _open_catalog(self, properties: dict[str, str]) -> Catalog:
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - half a CPU second, for those who read tables

        from neve.lake.commit.snapshot_copy_patch import patch_snapshot_copies  # noqa: PLC0415 - as above

        patch_snapshot_copies()
        config = self.catalog_config
        try:
            return load_catalog(config.name, **properties)
        except Exception as error:
            raise LakeError(
                f"can't open the {config.kind} catalog {config.name!r}: {type(error).__name__}: {_first_line(error)}",
                hint="run `neve doctor` to see what is reachable",
            ) from error

    @property
    def exists(self) -> bool:
        """Return whether the catalog exists. A server is assumed to exist until it does not respond."""
        return self.catalog_config.kind != "sqlite" or sqlite_path(self.catalog_config).exists()

    def create(self) -> None:
        """Create the file of an embedded catalog and a local warehouse. Reading a lake creates nothing.

        Both are private to the user of this process. On a cluster, workers of other users write to the warehouse, and
        the operator decides about its mode.
        """
        if self.catalog_config.kind == "sqlite":
            path = sqlite_path(self.catalog_config)
            with _creation_errors("catalog.path", path):
                make_private_folder(path.parent)
                path.touch(mode=0o600)
        if self.spark_config.is_local and not self.lake.on_s3:
            warehouse = Path(self.lake.location.removeprefix("file://"))
            with _creation_errors("lake.warehouse", warehouse):
                make_private_folder(warehouse)

    @property
    def spark(self) -> SparkSession:
        """Return the Spark session. Start one if there is none."""
        from neve.lake.spark.session import enter_pool  # noqa: PLC0415 - for those who need Spark

        session = self._session
        if not self.spark_config.connect:
            enter_pool(session)
        return session

    def check_spark(self) -> None:
        """Raise `EnvironmentFault` if a local Spark could not start: Java or a jar is missing."""
        from neve.lake.spark.session import find_requirements  # noqa: PLC0415 - as above

        if not self.spark_config.connect:
            find_requirements(self.catalog_config, self.lake, self.further_jars)

    def check_driver(self, work: str) -> None:
        """Raise `ConfigError` if Spark runs behind a Spark Connect server and the work needs a driver in this process.

        Commits that replace files go through Iceberg's Java library, and streams through the JVM of the driver.
        """
        if self.spark_config.connect:
            raise ConfigError(
                f"spark.connect is {self.spark_config.connect!r}: {work} needs a Spark driver in this process",
                hint="set spark.master instead, to a cluster or to local[*]",
            )

    @cached_property
    def _session(self) -> SparkSession:
        from neve.lake.spark.session import build_session  # noqa: PLC0415 - as above

        load_pandas()
        return build_session(self.spark_config, self.catalog_config, self.lake, self.s3, self.further_jars)

    def new_session(self, conf: Mapping[str, str], check: Callable[[], None] = lambda: None) -> SparkSession:
        """Open a separate session with its own settings on the same Spark. The caller closes it.

        `check` may raise an error that ends the wait for a Spark that another process starts.
        """
        from neve.lake.spark.session import (  # noqa: PLC0415 - as above
            open_own_session,
            open_remote_session,
            session_conf,
        )

        if not self.spark_config.connect:
            return open_own_session(self.spark, self.catalog_config, conf)
        if self.request_spark is not None:
            self.request_spark(check)
        load_pandas()
        known = session_conf(self.spark_config, self.catalog_config, self.lake, self.s3)
        return open_remote_session(self.spark_config.connect, {**known, **conf})

    @property
    def exchange(self) -> Exchange:
        """Return the exchange that passes rows between the tasks of a job."""
        from neve.lake.spark.exchange import Exchange  # noqa: PLC0415 - Arrow, for those who run jobs

        return Exchange(self.exchange_folder, self.s3, shared=not self.spark_config.is_local)

    @property
    def exchange_folder(self) -> str:
        """Return the folder of the exchange."""
        if self.lake.exchange:
            return self.lake.exchange
        if self.spark_config.is_local:
            return user_folder("neve-exchange")
        return f"{self.lake.location.removeprefix('file://')}/.exchange"

    def table(self, name: str) -> Table:
        """Load the current state of a table: one of the lake's own by its name, any other as `namespace.table`."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError  # noqa: PLC0415 - as above

        from neve.lake.commit.snapshot_copy_patch import patch_snapshot_copies  # noqa: PLC0415 - as above

        patch_snapshot_copies()
        identifier = parse_table_name(name)
        try:
            found = self.catalog.load_table(identifier)
            check_lake_format(".".join(identifier), found.metadata.properties)
            return found
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise TableMissing(
                f"there is no table {'.'.join(identifier)} in the catalog",
                hint="run `neve init`"
                if identifier[:-1] == (NAMESPACE,)
                else "run `neve tables` to list the tables of the lake",
            ) from error

    def table_metadata(self, name: str, location: str | None = None) -> Table:
        """Load the current state of a table of the lake, for readers of its metadata and manifests alone.

        If it is on this machine, pyiceberg is imported only by attributes that need more than the metadata. `location`
        is that of the metadata, if the caller has just read it from the catalog.
        """
        catalog = self.catalog
        if not isinstance(catalog, SqliteCatalog):
            return self.table(name)
        location = location or catalog.metadata_locations(NAMESPACE).get(name)
        if location is None:
            return self.table(name)
        try:
            local = LocalTable((NAMESPACE, name), location, partial(self.table, name), catalog.properties)
        except UNREADABLE:
            return self.table(name)
        return cast("Table", local)

    def table_names(self) -> list[str]:
        """List the tables of the namespace, in order."""
        from pyiceberg.exceptions import NoSuchNamespaceError  # noqa: PLC0415 - as above

        if not self.exists:
            return []
        try:
            return sorted(name for *_, name in self.catalog.list_tables(NAMESPACE))
        except NoSuchNamespaceError:
            return []

    def metadata_locations(self) -> dict[str, str]:
        """Return the metadata location of each table of the namespace. Empty if the catalog can't list them."""
        if isinstance(self.catalog, SqliteCatalog):
            return self.catalog.metadata_locations(NAMESPACE)
        if self.catalog_config.kind != "postgres":
            return {}
        from pyiceberg.catalog.sql import IcebergTables, SqlCatalog  # noqa: PLC0415 - SQLAlchemy, for this catalog
        from sqlalchemy import select  # noqa: PLC0415 - as above

        if not isinstance(self.catalog, SqlCatalog):
            return {}
        statement = select(IcebergTables.table_name, IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == self.catalog.name, IcebergTables.table_namespace == NAMESPACE
        )
        with self.catalog.engine.connect() as connection:
            return {name: place for name, place in connection.execute(statement) if place is not None}

    def spark_name(self, name: str) -> str:
        """Return the name of a table in Spark SQL."""
        return ".".join((self.catalog_config.name, *(f"`{part}`" for part in parse_table_name(name))))


@contextmanager
def _creation_errors(key: str, path: Path) -> Iterator[None]:
    """Raise `LakeError` with the setting that names the path if it can't be created."""
    try:
        yield
    except OSError as error:
        raise LakeError(
            f"can't create {path} ({key}): {error.strerror or error}",
            hint=f"run `neve init` in a folder that you may write to, or set {key} in neve.yaml to a path in one",
        ) from error


def check_lake_format(name: str, properties: Mapping[str, str]) -> None:
    """Raise `LakeError` for a table that a newer release has changed in a way that this one would misread."""
    found = properties.get(LAKE_FORMAT_PROPERTY, "1")
    if not found.isdecimal() or int(found) > LAKE_FORMAT:
        raise LakeError(
            f"{name} has format {found} of a newer release, expected at most {LAKE_FORMAT}",
            hint="use the release that ran `neve init` on this lake last",
        )


def parse_table_name(name: str) -> tuple[str, ...]:
    """Parse a user's name of a table into an identifier."""
    return tuple(name.split(".")) if "." in name else (NAMESPACE, name)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
