"""Start of an attempt: check the request, choose its files, and add the spec and columns that it needs.

None of this changes what main returns: a new column is null there until the merge, and a spec that is not the default
is used only by writers that name it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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

from neve.autopilot.attempt import BranchState, PreviousLayout, StagedBranch
from neve.autopilot.estimate.file_pruning import find_files_read
from neve.autopilot.rollout.stage_files import FileShape, format_selection, list_data_files, select_files
from neve.autopilot.table_layout import (
    current_layout,
    diff_properties,
    find_new_columns,
    resolve_partition_spec,
    resolve_sort_order,
)
from neve.errors import ConfigError, LakeError
from neve.lake.commit.branches import MAIN_BRANCH, branch_name, find_ref_snapshot
from neve.lake.commit.metadata import MetadataChange, commit_metadata
from neve.lake.read.history import list_ancestors
from neve.lake.write.sort_columns import is_fully_sorted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from neve.autopilot.layout import Layout, Promoted
    from neve.lake.lake import Lake
    from neve.predicate.filters import Filter


def stage_metadata(lake: Lake, record: StagedBranch) -> StagedBranch:
    """Add the columns and the spec that the layout needs and the table lacks, and record them."""
    commit_metadata(lake, record.table, lambda found: _add_columns(found, record.layout.promoted))
    metadata = commit_metadata(lake, record.table, lambda found: _add_spec(found, record)).metadata
    before = next((one for one in metadata.schemas if one.schema_id == record.before.schema_id), metadata.schema())
    return record.update(
        schema_id=metadata.current_schema_id if find_new_columns(before, record.layout.promoted) else None,
        spec_id=resolve_partition_spec(metadata, record.layout.partition).spec_id,
        order_id=find_order_id(metadata, record),
    )


def find_order_id(metadata: TableMetadata, record: StagedBranch) -> int:
    """Return the sort order of rewritten files: none if they are z-ordered or only partly sorted."""
    if record.layout.zorder or not (record.sets_order or is_fully_sorted(metadata.schema(), metadata.sort_order())):
        return 0
    return resolve_sort_order(metadata, record.layout.sort).order_id


def _add_columns(table: Table, promoted: tuple[Promoted, ...]) -> MetadataChange | None:
    metadata = table.metadata
    columns = find_new_columns(metadata.schema(), promoted)
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


def _add_spec(table: Table, record: StagedBranch) -> MetadataChange | None:
    metadata = table.metadata
    spec = resolve_partition_spec(metadata, record.layout.partition)
    if spec.spec_id in {one.spec_id for one in metadata.partition_specs}:
        return None
    last = metadata.last_partition_id
    requirements = () if last is None else (AssertLastAssignedPartitionId(last_assigned_partition_id=last),)
    return MetadataChange((AddPartitionSpecUpdate(spec=spec),), requirements)


@dataclass(frozen=True)
class StageRequest:
    """Request for a layout of a table; if `files` is given, only these are rewritten.

    With `filters`, the filters of queries on the table, the files that gain are selected when the attempt begins.
    """

    attempt_id: str
    table: str
    layout: Layout
    files: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    filters: tuple[Filter, ...] | None = None


def begin_attempt(table: Table, change: StageRequest) -> StagedBranch:
    """Create a new attempt.

    Raises an error if the change is impossible or changes nothing.
    """
    base, metadata = _find_base(table, change), table.metadata
    before = current_layout(table)
    if change.layout == before and not change.properties:
        raise ConfigError(f"{change.table} already has this layout: {change.layout}")
    if change.files is not None and change.layout.promoted:
        raise ConfigError(
            f"{change.table} gets new columns, but only {len(change.files)} files were named, expected all files",
            hint="a column that only some files have would give wrong results",
        )
    properties = diff_properties(before, change.layout, change.properties)
    record = StagedBranch(
        id=change.attempt_id,
        table=change.table,
        state=BranchState.STAGING,
        branch=branch_name(change.attempt_id),
        base=base,
        layout=change.layout,
        properties=properties,
        before=PreviousLayout(
            metadata.current_schema_id,
            metadata.default_spec_id,
            metadata.default_sort_order_id,
            tuple(spec.spec_id for spec in metadata.partition_specs),
            {key: table.properties.get(key) for key in properties},
        ),
        files=change.files,
        sets_order=not change.layout.zorder and change.layout.sort != before.sort,
    )
    return _choose_files(table, record, change)


def _choose_files(table: Table, record: StagedBranch, change: StageRequest) -> StagedBranch:
    """Return the attempt with the files that gain, if a selection is requested and possible."""
    # its branch was created earlier, and main has moved since
    is_old = record.base != find_ref_snapshot(table, MAIN_BRANCH)
    if change.filters is None or change.files is not None or change.layout.promoted or is_old:
        return record
    files = list_data_files(table, record.base)
    found = select_files(files.values(), _find_file_shape(table, record), find_files_read(table, change.filters))
    if not found.files:
        raise LakeError(
            f"no file of {record.table} gains by {record.layout}: {format_selection(0, found.left_out)}",
            hint="autopilot.stage.only_read: false rewrites all files",
        )
    return record.update(files=found.files, left_out=found.left_out) if found.left_out else record


def _find_file_shape(table: Table, record: StagedBranch) -> FileShape | None:
    """Return the shape of files with the layout.

    Return None if a file doesn't show it: z-order, bloom filters, file size.
    """
    if record.properties or record.layout.zorder:
        return None
    spec, order = resolve_partition_spec(table.metadata, record.layout.partition), find_order_id(table.metadata, record)
    return None if record.layout.sort and not order else FileShape(spec.spec_id, order)


def _find_base(table: Table, change: StageRequest) -> int:
    """Return the snapshot at which the branch begins: main's, or that of an existing branch."""
    name, main = branch_name(change.attempt_id), find_ref_snapshot(table, MAIN_BRANCH)
    if main is None:
        raise LakeError(f"{change.table} has no rows")
    made = find_ref_snapshot(table, name)
    if made is not None and made not in list_ancestors(table, main):
        raise LakeError(
            f"the branch {name} of {change.table} is at {made}, which is not on main, and it has no record",
            hint="the branch belongs to another or lost state store; remove it",
        )
    return main if made is None else made
