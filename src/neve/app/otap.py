"""OTAP Parquet folders wired from the settings: import, export and check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.ingest.otap_import import ingest_otap, resolve_folder
from neve.lake.storage.filesystem import resolve_filesystem
from neve.otap.check import check_folder
from neve.otap.folder import list_folder
from neve.otap.tables import STARS
from neve.reservoir.otap.export import export_otap
from neve.reservoir.otap.export_task import ExportRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.ingest.results import OtapResult
    from neve.lake.lake import Lake
    from neve.otap.check_report import Report
    from neve.reservoir.otap.export import ExportResult

    Say = Callable[[str, int, int], None]


def import_folder(settings: Settings, lake: Lake, folder: str, organization_id: str, say: Say) -> OtapResult:
    """Import a folder of OTAP Parquet into the lake."""
    return ingest_otap(lake, settings.ingest, folder, organization_id, say)


def export_folder(
    lake: Lake,
    folder: str,
    table: str,
    organization_id: str,
    times: tuple[datetime | None, datetime | None],
    say: Say,
) -> ExportResult:
    """Export rows of the lake as a folder of OTAP Parquet; `times` are the start, and the end (exclusive)."""
    return export_otap(lake, ExportRequest(resolve_folder(folder), table, organization_id, *times), say)


def check_folders(settings: Settings, folder: str) -> list[Report]:
    """Check the tables of logs and of spans that a folder has."""
    filesystem, base = resolve_filesystem(resolve_folder(folder), settings.s3)
    found = list_folder(base, filesystem)
    return [check_folder(base, filesystem, star) for root, star in STARS.items() if root in found]
