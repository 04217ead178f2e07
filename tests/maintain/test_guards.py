"""What other rooms need is kept out of the way of maintenance."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from neve.app.maintain import guards_of
from neve.app.settings import Settings
from neve.compact.journal import GROUPS, RUNS
from neve.ingest.config import IngestConfig
from neve.lake.sql_documents import SqlDocuments
from neve.lake.state import State
from neve.lake.state_config import StateConfig
from neve.raw.config import RawConfig

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake


def test_guards_come_from_settings_and_from_the_journal(lake: Lake, tmp_path: Path) -> None:
    """The horizon of duplicates, folders of the raw zone, checkpoints and exchange, and what compaction has in work."""
    documents = SqlDocuments(State(StateConfig(path=str(tmp_path / "state.db"))))
    settings = Settings(
        raw=RawConfig(location=str(tmp_path / "raw")), ingest=IngestConfig(deduplicate_seconds=2 * 86_400)
    )
    guards = guards_of(settings, lake, documents)
    assert guards.horizon == timedelta(days=2)
    assert {str(tmp_path / "raw"), lake.exchange.folder} <= set(guards.kept_out)
    assert all(place.startswith("/") for place in guards.kept_out)
    assert (guards.folders(), guards.batches()) == ((), frozenset())
    documents.put(RUNS, "telemetry.spans/r1", {"folder": "file:///w/spans/data/compact-r1"})
    for group, batch in (("g1", ""), ("g2", "compact:r1:2")):
        documents.put(GROUPS, f"telemetry.spans/r1/{group}", {"batch_id": batch})
    assert guards.folders() == ("file:///w/spans/data/compact-r1",)
    assert guards.batches() == {"compact:r1:2"}
    documents.close()


def test_a_short_horizon_is_an_hour_at_least(lake: Lake, tmp_path: Path) -> None:
    """A commit that is tried again looks for its batch among the snapshots."""
    documents = SqlDocuments(State(StateConfig(path=str(tmp_path / "state.db"))))
    assert guards_of(Settings(), lake, documents).horizon == timedelta(hours=1)
