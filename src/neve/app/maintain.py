"""Maintenance wired from the settings, with guards for files and snapshots that other packages still need."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from neve.compact.journal import GROUPS, RUNS
from neve.lake.lake import parse_table_name
from neve.maintain.job import Maintainer
from neve.maintain.step import Guards
from neve.model.decision_tables import OPEN_TRACES
from neve.model.levels import LEVELS
from neve.reservoir.tables.run_context import RESERVOIR
from neve.reservoir.tables.run_context import Position as SamplePosition
from neve.rollup.position import ROLLUP, Position
from neve.tail.checkpoint import Checkpoint as TailPosition
from neve.tail.checkpoint import build_stream_name

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.maintain.step import ProgressCallback
    from neve.state.documents import Documents

LEAST_HORIZON = timedelta(hours=1)  # a retried commit searches for its batch among the snapshots


def build_maintainer(
    settings: Settings, lake: Lake, documents: Documents, tell: ProgressCallback, *, steal: bool = False
) -> Maintainer:
    """Build the maintainer of a lake; `steal` takes the lease of another one that is known to be dead."""
    return Maintainer(lake, settings.maintain, build_guards(settings, lake, documents), documents, tell, steal=steal)


def build_guards(settings: Settings, lake: Lake, documents: Documents) -> Guards:
    """Build the guards of maintenance.

    They protect snapshots that deduplication searches, folders that belong to no table, files of the compaction
    journal, and snapshots that rollups, samples and tail sampling have not read yet.
    """
    horizon = timedelta(seconds=settings.ingest.deduplicate_seconds)
    own = (settings.raw.location, settings.ingest.checkpoints, lake.exchange.folder)
    return Guards(
        horizon=max(horizon, LEAST_HORIZON),
        excluded_folders=tuple(map(_absolute, own)),
        folders=lambda: tuple(str(run["folder"]) for _key, run in documents.entries(RUNS)),
        batches=lambda: frozenset(str(group["batch_id"]) for _key, group in documents.entries(GROUPS)) - {""},
        readers=lambda name: (
            *find_rollup_readers(lake, name),
            *find_sample_readers(lake, name),
            *find_tail_readers(settings, lake, name),
        ),
    )


def find_rollup_readers(lake: Lake, name: str) -> tuple[tuple[str, int], ...]:
    """Return the rollups of a table, each with the last snapshot that it has read."""
    found = []
    for level in LEVELS:
        if parse_table_name(name) == parse_table_name(level.source) and level.table in lake.table_names():
            position = Position.load(lake.table(level.table), ROLLUP)
            if position is not None and position.snapshot is not None:
                found.append((level.table, position.snapshot))
    return tuple(found)


def find_sample_readers(lake: Lake, name: str) -> tuple[tuple[str, int], ...]:
    """Return the sample of a table, with the last snapshot that it was drawn from."""
    sample = f"{parse_table_name(name)[-1]}_sample"
    if parse_table_name(name) != parse_table_name(parse_table_name(name)[-1]) or sample not in lake.table_names():
        return ()
    position = SamplePosition.load(lake.table(sample), RESERVOIR)
    return ((sample, position.snapshot),) if position and position.snapshot is not None else ()


def find_tail_readers(settings: Settings, lake: Lake, name: str) -> tuple[tuple[str, int], ...]:
    """Return the selector that reads spans from a table, with the last snapshot that it has read."""
    config = settings.tail
    mine = config.source.catalog is None and parse_table_name(name) == parse_table_name(config.source.table)
    if not mine or OPEN_TRACES.name not in lake.table_names():
        return ()
    position = TailPosition.of(lake.table(OPEN_TRACES.name), config.name)
    return (
        ((build_stream_name(config.name), position.snapshot_id),)
        if position and position.snapshot_id is not None
        else ()
    )


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(place).expanduser().resolve())
