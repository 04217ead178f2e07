"""OTAP folders as the settings describe them: into the lake, out of it, and looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.ingest.otap.find import base_of
from neve.ingest.otap.job import ingest_otap
from neve.lake.filesystem import filesystem_of
from neve.otap.check import check_folder
from neve.otap.folder import list_folder
from neve.otap.tables import STARS
from neve.reservoir.export.job import export_otap
from neve.reservoir.export.request import ExportRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.ingest.otap.result import OtapResult
    from neve.lake.lake import Lake
    from neve.otap.report import Report
    from neve.reservoir.export.job import ExportResult

    Say = Callable[[str, int, int], None]


def import_folder(settings: Settings, lake: Lake, folder: str, organization_id: str, say: Say) -> OtapResult:
    """Take a folder of OTAP Parquet into the lake."""
    return ingest_otap(lake, settings.ingest, folder, organization_id, say)


def export_folder(
    lake: Lake,
    folder: str,
    table: str,
    organization_id: str,
    times: tuple[datetime | None, datetime | None],
    say: Say,
) -> ExportResult:
    """Write rows of the lake as a folder of OTAP Parquet; `times` are the first that counts, and the first after."""
    return export_otap(lake, ExportRequest(base_of(folder), table, organization_id, *times), say)


def check_folders(settings: Settings, folder: str) -> list[Report]:
    """Check the tables of logs and of spans, whichever a folder has."""
    filesystem, base = filesystem_of(base_of(folder), settings.s3)
    found = list_folder(base, filesystem)
    return [check_folder(base, filesystem, star) for root, star in STARS.items() if root in found]
