"""Tables as they are now: what has not changed is not read again, and what has is seen at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from neve.errors import TableMissing
from neve.lake.lake import Lake
from neve.model.signals import Signal
from neve.query.tables import TableLoader
from tests.query.lakes import ACME, fork_lake, logs, put

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table


@pytest.fixture
def own(lake: Lake, tmp_path: Path, iceberg: None) -> Lake:
    """A lake that a test may change."""
    return fork_lake(lake, tmp_path)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose metadata was read."""
    read: list[str] = []
    load = Lake.table_metadata

    def table_metadata(lake: Lake, name: str, location: str | None = None) -> Table:
        read.append(name)
        return load(lake, name, location)

    monkeypatch.setattr(Lake, "table_metadata", table_metadata)
    return read


def test_metadata_is_read_once_until_it_changes(own: Lake, loads: list[str]) -> None:
    """Also when somebody else changed it; other tables stay known."""
    loader = TableLoader(own)
    before = loader.look()
    first = before.table("logs")
    assert loader.look().table("logs") is first
    assert loads == ["logs"]
    put(own, ACME, Signal.LOGS, logs("third"), batch="more")
    loads.clear()
    after = loader.look().table("logs")
    assert loads == ["logs"]
    assert after.metadata.current_snapshot_id != first.metadata.current_snapshot_id
    assert after.metadata.current_snapshot_id == own.table("logs").metadata.current_snapshot_id


def test_one_look_sees_one_state(own: Lake) -> None:
    """A table that is asked for twice is the same, whatever happened meanwhile."""
    look = TableLoader(own).look()
    first = look.table("logs")
    put(own, ACME, Signal.LOGS, logs("third"), batch="more")
    assert look.table("logs") is first


def test_a_catalog_that_tells_no_places_is_asked_each_time(
    own: Lake, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those that hand out metadata themselves."""
    monkeypatch.setattr("neve.lake.lake.Lake.metadata_locations", lambda _lake: {})
    loader = TableLoader(own)
    loader.look().table("logs")
    look = loader.look()
    assert look.table("logs") is look.table("logs")
    assert loads == ["logs", "logs"]


def test_a_table_that_is_gone_is_missing(own: Lake) -> None:
    """Though it was known."""
    loader = TableLoader(own)
    loader.look().table("logs")
    own.catalog.drop_table("telemetry.logs")
    with pytest.raises(TableMissing, match=r"telemetry\.logs"):
        loader.look().table("logs")
