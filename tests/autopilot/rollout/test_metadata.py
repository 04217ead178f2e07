"""What staging, publishing and taking back do to a table's metadata, without an engine."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import NoSuchTableError

from neve.autopilot.layout import Layout, PartField, Promoted
from neve.autopilot.rollout.publication import publish_branch, restore_layout
from neve.autopilot.rollout.rollout import find_merged_snapshot
from neve.autopilot.rollout.stage_setup import StageRequest, begin_attempt, stage_metadata
from neve.autopilot.rollout.stager import discard_attempt
from neve.autopilot.rollout.step_rewriter import ATTEMPT
from neve.autopilot.table_layout import current_layout
from neve.errors import LakeError
from neve.lake.commit.append import TableMoved
from neve.lake.commit.branches import IcebergBranches
from tests.autopilot.rollout.orders import TABLE, append, ids, main_of, make_orders, rows
from tests.contracts.lakes import MAKERS

if TYPE_CHECKING:
    from pathlib import Path

    from neve.autopilot.attempt import StagedBranch
    from neve.lake.lake import Lake

pytestmark = pytest.mark.long

LAYOUT = Layout(
    partition=(PartField("customer", "bucket[4]"),),
    sort=("customer", "route"),
    promoted=(Promoted("route", "tags['route']"),),
    blooms=("id",),
)
GROWING = {"last_updated_ms", "last_sequence_number", "metadata_log", "last_partition_id", "last_column_id"}


@pytest.fixture(params=["sqlite", "rest"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A lake with a table of orders: pyiceberg itself applies changes to one, a server to the other."""
    part, make = MAKERS[request.param]
    lake = make(tmp_path, request.getfixturevalue(part) if part else None)
    lake.create()
    with contextlib.suppress(NoSuchTableError):
        lake.catalog.drop_table(TABLE)
    make_orders(lake, 2)
    return lake


def staged(lake: Lake) -> StagedBranch:
    """An attempt with a branch that has a commit of its own; its rows stand in for rewritten ones."""
    record = stage_metadata(lake, begin_attempt(lake.table(TABLE), StageRequest("t1", TABLE, LAYOUT)))
    IcebergBranches(lake, TABLE).create(record.branch, str(record.base))
    lake.table(TABLE).append(rows(50_000, 5), snapshot_properties={ATTEMPT: "t1"}, branch=record.branch)
    return record


def metadata_of(lake: Lake) -> dict[str, Any]:
    """The table's metadata without what only grows."""
    return lake.table(TABLE).metadata.model_dump(exclude=GROWING)


def nobody_else() -> None:
    """A lease that is held."""


def test_what_was_staged_is_gone_after_a_discard(lake: Lake) -> None:
    """Branch, snapshot, spec and column; a second discard finds nothing."""
    before, main = metadata_of(lake), main_of(lake)
    record = staged(lake)
    assert (record.new_spec, record.schema_id) == (1, 1)
    table = lake.table(TABLE)
    assert (table.metadata.default_spec_id, table.metadata.default_sort_order_id, main_of(lake)) == (0, 0, main)
    assert discard_attempt(lake, record, "test").snapshots_removed == 1
    assert metadata_of(lake) == before
    assert discard_attempt(lake, record, "again").snapshots_removed == 0
    assert len(ids(lake)) == 800


def test_a_column_that_main_was_written_with_stays(lake: Lake) -> None:
    """Main's snapshot names its schema, so that schema can't go; that is said."""
    record = staged(lake)
    append(lake, 10_000, 5)
    left = discard_attempt(lake, record, "test").left
    assert any("route" in one for one in left)
    assert "route" in lake.table(TABLE).schema().column_names
    assert len(ids(lake)) == 805


def test_a_publication_is_one_commit_and_can_be_taken_back(lake: Lake) -> None:
    """Main, tag, spec, order and properties change together; again is nothing; the way back restores them."""
    layout, main = current_layout(lake.table(TABLE)), main_of(lake)
    record = staged(lake)
    location = lake.table(TABLE).metadata_location
    table = publish_branch(lake, record, record.branch, main, nobody_else)
    assert table.metadata.metadata_log[-1].metadata_file == location
    assert set(table.metadata.refs) == {"main", "neve-before-t1"}
    found = current_layout(table)
    assert (found.partition, found.sort, found.blooms) == (LAYOUT.partition, LAYOUT.sort, LAYOUT.blooms)
    assert publish_branch(lake, record, record.branch, main, nobody_else).metadata_location == table.metadata_location
    merged = record.update(merged_from=main, merged_to=find_merged_snapshot(table, "t1"))
    assert merged.merged_to == main_of(lake) != main
    assert restore_layout(lake, merged, 3).files == "restored"
    assert (current_layout(lake.table(TABLE)), main_of(lake)) == (layout, main)
    with pytest.raises(LakeError, match="has no tag"):
        restore_layout(lake, merged, 3)


def test_main_that_moved_is_not_overwritten(lake: Lake) -> None:
    """Nothing of the publication happens: the rows that came are worth more than a layout."""
    record, main = staged(lake), main_of(lake)
    append(lake, 10_000, 5)
    before = metadata_of(lake)
    with pytest.raises(TableMoved):
        publish_branch(lake, record, record.branch, main, nobody_else)
    assert metadata_of(lake) == before
