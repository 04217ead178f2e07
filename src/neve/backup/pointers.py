"""Pointers of a catalog: the metadata file of each table, the newest one in storage, and files that it lacks."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable

from neve.lake.catalog import pyiceberg_properties
from neve.lake.read.snapshot_files import iterate_entries, list_manifests
from neve.lake.storage.filesystem import resolve_filesystem
from neve.model.tables import LOGS, METRICS, QUARANTINE, SPANS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.metadata import TableMetadata

    from neve.lake.lake import Lake

METADATA_FILE = re.compile(r"(\d+)-[^/]+\.metadata\.json")
# Other tables refer to snapshots and batches of these, so they are read last.
SOURCES = (QUARANTINE.name, SPANS.name, LOGS.name, METRICS.name)


@dataclass(frozen=True)
class Pointer:
    """A table and the location of its metadata file."""

    table: str
    location: str
    uuid: str
    snapshot_id: int | None


def read_pointers(lake: Lake) -> Iterator[tuple[Pointer, bytes]]:
    """Yield the pointer of each table, with the bytes of its metadata file: derived tables before their sources."""
    known = lake.metadata_locations()  # one statement, where the catalog is a database
    names = sorted(known or lake.table_names(), key=lambda name: (name in SOURCES, name))
    for name in names:
        location = known.get(name) or lake.table(name).metadata_location
        metadata = load_metadata(lake, location)
        yield Pointer(name, location, str(metadata.table_uuid), metadata.current_snapshot_id), read_file(lake, location)


def load_metadata(lake: Lake, location: str) -> TableMetadata:
    """Read a metadata file."""
    return FromInputFile.table_metadata(load_file_io(_properties(lake), location).new_input(location))


def find_newest(lake: Lake, pointer: Pointer) -> str | None:
    """Return the newest metadata file of a table, at or after that of a pointer; None if there is none.

    Of two files with the same number one lost a race, or its writer was killed. Which one the catalog had is not
    known. Then their common parent is chosen, if there is one: streams read again what the lost commit had.
    """
    folder, _, name = pointer.location.rpartition("/")
    first = _number_of(name)
    by_number: dict[int, list[str]] = {}
    for file in _list_files(lake, folder):
        number = _number_of(file)
        if number is not None and (first is None or number >= first):
            by_number.setdefault(number, []).append(f"{folder}/{file}")
    for number in sorted(by_number, reverse=True):
        usable = [path for path in by_number[number] if _is_usable(lake, path, pointer.uuid)]
        if len(usable) == 1:
            return usable[0]
        parents = {_parent_of(lake, path) for path in usable}
        if len(parents) == 1 and (parent := parents.pop()) and _is_usable(lake, parent, pointer.uuid):
            return parent
    return None


def find_missing_files(lake: Lake, location: str) -> list[str]:
    """Return files that the current snapshot of a table needs and that are not in storage."""
    table = StaticTable.from_metadata(location, _properties(lake))
    if table.current_snapshot() is None:
        return []
    try:
        needed = {entry.data_file.file_path for entry in iterate_entries(table)}
    except OSError as error:
        return [(str(error).splitlines() or [""])[0]]
    return sorted(path for path in needed if not _exists(lake, path))


def read_file(lake: Lake, path: str) -> bytes:
    """Return the bytes of a file."""
    filesystem, inner = resolve_filesystem(path, lake.s3)
    with filesystem.open_input_stream(inner, compression=None) as stream:
        data: bytes = stream.read()
        return data


def write_file(lake: Lake, path: str, data: bytes) -> None:
    """Write a file."""
    filesystem, inner = resolve_filesystem(path, lake.s3)
    with filesystem.open_output_stream(inner) as stream:
        stream.write(data)


def _exists(lake: Lake, path: str) -> bool:
    filesystem, inner = resolve_filesystem(path, lake.s3)
    return bool(filesystem.get_file_info(inner).is_file)


def _is_usable(lake: Lake, path: str, uuid: str) -> bool:
    """Return whether a file is metadata of the same table, and its snapshot has its manifests."""
    try:
        table = StaticTable.from_metadata(path, _properties(lake))
        has_manifests = all(_exists(lake, manifest.manifest_path) for manifest in list_manifests(table))
    except (OSError, ValueError):
        return False
    return has_manifests and str(table.metadata.table_uuid) == uuid


def _parent_of(lake: Lake, path: str) -> str | None:
    log = load_metadata(lake, path).metadata_log
    return log[-1].metadata_file if log else None


def _list_files(lake: Lake, folder: str) -> list[str]:
    filesystem, inner = resolve_filesystem(folder, lake.s3)
    found = filesystem.get_file_info(pafs.FileSelector(inner, allow_not_found=True))
    return [info.base_name for info in found if info.is_file]


def _number_of(name: str) -> int | None:
    match = METADATA_FILE.fullmatch(name)
    return int(match[1]) if match else None


def _properties(lake: Lake) -> dict[str, str]:
    return pyiceberg_properties(lake.catalog_config, lake.lake, lake.s3)  # the catalog may not exist yet


def dump_pointers(pointers: list[Pointer]) -> bytes:
    """Return pointers as bytes."""
    return json.dumps([vars(pointer) for pointer in pointers], indent=1).encode()


def load_pointers(data: bytes) -> list[Pointer]:
    """Return the pointers of `dump_pointers`."""
    return [Pointer(**values) for values in json.loads(data)]
