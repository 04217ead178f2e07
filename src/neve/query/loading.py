"""Tables as they are now, without reading again what is known.

A catalog in a database tells with one statement where the metadata of every table is. Metadata is never changed where
it is: a table whose place is the same is the same. Other catalogs hand the metadata out themselves, each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from sqlalchemy import select

from neve.model.tables import NAMESPACE
from neve.query.failures import FilesGone, planning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from neve.lake.lake import Lake


class Loader:
    """Looks at a lake's catalog, from any thread; of every table, the newest metadata that was asked for is kept."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._kept: dict[str, Table] = {}

    def look(self) -> Look:
        """The tables as they are at this moment."""
        return Look(self, self._places())

    def load(self, name: str, place: str | None) -> Table:
        """A table whose metadata is at a place; none is a place that the catalog does not tell."""
        kept = self._kept.get(name)
        if place is not None and kept is not None and kept.metadata_location == place:
            return kept
        try:
            table = self._read(name)
        except FilesGone:  # it was changed between two looks: the catalog has another place by now
            table = self._read(name)
        self._kept[name] = table
        return table

    def _read(self, name: str) -> Table:
        with planning():
            return self._lake.table(name)

    def _places(self) -> Mapping[str, str]:
        catalog = self._lake.catalog
        if not isinstance(catalog, SqlCatalog):
            return {}
        asked = select(IcebergTables.table_name, IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == catalog.name, IcebergTables.table_namespace == NAMESPACE
        )
        with planning(), catalog.engine.connect() as connection:
            return {name: place for name, place in connection.execute(asked) if place is not None}


class Look:
    """One look at the catalog: a table that is asked for twice is the same one both times."""

    def __init__(self, loader: Loader, places: Mapping[str, str]) -> None:
        self._loader = loader
        self._places = places
        self._tables: dict[str, Table] = {}

    def table(self, name: str) -> Table:
        """A table; raises `TableMissing`."""
        if name not in self._tables:
            self._tables[name] = self._loader.load(name, self._places.get(name))
        return self._tables[name]
