"""One guarded commit: main at a branch's head, with default spec, sort order, properties and a tag to go back to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.update import (
    AddSortOrderUpdate,
    AssertRefSnapshotId,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
)

from neve.autopilot.stage.shape import order_for
from neve.errors import LakeError
from neve.lake.branches import MAIN, ancestors, refs_of, set_branch, set_tag, snapshot_of, tag_name
from neve.lake.commits import TableMoved
from neve.lake.metadata_commit import MetadataChange, commit_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from neve.autopilot.stage.record import Record
    from neve.lake.lake import Lake


def publish(lake: Lake, record: Record, branch: str, main: int, still_ours: Callable[[], None]) -> Table:
    """Let main stand where the branch does; raises `TableMoved` when main is not at `main` any more.

    The catalog takes all of it or nothing, and nothing when another writer came between.
    """

    def decide(table: Table) -> MetadataChange | None:
        if tag_name(record.id) in table.metadata.refs:
            return None
        still_ours()
        return _publication(table, record, branch, main)

    return commit_metadata(lake, record.table, decide)


def moved_order(metadata: TableMetadata, record: Record) -> bool:
    """Whether staged files name a sort order that will not be the table's: another one took its id meanwhile."""
    return record.sets_order and order_for(metadata, record.layout.sort).order_id != record.order_id


def property_updates(changed: Mapping[str, str | None]) -> list[TableUpdate]:
    """Properties that are set and, where they are none, removed."""
    given = {key: value for key, value in changed.items() if value is not None}
    removed = [key for key, value in changed.items() if value is None]
    updates: list[TableUpdate] = [SetPropertiesUpdate(updates=given)] if given else []
    return [*updates, RemovePropertiesUpdate(removals=removed)] if removed else updates


def _publication(table: Table, record: Record, branch: str, main: int) -> MetadataChange:
    metadata, head, now = table.metadata, snapshot_of(table, branch), snapshot_of(table, MAIN)
    if head is None or record.spec_id is None:
        raise LakeError(f"{record.table} has no branch {branch}: it was taken back, or is not staged yet")
    if now != main or main not in ancestors(table, head):
        raise TableMoved(f"main of {record.table} is at {now}, which {branch} does not come from")
    if metadata.default_spec_id not in (record.before.spec_id, record.spec_id):
        raise LakeError(
            f"{record.table} is partitioned by spec {metadata.default_spec_id} now, expected {record.before.spec_id}",
            hint="roll the attempt back: its estimate was about another layout",
        )
    updates: list[TableUpdate] = [
        set_branch(table, MAIN, head),
        set_tag(tag_name(record.id), main),
        *_layout_updates(metadata, record),
        *property_updates({key: value for key, value in record.properties.items() if not _is(table, key, value)}),
        *(RemoveSnapshotRefUpdate(ref_name=name) for name in refs_of(table, record.branch)),
    ]
    return MetadataChange(
        tuple(updates),
        (AssertRefSnapshotId(ref=MAIN, snapshot_id=main), AssertRefSnapshotId(ref=branch, snapshot_id=head)),
    )


def _is(table: Table, key: str, value: str | None) -> bool:
    return table.properties.get(key) == value


def _layout_updates(metadata: TableMetadata, record: Record) -> list[TableUpdate]:
    updates: list[TableUpdate] = []
    if record.spec_id is not None and record.spec_id != metadata.default_spec_id:
        updates.append(SetDefaultSpecUpdate(spec_id=record.spec_id))
    if record.sets_order:
        order = order_for(metadata, record.layout.sort)
        if all(one.order_id != order.order_id for one in metadata.sort_orders):
            updates.append(AddSortOrderUpdate(sort_order=order))
        updates.append(SetDefaultSortOrderUpdate(sort_order_id=order.order_id))
    return updates
