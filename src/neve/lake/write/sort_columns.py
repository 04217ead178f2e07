"""The columns of a sort order that Neve sorts files by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import IdentityTransform

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder


def find_sort_columns(schema: Schema, order: SortOrder) -> list[str]:
    """Return the leading columns of a sort order with identity transform, ascending, nulls first."""
    names = []
    for field in order.fields:
        name = schema.find_column_name(field.source_id)
        rising = field.direction is SortDirection.ASC and field.null_order is NullOrder.NULLS_FIRST
        if name is None or "." in name or not rising or not isinstance(field.transform, IdentityTransform):
            break
        names.append(name)
    return names


def is_fully_sorted(schema: Schema, order: SortOrder) -> bool:
    """Return whether `layout.split_partitions` sorts by the whole sort order, so that a file may declare it."""
    return len(find_sort_columns(schema, order)) == len(order.fields)
