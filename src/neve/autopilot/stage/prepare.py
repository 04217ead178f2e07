"""What a table's metadata must have before its files can be rewritten: a spec that is not the default, new columns.

Neither changes what main holds. A new column is null there until the merge, and a spec that is not the default is used
by nobody but those who name it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    SetCurrentSchemaUpdate,
)
from pyiceberg.types import NestedField

from neve.autopilot.stage.shape import new_columns, order_for, spec_for
from neve.lake.layout import sorts_fully
from neve.lake.metadata_commit import MetadataChange, commit_metadata

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from neve.autopilot.layout import Promoted
    from neve.autopilot.stage.record import Record
    from neve.lake.lake import Lake


def stage_metadata(lake: Lake, record: Record) -> Record:
    """Give the table what the layout needs and it lacks; the record then says what that was."""
    commit_metadata(lake, record.table, lambda found: _with_columns(found, record.layout.promoted))
    metadata = commit_metadata(lake, record.table, lambda found: _with_spec(found, record)).metadata
    before = next((one for one in metadata.schemas if one.schema_id == record.before.schema_id), metadata.schema())
    return record.changed(
        schema_id=metadata.current_schema_id if new_columns(before, record.layout.promoted) else None,
        spec_id=spec_for(metadata, record.layout.partition).spec_id,
        order_id=order_id_of(metadata, record),
    )


def order_id_of(metadata: TableMetadata, record: Record) -> int:
    """The sort order that rewritten files have: none where they lie along a curve or by a part of the order only."""
    if record.layout.zorder or not (record.sets_order or sorts_fully(metadata.schema(), metadata.sort_order())):
        return 0
    return order_for(metadata, record.layout.sort).order_id


def _with_columns(table: Table, promoted: tuple[Promoted, ...]) -> MetadataChange | None:
    metadata = table.metadata
    columns = new_columns(metadata.schema(), promoted)
    if not columns:
        return None
    sources = {one.name: one.source for one in promoted}
    fields = [
        NestedField(metadata.last_column_id + number, name, kind, required=False, doc=f"the value of {sources[name]}")
        for number, (name, kind) in enumerate(columns.items(), 1)
    ]
    newest = max(schema.schema_id for schema in metadata.schemas)
    schema = Schema(
        *metadata.schema().fields,
        *fields,
        schema_id=newest + 1,
        identifier_field_ids=metadata.schema().identifier_field_ids,
    )
    return MetadataChange(
        (AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=-1)),
        (
            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
            AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),
        ),
    )


def _with_spec(table: Table, record: Record) -> MetadataChange | None:
    metadata = table.metadata
    spec = spec_for(metadata, record.layout.partition)
    if spec.spec_id in {one.spec_id for one in metadata.partition_specs}:
        return None
    last = metadata.last_partition_id
    requirements = () if last is None else (AssertLastAssignedPartitionId(last_assigned_partition_id=last),)
    return MetadataChange((AddPartitionSpecUpdate(spec=spec),), requirements)
