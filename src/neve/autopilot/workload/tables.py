"""Schemas and views by name: resolve the tables and columns that queries mention."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.types import ListType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

SYSTEM_SCHEMAS = {"information_schema", "system", "pg_catalog", "_table_function"}
METADATA_TABLES = {
    *("files", "snapshots", "history", "manifests", "entries", "partitions", "refs", "metadata_log_entries"),
    *("position_deletes", "data_files", "delete_files", "all_files", "all_data_files", "all_delete_files"),
    *("all_manifests", "all_entries", "properties"),
}


@dataclass(frozen=True)
class View:
    """The definition of a view."""

    text: str
    dialect: str


@dataclass(frozen=True)
class SearchPath:
    """The default schema and catalog of a query.

    If `ours` is set, only tables of that catalog are ours.
    """

    schema: str = ""
    catalog: str = ""
    ours: str = ""


@dataclass(frozen=True)
class Tables:
    """Schemas and views by namespace and name.

    For other tables only the text of the query is used.
    """

    schemas: Mapping[str, Schema] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)

    @cached_property
    def _names(self) -> dict[str, str]:
        return {name.lower(): name for name in (*self.views, *self.schemas)}

    @cached_property
    def _by_last_part(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key, name in self._names.items():
            found.setdefault(key.rpartition(".")[2], []).append(name)
        return found

    def resolve(self, parts: Sequence[str], home: SearchPath) -> str | None:
        """Return the name of a table without its catalog; `None` for a table that is not ours or contains metadata."""
        written = [part for one in parts for part in one.split(".")]
        full = [home.schema, *written] if len(written) == 1 and home.schema else written
        if self._is_metadata(full):
            return None
        known = self._find(full)
        if known is not None:
            return known
        if len(full) > 2:
            return None if home.ours and full[0].lower() != home.ours.lower() else ".".join(full[1:])
        if home.ours and home.catalog and home.catalog.lower() != home.ours.lower():
            return None
        return ".".join(full)

    def schema(self, table: str) -> Schema | None:
        """Return the schema of a table, if it is known."""
        return self.schemas.get(table)

    def view(self, table: str) -> View | None:
        """Return a view by name, or `None`."""
        return self.views.get(table)

    def columns(self, table: str) -> frozenset[str] | None:
        """Return the columns of a table in lower case, if they are known."""
        schema = self.schemas.get(table)
        return None if schema is None else frozenset(one.name.lower() for one in schema.fields)

    def path(self, table: str, parts: Sequence[str]) -> tuple[tuple[str, ...], IcebergType | None]:
        """Return a column or a nested field in the spelling of the table, and its type."""
        schema = self.schemas.get(table)
        if schema is None:
            return tuple(parts), None
        spelled: list[str] = []
        within: IcebergType = schema.as_struct()
        for part in parts:
            found = next((one for one in _struct_fields(within) if one[0].lower() == part.lower()), None)
            if found is None:
                return (*spelled, *parts[len(spelled) :]), None
            spelled.append(found[0])
            within = found[1]
        return tuple(spelled), within

    def _find(self, parts: Sequence[str]) -> str | None:
        for start in range(len(parts)):
            found = self._names.get(".".join(parts[start:]).lower())
            if found is not None:
                return found
        alone = self._by_last_part.get(parts[0].lower(), []) if len(parts) == 1 else []
        return alone[0] if len(alone) == 1 else None

    def _is_metadata(self, parts: Sequence[str]) -> bool:
        if "$" in parts[-1] or any(part.lower() in SYSTEM_SCHEMAS for part in parts[:-1]):
            return True
        if len(parts) < 2 or parts[-1].lower() not in METADATA_TABLES or self._find(parts) is not None:
            return False
        return len(parts) > 3 or self._find(parts[:-1]) is not None


def format_map_key(map_column: str, key: str) -> str:
    """Return the column name of a map's key.

    >>> format_map_key("attributes", "http.route")
    "attributes['http.route']"
    """
    return f"{map_column}['{key.replace(chr(39), chr(39) * 2)}']"


def _struct_fields(of: IcebergType) -> list[tuple[str, IcebergType]]:
    if isinstance(of, StructType):
        return [(one.name, one.field_type) for one in of.fields]
    if isinstance(of, ListType):
        return [("element", of.element_type)]
    if isinstance(of, MapType):
        return [("key", of.key_type), ("value", of.value_type)]
    return []
