"""Copies of metadata share what can't change."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pydantic import ValidationError

from neve.lake.commits import append_once
from neve.lake.sharing import SHARED, share_snapshots
from tests.autopilot.recommend.made import catalog_in

if TYPE_CHECKING:
    from pathlib import Path


def test_a_copy_has_the_same_snapshots(tmp_path: Path) -> None:
    """And what is committed through such copies is what was to be committed."""
    share_snapshots()
    table = catalog_in(tmp_path).create_table("t.texts", pa.schema([("text", pa.string())]))
    for number in range(3):
        append_once(table.refresh(), [], batch_id=f"batch {number}", operation="test", summary={"n": str(number)})
    metadata = table.refresh().metadata
    copied = copy.deepcopy(metadata)
    assert copied is not metadata
    assert all(one is other for one, other in zip(copied.snapshots, metadata.snapshots, strict=True))
    assert [one.summary["n"] for one in metadata.snapshots if one.summary] == ["0", "1", "2"]
    assert len({one.snapshot_id for one in metadata.snapshots}) == 3


@pytest.mark.parametrize("kind", SHARED)
def test_what_is_shared_is_frozen(kind: type) -> None:
    """Should a release of pyiceberg change that, nothing may be shared any more."""
    made = kind.model_construct(timestamp_ms=1)  # type: ignore[attr-defined]
    with pytest.raises(ValidationError, match="frozen"):
        made.timestamp_ms = 2
