"""Erasure wired from the settings: tables, earlier snapshots, the raw zone, the state store, and the audit entry."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING

from neve.app.maintain import build_guards
from neve.erase.exported_files import find_exported_files
from neve.erase.job import Eraser, Erasure
from neve.erase.state_documents import erase_documents
from neve.raw.zone import EVENTS, OTLP, RawZone
from neve.state.audit import record_command
from neve.tail.config import DestinationKind
from neve.text import format_count

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.erase.condition import Condition
    from neve.erase.job import Progress
    from neve.lake.lake import Lake
    from neve.state.documents import Documents

# Spaces of the state store whose documents may quote records or queries.
QUOTING_SPACES = (
    *("autopilot.attempts", "autopilot.stages", "autopilot.reports", "autopilot.outcomes", "tail.simulations"),
    *("saved-views", "silences", "rules", "jobs", "pauses", "maintain-history", "compact.history", "compact.proofs"),
    *("quarantine.retries", "watch-retries", "rules_cursors", "parts", "audit", "browser-sessions"),
    *("ingest-attempts", "stream-attempts", "announced", "boxes", "query-usage", "schedule", "compact.memory"),
)
BUSY_SECONDS = 30


def search_records(
    settings: Settings, lake: Lake, documents: Documents, condition: Condition, organization: str, progress: Progress
) -> Erasure:
    """Count the records that an erasure would remove, and change nothing."""
    eraser = _build_eraser(settings, lake, documents, condition, organization, progress)
    test = condition.text_test
    quoting = erase_documents(documents, QUOTING_SPACES, test, is_dry_run=True)[0] if test else 0
    return Erasure(
        True,
        organization,
        condition.shape,
        eraser.search(),
        eraser.search_old(),
        documents=quoting,
        segments=sum(len(zone.segments()) for zone in _zones(settings)),
    )


def erase_records(  # noqa: PLR0913 - the parts of a lake, and what to erase
    settings: Settings,
    lake: Lake,
    documents: Documents,
    condition: Condition,
    organization: str,
    progress: Progress,
    *,
    drop_refs: bool,
) -> Erasure:
    """Erase records from every copy, search again, and record the erasure. Copies that remain are in the result."""
    eraser = replace(_build_eraser(settings, lake, documents, condition, organization, progress), drop_refs=drop_refs)
    waiting = [
        f"raw zone: {format_count(len(zone.backlog()), 'segment')} not ingested yet"
        for zone in _zones(settings)
        if zone.backlog()
    ]
    tables = eraser.erase()
    removed = sum(zone.purge() for zone in _zones(settings))
    old = eraser.search_old()
    touched = {one.table for one in tables if one.matched} | set(old)
    snapshots = eraser.expire(sorted(touched))
    quoting, kept = _erase_state(settings, documents, condition)
    left = eraser.search_old()
    remaining = (
        *waiting,
        *_find_exports(settings, condition),
        *(reason for one in snapshots for reason in one.remaining),
        *(f"{name}: {format_count(rows, 'row')} in files of earlier snapshots" for name, rows in left.items()),
        *kept,
        *(
            f"{one.table} was not searched: the condition requires no text of 4 characters"
            for one in tables
            if one.how == "not searched"
        ),
    )
    result = Erasure(
        False, organization, condition.shape, tables, old, snapshots, eraser.search(), quoting, removed, remaining
    )
    record_command(
        documents,
        "erase",
        condition.shape,
        organization,
        rows=result.matched_rows,
        tables=", ".join(f"{one.table}: {one.matched}" for one in tables if one.matched),
        snapshots=sum(one.snapshots for one in snapshots),
        files=sum(one.files for one in snapshots),
        proven=result.is_proven,
        remaining="; ".join(remaining),
    )
    return result


def _build_eraser(
    settings: Settings, lake: Lake, documents: Documents, condition: Condition, organization: str, progress: Progress
) -> Eraser:
    readers = build_guards(settings, lake, documents).readers
    now_ms = int(documents.now().timestamp() * 1000)
    others = tuple(
        one.table for one in settings.tail.export.destinations if one.kind is DestinationKind.ICEBERG and one.table
    )
    return Eraser(lake, condition, organization, now_ms, readers, progress, others=others)


def _find_exports(settings: Settings, condition: Condition) -> list[str]:
    """Return the exported files that have the texts; they are not changed."""
    test = condition.text_test
    if test is None:
        return []
    return [
        f"destination {one.name}: {name}"
        for one in settings.tail.export.destinations
        if one.kind is DestinationKind.OTLP_FILES
        for name in find_exported_files(one.folder, settings.s3, test)
    ]


def _zones(settings: Settings) -> tuple[RawZone, ...]:
    return tuple(RawZone.of(settings.raw.location, settings.s3, name) for name in (OTLP, EVENTS))


def _erase_state(settings: Settings, documents: Documents, condition: Condition) -> tuple[int, tuple[str, ...]]:
    test = condition.text_test
    if test is None:
        return 0, ()
    found = erase_documents(documents, QUOTING_SPACES, test, is_dry_run=False)
    if settings.state.file is not None and settings.state.file.exists():
        _compact_file(str(settings.state.file))
    return found


def _compact_file(path: str) -> None:
    """Write the file of the state store again, because SQLite keeps the bytes of replaced documents in free pages."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
