"""A change that is asked for, and the attempt that it begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.autopilot.recommend.current import current_layout
from neve.autopilot.stage.asked import files_read
from neve.autopilot.stage.gain import Shape, files_that_gain, said
from neve.autopilot.stage.listing import files_at
from neve.autopilot.stage.prepare import order_id_of
from neve.autopilot.stage.record import Before, Record, State
from neve.autopilot.stage.shape import properties_for, spec_for
from neve.errors import ConfigError, LakeError
from neve.lake.branches import MAIN, ancestors, branch_name, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from neve.autopilot.layout import Layout
    from neve.autopilot.workload import Filter


@dataclass(frozen=True)
class Change:
    """A layout that a table is to get; `files` alone are rewritten where they are given.

    With `asked`, what queries ask of the table, the files that gain are chosen when the attempt begins.
    """

    attempt_id: str
    table: str
    layout: Layout
    files: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[Filter, ...] | None = None


def begun(table: Table, change: Change) -> Record:
    """A new attempt; raises where the change can't be made, or is none."""
    base, metadata = _base(table, change), table.metadata
    before = current_layout(table)
    if change.layout == before and not change.properties:
        raise ConfigError(f"{change.table} is laid out so already: {change.layout}")
    if change.files is not None and change.layout.promoted:
        raise ConfigError(
            f"{change.table} gets new columns, and {len(change.files)} files were named, expected all files",
            hint="a column that is filled in some files only would answer queries wrongly",
        )
    properties = properties_for(before, change.layout, change.properties)
    record = Record(
        id=change.attempt_id,
        table=change.table,
        state=State.STAGING,
        branch=branch_name(change.attempt_id),
        base=base,
        layout=change.layout,
        properties=properties,
        before=Before(
            metadata.current_schema_id,
            metadata.default_spec_id,
            metadata.default_sort_order_id,
            tuple(spec.spec_id for spec in metadata.partition_specs),
            {key: table.properties.get(key) for key in properties},
        ),
        files=change.files,
        sets_order=not change.layout.zorder and change.layout.sort != before.sort,
    )
    return _chosen(table, record, change)


def _chosen(table: Table, record: Record, change: Change) -> Record:
    """The attempt with the files that gain, where they are to be chosen and can be."""
    is_old = record.base != snapshot_of(table, MAIN)  # its branch was made before, and main has moved on
    if change.asked is None or change.files is not None or change.layout.promoted or is_old:
        return record
    files = files_at(table, record.base)
    found = files_that_gain(files.values(), _shape(table, record), files_read(table, change.asked))
    if not found.files:
        raise LakeError(
            f"no file of {record.table} gains by {record.layout}: {said(0, found.left_out)}",
            hint="autopilot.stage.only_read: false rewrites all files",
        )
    return record.changed(files=found.files, left_out=found.left_out) if found.left_out else record


def _shape(table: Table, record: Record) -> Shape | None:
    """What files of the layout look like; none where a file does not show it: a curve, bloom filters, its size."""
    if record.properties or record.layout.zorder:
        return None
    spec, order = spec_for(table.metadata, record.layout.partition), order_id_of(table.metadata, record)
    return None if record.layout.sort and not order else Shape(spec.spec_id, order)


def _base(table: Table, change: Change) -> int:
    """Where the branch begins: at main's snapshot, or where somebody made it already."""
    name, main = branch_name(change.attempt_id), snapshot_of(table, MAIN)
    if main is None:
        raise LakeError(f"{change.table} has no rows, so there is nothing to lay out")
    made = snapshot_of(table, name)
    if made is not None and made not in ancestors(table, main):
        raise LakeError(
            f"the branch {name} of {change.table} is at {made}, which is not main's, and nothing is known of it",
            hint="its state store is another one, or was lost; remove the branch",
        )
    return main if made is None else made
