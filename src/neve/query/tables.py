"""The tables of the lake as queries see them: names, columns and statistics, and a consistent view of the catalog.

A SQL catalog returns the metadata location of every table with one statement. Metadata files never change, so a table
whose location is the same is not loaded again. Other catalogs return the metadata itself, each time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.errors import TableMissing
from neve.lake.arrow_types import to_arrow_schema
from neve.query.engine_errors import FilesMissing, planning_errors
from neve.query.planning.file_planner import time_span
from neve.query.planning.tenancy import check_tenant, has_tenant
from neve.query.sql.identifiers import tables_hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    import pyarrow as pa
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.query.planning.file_planner import FilePlanner


# A SQL catalog returns the metadata location of every table with one statement. Metadata files never change: a table
# with the same location is the same. Other catalogs return the metadata itself, each time.


class TableLoader:
    """Loader of tables from a lake's catalog. Thread-safe. It caches the newest requested metadata of every table."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._kept: dict[str, Table] = {}

    def look(self) -> CatalogView:
        """Return a view of the current tables."""
        return CatalogView(self, self._places())

    def load(self, name: str, place: str | None) -> Table:
        """Return a table, cached if its metadata location is unchanged.

        `None` is a location that the catalog doesn't report.
        """
        kept = self._kept.get(name)
        if place is not None and kept is not None and kept.metadata_location == place:
            return kept
        try:
            table = self._read(name, place)
        except FilesMissing:  # it changed since the view was made: the catalog has a newer location
            table = self._read(name)
        self._kept[name] = table
        return table

    def _read(self, name: str, place: str | None = None) -> Table:
        with planning_errors():
            return self._lake.table_metadata(name, place)

    def _places(self) -> Mapping[str, str]:
        with planning_errors():
            return self._lake.metadata_locations()


class CatalogView:
    """A consistent view of the catalog: each request for a table returns the same version."""

    def __init__(self, loader: TableLoader, places: Mapping[str, str]) -> None:
        self._loader = loader
        self._places = places
        self._tables: dict[str, Table] = {}

    def table(self, name: str) -> Table:
        """Return a table. Raises `TableMissing`."""
        if name not in self._tables:
            self._tables[name] = self._loader.load(name, self._places.get(name))
        return self._tables[name]


class ArrowSchemas(Mapping[str, "pa.Schema"]):
    """Columns of each table of a view. A statement names few of the tables, so each is loaded when it is named."""

    def __init__(self, names: Iterable[str], look: CatalogView) -> None:
        self._schemas: dict[str, pa.Schema | None] = dict.fromkeys(names)
        self._look = look

    def __getitem__(self, name: str) -> pa.Schema:
        schema = self._schemas[name]
        if schema is None:
            schema = self._schemas[name] = to_arrow_schema(self._look.table(name).schema())
        return schema

    def __contains__(self, name: object) -> bool:
        return name in self._schemas

    def __iter__(self) -> Iterator[str]:
        return iter(self._schemas)

    def __len__(self) -> int:
        return len(self._schemas)


NAMES_SECONDS = 30  # columns and names change only with software


@dataclass(frozen=True)
class ColumnFacts:
    """One column."""

    name: str
    type: str
    comment: str
    required: bool


@dataclass(frozen=True)
class TableFacts:
    """Facts about a table for users. Numbers are of the organization's own files, including deleted rows."""

    name: str
    comment: str
    rows: int
    files: int
    bytes: int
    snapshot: int | None
    earliest: datetime | None
    latest: datetime | None
    columns: tuple[ColumnFacts, ...]


class LakeTables:
    """Tables of a lake. Names and columns are cached for a while. Tables of a query are always loaded."""

    def __init__(self, lake: Lake, planner: FilePlanner) -> None:
        self._lake = lake
        self._loader = TableLoader(lake)
        self._planner = planner
        self._schemas: Mapping[str, pa.Schema] = {}
        self._until = 0.0
        self._lock = threading.Lock()

    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the columns of each table."""
        with self._lock:
            if time.monotonic() > self._until:
                names = self._lake.table_names()
                look = self.look() if names else None
                self._schemas = ArrowSchemas(names, look) if look else {}
                self._until = time.monotonic() + NAMES_SECONDS
            if not self._schemas:
                self._until = 0.0
                raise TableMissing("the lake has no tables", hint="run `neve init`")
            return self._schemas

    def names(self) -> tuple[str, ...]:
        """Return the tables that can be queried: those whose rows name their organization."""
        known, look = self.schemas(), self.look()
        return tuple(name for name in known if has_tenant(look.table(name).schema()))

    def look(self) -> CatalogView:
        """Return a view of the current tables."""
        return self._loader.look()

    def facts(self, name: str, organization: str) -> TableFacts:
        """Return everything that an organization may know about a table."""
        if name not in self.schemas():
            raise TableMissing(f"there is no table {name}", hint=tables_hint(name, self.schemas()))
        table = self.look().table(name)
        check_tenant(table.schema(), name)
        files = self._planner.find_owned_files(table, organization)
        earliest, latest = time_span(table.schema(), files)
        return TableFacts(
            name=name,
            comment=table.properties.get("comment", ""),
            rows=sum(file.record_count for file in files),
            files=len(files),
            bytes=sum(file.file_size_in_bytes for file in files),
            snapshot=table.metadata.current_snapshot_id,
            earliest=earliest,
            latest=latest,
            columns=tuple(
                ColumnFacts(field.name, str(field.field_type), field.doc or "", field.required)
                for field in table.schema().fields
            ),
        )
