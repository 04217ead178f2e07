"""Statistics of all tables of a lake on this machine, without pyiceberg, which takes longer to import than to use.

Metadata files are JSON, and pyiceberg's native module reads manifests. Other catalogs, other places of files and older
formats are left to `statistics.py`, which must report the same numbers.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from neve.errors import LakeError
from neve.lake.calendar import EPOCH
from neve.lake.catalog import sqlite_path
from neve.lake.sqlite_catalog import SqliteCatalog, is_plain_sqlite
from neve.local_folders import find_file_system, is_network_file_system
from neve.model.commits import DUPLICATES
from neve.model.signals import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from pyiceberg.catalog import Catalog

    from neve.lake.config import CatalogConfig

TIME_COLUMNS = ("timestamp", "quarantined_at", "recorded_at", "decided_at")
DELETED, DELETES = 2, 1  # status of a manifest entry; content of a manifest
MICROS_BYTES = 8
AVRO_MAGIC, SYNC_BYTES = b"Obj\x01", 16


@dataclass(frozen=True)
class TableStatistics:
    """Main statistics of a table."""

    name: str
    rows: int
    files: int
    bytes: int
    snapshots: int
    earliest: datetime | None
    latest: datetime | None
    committed: datetime | None = None
    duplicates: int = 0


def read_local_statistics(config: CatalogConfig) -> list[TableStatistics] | None:
    """Return the statistics of every table, by name. None if there are none, or if pyiceberg has to read them.

    Anything unexpected is left to pyiceberg, too, whose errors say what is wrong.
    """
    file = sqlite_path(config)
    if not is_plain_sqlite(config) or not file.exists() or is_network_file_system(find_file_system(file)):
        return None
    catalog = SqliteCatalog(file, config.name, {}, _refuse_whole_catalog)
    try:
        places = catalog.metadata_locations(NAMESPACE)
        return [_read_table(name, place) for name, place in sorted(places.items())] or None
    except (LakeError, sqlite3.Error, OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def _refuse_whole_catalog() -> Catalog:
    raise LakeError("the catalog needs pyiceberg")


def _read_table(name: str, place: str) -> TableStatistics:
    metadata = json.loads(_read_file(place))
    snapshots: list[dict[str, Any]] = metadata.get("snapshots") or []
    current = next((one for one in snapshots if one["snapshot-id"] == metadata.get("current-snapshot-id")), None)
    totals = _summary(current) if current else {}
    times = _read_times(metadata, current) if current else []
    return TableStatistics(
        name=name,
        rows=int(totals.get("total-records", 0)) - int(totals.get("total-position-deletes", 0)),
        files=int(totals.get("total-data-files", 0)),
        bytes=int(totals.get("total-files-size", 0)),
        snapshots=len(snapshots),
        earliest=_moment(min(times)) if times else None,
        latest=_moment(max(times)) if times else None,
        committed=EPOCH + timedelta(milliseconds=current["timestamp-ms"]) if current else None,
        duplicates=sum(int(_summary(one).get(DUPLICATES, 0)) for one in snapshots),
    )


def _summary(snapshot: dict[str, Any]) -> dict[str, str]:
    return snapshot.get("summary") or {}


def _read_times(metadata: dict[str, Any], snapshot: dict[str, Any]) -> list[int]:
    """Return the time bounds of all data files, in microseconds."""
    schema = {one["schema-id"]: one for one in metadata["schemas"]}[metadata["current-schema-id"]]
    field = next((one["id"] for one in schema["fields"] if one["name"] in TIME_COLUMNS), None)
    if field is None:
        return []
    files = _read_data_files(snapshot["manifest-list"])
    bounds = [values[field] for file in files for values in (file.lower_bounds, file.upper_bounds) if field in values]
    if any(len(bound) != MICROS_BYTES for bound in bounds):
        raise ValueError("a time bound has another width")
    return [int.from_bytes(bound, "little", signed=True) for bound in bounds]


def _read_data_files(manifest_list: str) -> Iterator[Any]:
    from pyiceberg_core import manifest  # noqa: PLC0415 - servers import this module, and never need that one

    for one in _parse_avro(manifest.read_manifest_list, manifest_list):
        has_files = one.added_files_count != 0 or one.existing_files_count != 0
        if has_files and one.content != DELETES:
            entries = _parse_avro(manifest.read_manifest_entries, one.manifest_path)
            yield from (entry.data_file for entry in entries if entry.status != DELETED)


def _parse_avro(parse: Callable[[bytes], Any], place: str) -> list[Any]:
    """Return the entries of an Avro file. Raises `ValueError` if it is not whole: the native module would panic."""
    data = _read_file(place)
    if not data.startswith(AVRO_MAGIC) or data.count(data[-SYNC_BYTES:]) == 1:  # each block ends with the same marker
        raise ValueError("not a whole Avro file")
    try:
        return list(parse(data).entries())
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a class without a module to import it from
            raise
        raise ValueError("the native module can't read the file") from error


def _read_file(place: str) -> bytes:
    """Read a local file. Raises `ValueError` if it is elsewhere."""
    path = place.removeprefix("file://") if place.startswith("file:///") else place
    if not path.startswith("/"):
        raise ValueError("not a local path")
    with open(path, "rb") as file:
        return file.read()


def _moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
