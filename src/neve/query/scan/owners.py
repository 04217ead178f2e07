"""Whose rows a file holds, where the table's metadata settles that."""

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

    from neve.query.scan.manifests import Entry

TENANT = ORGANIZATION.name
WHOLE_BYTES = 15  # a bound that is longer may have been cut off


def has_tenant(schema: Schema) -> bool:
    """Whether rows say whose they are: one text column is called so exactly, and none the same in another case."""
    alike = [field for field in schema.fields if field.name.lower() == TENANT]
    return len(alike) == 1 and alike[0].name == TENANT and isinstance(alike[0].field_type, StringType)


def check_tenant(schema: Schema, table: str) -> None:
    """Raise `QueryError` for a table of which nobody can say whose rows are whose."""
    if not has_tenant(schema):
        raise QueryError(
            f"the table {table} has no column {TENANT} of text, so nobody's rows can be told apart",
            hint=f"only tables with a column {TENANT} can be asked",
        )


def check_snapshot(table: Table, snapshot_id: int | None) -> None:
    """Raise `QueryError` where a snapshot's own columns call another one than today's `organization_id` so.

    Spark reads a snapshot with the columns of its time.
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
            hint="ask again when the table was written to",
        )


class Owners:
    """Tells the one organization of all rows of a file.

    Rows are apart by organization where a table is partitioned by it as it is: to Iceberg, the value of the partition
    is the value of the column. A file whose column bounds or nulls say anything else has no owner here, and neither
    has one of a table that is partitioned in another way: their rows have to be looked at.
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

    def of(self, entry: Entry) -> str | None:
        """The organization that all rows of a file belong to; `None` where that is not certain."""
        place = self._places.get(entry.spec_id)
        owner = entry.partition[place] if place is not None and place < len(entry.partition) else None
        return owner if isinstance(owner, str) and not self._is_denied(entry, owner) else None

    def _is_denied(self, entry: Entry, owner: str) -> bool:
        """Whether what is known of the column speaks against the partition."""
        if self._column is None or entry.null_value_counts.get(self._column):
            return True
        told = owner.encode()
        lower, upper = entry.lower_bounds.get(self._column), entry.upper_bounds.get(self._column)
        fits_lower = lower in (None, told) or (_may_be_cut(lower) and told.startswith(lower))
        fits_upper = upper in (None, told) or (_may_be_cut(upper) and told < upper)
        return not (fits_lower and fits_upper)


def _may_be_cut(bound: bytes) -> bool:
    return len(bound) > WHOLE_BYTES
