"""Backup and restore, wired from the settings, with their audit entries."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from neve import __version__
from neve.app.wiring import build_documents, build_state, check_state_format
from neve.backup.archive import Archive
from neve.backup.job import Restore, Restorer, create_backup
from neve.errors import TableMissing
from neve.ingest.stream.writer import read_positions
from neve.model.signals import Signal
from neve.model.tables import BY_SIGNAL
from neve.raw.zone import OTLP, RawZone
from neve.state.audit import record_command
from neve.state.export import export_state, import_state
from neve.state.redis_documents import RedisDocuments

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.backup.archive import Manifest
    from neve.lake.lake import Lake

RAW_STREAM = "raw"


def back_up(settings: Settings, lake: Lake, destination: str, *, force: bool = False) -> Manifest:
    """Write a backup of the catalog and the state store."""
    state, documents = build_state(settings), build_documents(settings)
    try:
        check_state_format(documents)
        redis = documents if isinstance(documents, RedisDocuments) else None
        archive = Archive(_plain(destination), settings.s3)
        made = create_backup(
            lake, archive, __version__, documents.now(), partial(export_state, state, redis), force=force
        )
        record_command(documents, "backup.create", made.created_at, tables=made.tables, keys=made.keys)
        return made
    finally:
        documents.close()
        state.close()


def restore(
    settings: Settings, lake: Lake, source: str, *, exact: bool = False, force: bool = False, dry_run: bool = False
) -> Restore:
    """Restore a backup, or say what a restore would do. Nothing is changed if something exists and is not forced."""
    restorer = Restorer(lake, Archive(_plain(source), settings.s3), exact)
    planned, export, metadata = restorer.plan()
    if dry_run:
        return planned
    state, documents = build_state(settings), build_documents(settings)
    try:
        check_state_format(documents)
        import_state(export, state, documents, force=force)
        restorer.register(planned.tables, metadata, force=force)
        done = replace(planned, is_dry_run=False, gaps=find_gaps(settings, lake))
        record_command(
            documents,
            "backup.restore",
            planned.manifest.created_at,
            tables=len(done.tables),
            newer=sum(table.is_newer for table in done.tables),
            complete=done.is_complete,
        )
        return done
    finally:
        documents.close()
        state.close()


def find_gaps(settings: Settings, lake: Lake) -> tuple[str, ...]:
    """Return segments that a table does not have according to its position, and that the raw zone has removed."""
    zone = RawZone.of(settings.raw.location, settings.s3, OTLP)
    present: dict[str, list[int]] = {}
    for segment in zone.segments():
        present.setdefault(segment.writer, []).append(segment.number)
    consumed = zone.read_consumed()
    gaps = []
    for signal in Signal:
        name = BY_SIGNAL[signal].name
        try:
            positions = read_positions(lake.table(name), RAW_STREAM)
        except TableMissing:
            continue
        for writer, next_number in consumed.items():
            position = positions.get(writer, 0)
            first = min((number for number in present.get(writer, []) if number >= position), default=next_number)
            if first > position:
                gaps.append(f"{name}: segments {position} to {first - 1} of writer {writer} were removed")
    return tuple(gaps)


def _plain(location: str) -> str:
    return location.rstrip("/").removeprefix("file://")
