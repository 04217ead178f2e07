"""The layout that a table has now, as its metadata says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.transforms import VoidTransform

from neve.autopilot.layout import Layout, PartField
from neve.lake.layout import sort_columns
from neve.model.columns import (
    BLOOM_FILTER_PREFIX,
    LAYOUT_ZORDER,
    TARGET_FILE_SIZE_BYTES,
    TARGET_FILE_SIZE_BYTES_DEFAULT,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table


def current_layout(table: Table) -> Layout:
    """The default partition spec, the z-order or sort order, bloom filters and target size."""
    schema, properties = table.schema(), table.properties
    zorder = tuple(name.strip() for name in properties.get(LAYOUT_ZORDER, "").split(",") if name.strip())
    return Layout(
        partition=tuple(
            PartField(str(schema.find_column_name(field.source_id)), str(field.transform))
            for field in table.spec().fields
            if not isinstance(field.transform, VoidTransform)
        ),
        sort=() if zorder else tuple(sort_columns(schema, table.sort_order())),
        zorder=zorder,
        blooms=tuple(
            sorted(
                name.removeprefix(BLOOM_FILTER_PREFIX)
                for name, value in properties.items()
                if name.startswith(BLOOM_FILTER_PREFIX) and value == "true"
            )
        ),
        target_file_bytes=target_bytes(table),
    )


def table_bytes(table: Table) -> int:
    """The bytes of the table's files, as the summary of its snapshot says."""
    snapshot = table.current_snapshot()
    totals = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    return int(totals.get("total-files-size", 0))


def target_bytes(table: Table) -> int:
    """The size that the table's files should have."""
    return int(table.properties.get(TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES_DEFAULT))
