"""The lake: one catalog, reached with and without a JVM."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from neve.errors import LakeError, TableMissing
from neve.lake.catalog import pyiceberg_properties, sqlite_path
from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.exchange import Exchange
from neve.lake.mounts import warn_of_network
from neve.lake.private_folders import make_private, user_folder
from neve.lake.remote import open_remote
from neve.lake.session import build_session, own_session, session_conf
from neve.lake.sharing import share_snapshots
from neve.model.tables import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from neve.lake.jars import Jar


@dataclass(frozen=True)
class Lake:
    """Where the tables are; nothing is opened before it is used."""

    lake: LakeConfig = field(default_factory=LakeConfig)
    catalog_config: CatalogConfig = field(default_factory=CatalogConfig)
    s3: S3Config = field(default_factory=S3Config)
    spark_config: SparkConfig = field(default_factory=SparkConfig)
    further_jars: tuple[Jar, ...] = ()

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog, through pyiceberg."""
        share_snapshots()
        config = self.catalog_config
        properties = pyiceberg_properties(config, self.lake, self.s3)
        if not self.exists:
            raise TableMissing(f"there is no lake at {sqlite_path(config)}", hint="run `neve init`")
        if config.kind == "sqlite":
            warn_of_network(sqlite_path(config), "catalog.path")
        try:
            return load_catalog(config.name, **properties)
        except Exception as error:
            raise LakeError(
                f"can't open the {config.kind} catalog {config.name!r}: {type(error).__name__}: {_first_line(error)}",
                hint="`neve doctor` says what is reachable",
            ) from error

    @property
    def exists(self) -> bool:
        """Whether there is a catalog to look at; a server is taken to be there until it does not answer."""
        return self.catalog_config.kind != "sqlite" or sqlite_path(self.catalog_config).exists()

    def create(self) -> None:
        """Make the file of an embedded catalog and a local warehouse; looking at a lake makes nothing.

        Both are for the user of this process alone. On a cluster, workers of other users write to the warehouse, and
        whoever runs it decides about its mode.
        """
        if self.catalog_config.kind == "sqlite":
            path = sqlite_path(self.catalog_config)
            make_private(path.parent)
            path.touch(mode=0o600)
        if self.spark_config.is_local and not self.lake.on_s3:
            make_private(Path(self.lake.location.removeprefix("file://")))

    @cached_property
    def spark(self) -> SparkSession:
        """The Spark session; starts one when there is none."""
        return build_session(self.spark_config, self.catalog_config, self.lake, self.s3, self.further_jars)

    def new_session(self, conf: Mapping[str, str]) -> SparkSession:
        """A session with settings of its own, beside all others on the same Spark; whoever asks closes it."""
        if not self.spark_config.connect:
            return own_session(self.spark, self.catalog_config, conf)
        known = session_conf(self.spark_config, self.catalog_config, self.lake, self.s3)
        return open_remote(self.spark_config.connect, {**known, **conf})

    @property
    def exchange(self) -> Exchange:
        """Where the tasks of a job hand each other rows."""
        config, local = self.lake, self.spark_config.is_local
        folder = config.exchange or (
            user_folder("neve-exchange") if local else f"{config.location.removeprefix('file://')}/.exchange"
        )
        return Exchange(folder, self.s3, shared=not local)

    def table(self, name: str) -> Table:
        """A table as it is now: one of the lake's own by its name, any other of the catalog as `namespace.table`."""
        identifier = identify(name)
        try:
            return self.catalog.load_table(identifier)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise TableMissing(
                f"there is no table {'.'.join(identifier)} in the catalog",
                hint="run `neve init`" if identifier[:-1] == (NAMESPACE,) else "`neve tables` lists the lake's own",
            ) from error

    def table_names(self) -> list[str]:
        """The tables of the namespace, in order."""
        if not self.exists:
            return []
        try:
            return sorted(name for *_, name in self.catalog.list_tables(NAMESPACE))
        except NoSuchNamespaceError:
            return []

    def spark_name(self, name: str) -> str:
        """The name of a table in Spark SQL."""
        return ".".join((self.catalog_config.name, *(f"`{part}`" for part in identify(name))))


def identify(name: str) -> tuple[str, ...]:
    """The identifier that a user's name of a table stands for."""
    return tuple(name.split(".")) if "." in name else (NAMESPACE, name)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
