"""The SQLite catalog, read through Python's own driver and changed through pyiceberg.

Most commands only look up where the metadata of tables is. That is one statement, and takes less than the import of
SQLAlchemy, which pyiceberg's catalog needs. Everything but these lookups is passed on to that catalog.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from neve.lake.catalog import BUSY_TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from neve.lake.config import CatalogConfig

    Identifier = tuple[str, ...]

LOCATIONS = """
SELECT table_name, metadata_location FROM iceberg_tables
WHERE catalog_name = ? AND table_namespace = ? AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"""
NAMESPACES = """
SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ?
UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?"""


OWN_CATALOG_KEYS = {"type", "uri", "py-catalog-impl"}


def is_plain_sqlite(config: CatalogConfig) -> bool:
    """Return whether the catalog is the configured file, and no property names another database or class."""
    return config.kind == "sqlite" and not OWN_CATALOG_KEYS & config.properties.keys()


class SqliteCatalog:
    """Catalog in an SQLite file. It has all attributes of pyiceberg's, which it opens when one of them is needed."""

    def __init__(self, file: Path, name: str, properties: dict[str, str], open_whole: Callable[[], Catalog]) -> None:
        self.file = file
        self.name = name
        self.properties = properties
        self._open_whole = open_whole

    @cached_property
    def whole(self) -> Catalog:
        """The catalog of pyiceberg. Raises `LakeError` if it can't be opened."""
        return self._open_whole()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a protocol of Python, such as copying
            raise AttributeError(name)
        return getattr(self.whole, name)

    def metadata_locations(self, namespace: str) -> dict[str, str]:
        """Return the metadata location of each table of a namespace."""
        return {name: place for name, place in self._rows(LOCATIONS, self.name, namespace) if place}

    def supports_server_side_planning(self) -> bool:
        """Return whether the catalog plans scans: a file does not."""
        return False

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """List the tables of a namespace."""
        parts = _to_parts(namespace)
        found = [(*parts, name) for name, _place in self._rows(LOCATIONS, self.name, ".".join(parts))]
        return found or self.whole.list_tables(namespace)  # which knows whether the namespace exists

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """List the namespaces below another one, or at the top."""
        if namespace:
            return self.whole.list_namespaces(namespace)
        return list({(name.split(".")[0],) for (name,) in self._rows(NAMESPACES, self.name, self.name)})

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load the current state of a table."""
        *above, name = _to_parts(identifier)
        location = self.metadata_locations(".".join(above)).get(name)
        return self._read_table((*above, name), location) if location else self.whole.load_table(identifier)

    def _read_table(self, identifier: Identifier, location: str) -> Table:
        from pyiceberg.io import load_file_io  # noqa: PLC0415 - lookups of locations don't need pyiceberg
        from pyiceberg.serializers import FromInputFile  # noqa: PLC0415 - as above
        from pyiceberg.table import Table  # noqa: PLC0415 - as above

        metadata = FromInputFile.table_metadata(load_file_io(self.properties, location).new_input(location))
        io = load_file_io({**self.properties, **metadata.properties}, location)
        return Table(identifier, metadata, location, io, cast("Catalog", self))

    def _rows(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        """Run a lookup. A catalog of an older schema, or without tables, is brought up to date by pyiceberg first."""
        try:
            return self._run(statement, values)
        except sqlite3.Error:
            self.whole  # noqa: B018 - opened for its effect, and to report what is wrong with the file
        return self._run(statement, values)

    def _run(self, statement: str, values: tuple[str, ...]) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.file, timeout=BUSY_TIMEOUT_MS / 1000)) as connection:
            return connection.execute(statement, values).fetchall()


def _to_parts(identifier: str | Identifier) -> Identifier:
    return tuple(identifier.split(".")) if isinstance(identifier, str) else tuple(identifier)
