"""Maintenance as the settings describe it: what other rooms need is kept out of its way."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from neve.compact.journal import GROUPS, RUNS
from neve.lake.lake import identify
from neve.maintain.job import Maintainer
from neve.maintain.work import Guards
from neve.model.rollups import LEVELS
from neve.model.tail import OPEN_TRACES
from neve.rollup.position import Position
from neve.tail.position import Position as TailPosition
from neve.tail.position import stream

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.maintain.work import Tell

LEAST_HORIZON = timedelta(hours=1)  # a commit that is tried again looks for its batch among the snapshots


def build_maintainer(
    settings: Settings, lake: Lake, documents: Documents, tell: Tell, *, steal: bool = False
) -> Maintainer:
    """The maintainer of a lake; `steal` takes the lease of another that is known to be dead."""
    return Maintainer(lake, settings.maintain, guards_of(settings, lake, documents), documents, tell, steal=steal)


def guards_of(settings: Settings, lake: Lake, documents: Documents) -> Guards:
    """What ingestion finds duplicates by, folders that are no table's, and what compaction's journal speaks for."""
    horizon = timedelta(seconds=settings.ingest.deduplicate_seconds)
    own = (settings.raw.location, settings.ingest.checkpoints, lake.exchange.folder)
    return Guards(
        horizon=max(horizon, LEAST_HORIZON),
        kept_out=tuple(map(_absolute, own)),
        folders=lambda: tuple(str(run["folder"]) for _key, run in documents.entries(RUNS)),
        batches=lambda: frozenset(str(group["batch_id"]) for _key, group in documents.entries(GROUPS)) - {""},
        readers=lambda name: (*readers_of(lake, name), *selectors_of(settings, lake, name)),
    )


def readers_of(lake: Lake, name: str) -> tuple[tuple[str, int], ...]:
    """The rollups that are made from a table, and the snapshot that each has come to."""
    found = []
    for level in LEVELS:
        if identify(name) == identify(level.source) and level.table in lake.table_names():
            position = Position.of(lake.table(level.table))
            if position is not None and position.snapshot is not None:
                found.append((level.table, position.snapshot))
    return tuple(found)


def selectors_of(settings: Settings, lake: Lake, name: str) -> tuple[tuple[str, int], ...]:
    """The selector that reads spans from a table, and the snapshot that it has come to."""
    config = settings.tail
    mine = config.source.catalog is None and identify(name) == identify(config.source.table)
    if not mine or OPEN_TRACES.name not in lake.table_names():
        return ()
    position = TailPosition.of(lake.table(OPEN_TRACES.name), config.name)
    return ((stream(config.name), position.snapshot_id),) if position and position.snapshot_id is not None else ()


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(place).expanduser().resolve())
