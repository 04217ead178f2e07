"""Tenancy: check that a table names the organization of each row, and find the organization that owns a whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from neve.errors import QueryError
from neve.model.tables import ORGANIZATION

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from neve.lake.read.manifest_cache import FileEntry

TENANT = ORGANIZATION.name
WHOLE_BYTES = 15  # a longer bound may have been truncated


def has_tenant(schema: Schema) -> bool:
    """Return whether rows name their organization.

    One text column must have the exact name, and none the same name in another case.
    """
    alike = [field for field in schema.fields if field.name.lower() == TENANT]
    return len(alike) == 1 and alike[0].name == TENANT and isinstance(alike[0].field_type, StringType)


def check_tenant(schema: Schema, table: str) -> None:
    """Raise `QueryError` for a table whose rows do not name their organization."""
    if not has_tenant(schema):
        raise QueryError(
            f"the table {table} has no text column {TENANT}, so its rows belong to no organization",
            hint=f"query a table with a text column {TENANT}",
        )


def check_snapshot(table: Table, snapshot_id: int | None) -> None:
    """Raise `QueryError` if `organization_id` was another column in the schema of a snapshot than it is today.

    Spark reads a snapshot with the schema of its time.
    """
    snapshot = table.snapshot_by_id(snapshot_id) if snapshot_id is not None else None
    schemas = table.schemas()
    then = schemas.get(snapshot.schema_id) if snapshot is not None and snapshot.schema_id is not None else None
    if then is None:
        return
    name = table.name()[-1]
    check_tenant(then, name)
    if then.find_field(TENANT).field_id != table.schema().find_field(TENANT).field_id:
        raise QueryError(
            f"the column {TENANT} of {name} is another one than at its last snapshot, which Spark would read",
            hint="retry after the next write to the table",
        )


class FileOwners:
    """Finder of the organization that owns all rows of a file.

    Rows are separated by organization if a table is partitioned by the identity of that column: in Iceberg, the
    partition value then is the column's value. A file whose column bounds or null counts contradict this has no owner
    here. Neither has a file of a table with another partitioning. The rows of such files must be checked.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        schema = metadata.schema()
        self._column = schema.find_field(TENANT).field_id if TENANT in schema.column_names else None
        self._places = {
            spec.spec_id: place
            for spec in metadata.partition_specs
            for place, part in enumerate(spec.fields)
            if part.source_id == self._column and isinstance(part.transform, IdentityTransform)
        }

    def of(self, entry: FileEntry) -> str | None:
        """Return the organization that owns all rows of a file, or `None` if that is not certain."""
        place = self._places.get(entry.spec_id)
        owner = entry.partition[place] if place is not None and place < len(entry.partition) else None
        return owner if isinstance(owner, str) and not self._is_denied(entry, owner) else None

    def _is_denied(self, entry: FileEntry, owner: str) -> bool:
        """Return whether the column's statistics contradict the partition."""
        if self._column is None or entry.null_value_counts.get(self._column):
            return True
        told = owner.encode()
        lower, upper = entry.lower_bounds.get(self._column), entry.upper_bounds.get(self._column)
        fits_lower = lower in (None, told) or (_may_be_truncated(lower) and told.startswith(lower))
        fits_upper = upper in (None, told) or (_may_be_truncated(upper) and told < upper)
        return not (fits_lower and fits_upper)


def _may_be_truncated(bound: bytes) -> bool:
    return len(bound) > WHOLE_BYTES
