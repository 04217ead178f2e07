"""The columns of a sort order that Neve sorts files by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.transforms import IdentityTransform

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder

# The values of pyiceberg's `SortDirection.ASC` and `NullOrder.NULLS_FIRST`, whose import takes 0.2 CPU seconds.
ASCENDING, NULLS_FIRST = "asc", "nulls-first"


def find_sort_columns(schema: Schema, order: SortOrder) -> list[str]:
    """Return the leading columns of a sort order with identity transform, ascending, nulls first."""
    names = []
    for field in order.fields:
        name = schema.find_column_name(field.source_id)
        rising = field.direction.value == ASCENDING and field.null_order.value == NULLS_FIRST
        if name is None or "." in name or not rising or not isinstance(field.transform, IdentityTransform):
            break
        names.append(name)
    return names


def is_fully_sorted(schema: Schema, order: SortOrder) -> bool:
    """Return whether `layout.split_partitions` sorts by the whole sort order, so that a file may declare it."""
    return len(find_sort_columns(schema, order)) == len(order.fields)
