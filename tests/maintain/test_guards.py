"""What other rooms need is kept out of the way of maintenance."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from neve.app.maintain import build_guards
from neve.app.settings import Settings
from neve.compact.journal import GROUPS, RUNS
from neve.ingest.config import IngestConfig
from neve.lake.commit.append import append_once
from neve.model.levels import LEVELS
from neve.raw.config import RawConfig
from neve.reservoir.tables.run_context import RESERVOIR
from neve.reservoir.tables.run_context import Position as SamplePosition
from neve.rollup.position import ROLLUP
from neve.rollup.position import Position as LevelPosition
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from neve.tail.checkpoint import Checkpoint
from neve.tail.cycle_files import commit_open

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake


def test_guards_come_from_settings_and_from_the_journal(lake: Lake, tmp_path: Path) -> None:
    """The horizon of duplicates, folders of the raw zone, checkpoints and exchange, and what compaction has in work."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
    settings = Settings(
        raw=RawConfig(location=str(tmp_path / "raw")), ingest=IngestConfig(deduplicate_seconds=2 * 86_400)
    )
    guards = build_guards(settings, lake, documents)
    assert guards.horizon == timedelta(days=2)
    assert {str(tmp_path / "raw"), lake.exchange.folder} <= set(guards.excluded_folders)
    assert all(place.startswith("/") for place in guards.excluded_folders)
    assert (guards.folders(), guards.batches()) == ((), frozenset())
    documents.put(RUNS, "telemetry.spans/r1", {"folder": "file:///w/spans/data/compact-r1"})
    for group, batch in (("g1", ""), ("g2", "compact:r1:2")):
        documents.put(GROUPS, f"telemetry.spans/r1/{group}", {"batch_id": batch})
    assert guards.folders() == ("file:///w/spans/data/compact-r1",)
    assert guards.batches() == {"compact:r1:2"}
    documents.close()


def test_a_short_horizon_is_an_hour_at_least(lake: Lake, tmp_path: Path) -> None:
    """A commit that is tried again looks for its batch among the snapshots."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
    assert build_guards(Settings(), lake, documents).horizon == timedelta(hours=1)


def test_all_incremental_consumers_keep_the_snapshots_that_they_have_not_read(lake: Lake, tmp_path: Path) -> None:
    """Rollups, samples and tail sampling are readers of their own source alone, each with its snapshot."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
    readers = build_guards(Settings(), lake, documents).readers
    assert [readers(name) for name in ("metrics", "logs", "spans")] == [(), (), ()]
    level, sample = LevelPosition(7, 0, "definition"), SamplePosition(8, "policy", "how", 60, 0)
    summaries = {LEVELS[0].table: level.to_summary(ROLLUP), "logs_sample": sample.to_summary(RESERVOIR)}
    for table, summary in summaries.items():
        append_once(lake.table(table), [], batch_id="run", operation="test", summary=summary)
    commit_open(lake.table("open_traces"), [], "tail", Checkpoint(1, "spans", 9, 0, 0, "", ""))
    assert readers("metrics") == readers("telemetry.metrics") == ((LEVELS[0].table, 7),)
    assert readers("logs") == readers("telemetry.logs") == (("logs_sample", 8),)
    assert readers("spans") == (("tail:tail", 9),)
    assert readers("other.logs") == ()
