"""Copies of metadata share what can't change, and a transaction makes few of them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pydantic import ValidationError

from neve.lake.commit.append import append_once
from neve.lake.commit.snapshot_copy_patch import SHARED_CLASSES, patch_snapshot_copies
from tests.autopilot.recommend.made import catalog_in

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.lake
def test_a_copy_has_the_same_snapshots(tmp_path: Path) -> None:
    """And what is committed through such copies is what was to be committed."""
    patch_snapshot_copies()
    table = catalog_in(tmp_path).create_table("t.texts", pa.schema([("text", pa.string())]))
    for number in range(3):
        append_once(table.refresh(), [], batch_id=f"batch {number}", operation="test", summary={"n": str(number)})
    metadata = table.refresh().metadata
    copied = copy.deepcopy(metadata)
    assert copied is not metadata
    for shared in ("snapshots", "snapshot_log", "metadata_log", "schemas", "partition_specs", "sort_orders"):
        copies, originals = getattr(copied, shared), getattr(metadata, shared)
        assert originals
        assert copies is not originals
        assert all(one is other for one, other in zip(copies, originals, strict=True))
    assert [one.summary["n"] for one in metadata.snapshots if one.summary] == ["0", "1", "2"]
    assert len({one.snapshot_id for one in metadata.snapshots}) == 3


@pytest.mark.lake
def test_a_transaction_shows_each_of_its_states(tmp_path: Path) -> None:
    """Metadata is computed once for a state and anew after each update; the table is unchanged until the end."""
    patch_snapshot_copies()
    table = catalog_in(tmp_path).create_table("t.texts", pa.schema([("text", pa.string())]))
    with table.transaction() as transaction:
        before = transaction.table_metadata
        assert before is not table.metadata
        assert before == table.metadata
        assert transaction.table_metadata is before
        transaction.set_properties(owner="ann")
        first = transaction.table_metadata
        assert transaction.table_metadata is first
        transaction.set_properties(owner="bob")
        shown = [metadata.properties.get("owner") for metadata in (before, first, transaction.table_metadata)]
        assert shown == [None, "ann", "bob"]
        assert "owner" not in table.metadata.properties
    assert table.refresh().properties["owner"] == "bob"


@pytest.mark.parametrize("kind", SHARED_CLASSES)
def test_what_is_shared_is_frozen(kind: type) -> None:
    """Should a release of pyiceberg change that, nothing may be shared any more."""
    made = kind.model_construct()  # type: ignore[attr-defined]
    for name in kind.model_fields:  # type: ignore[attr-defined]
        with pytest.raises(ValidationError, match="frozen"):
            setattr(made, name, 2)
