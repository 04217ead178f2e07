"""Create a backup of a lake, plan a restore, and restore it."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError

from neve.backup.archive import BACKUP_FORMAT, Manifest
from neve.backup.pointers import (
    Pointer,
    dump_pointers,
    find_missing_files,
    find_newest,
    load_pointers,
    read_file,
    read_pointers,
    write_file,
)
from neve.errors import LakeError
from neve.model.signals import NAMESPACE
from neve.state.export import StateExport, dump_export, load_export

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.backup.archive import Archive
    from neve.lake.lake import Lake

POINTERS, STATE = "tables.json", "state.json"


@dataclass(frozen=True)
class RestoredTable:
    """A table of a restore: where its metadata is, whether that is newer than the backup, and what is missing."""

    table: str
    location: str
    is_newer: bool
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Restore:
    """Result of a restore, or its plan."""

    is_dry_run: bool
    manifest: Manifest
    tables: tuple[RestoredTable, ...]
    documents: int
    keys: int
    gaps: tuple[str, ...] = ()  # segments of the raw zone that tables don't have and that are gone

    @property
    def is_complete(self) -> bool:
        """Return whether no file and no segment is missing."""
        return not self.gaps and not any(table.missing for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {**asdict(self), "is_complete": self.is_complete}


def create_backup(
    lake: Lake, archive: Archive, release: str, now: datetime, export: Callable[[], StateExport], *, force: bool
) -> Manifest:
    """Write a backup. The state is read first, so that it never knows of a commit that the backup lacks."""
    if archive.exists and not force:
        raise LakeError(f"{archive.location} has a backup already", hint="name another folder, or pass --force")
    state = export()
    found = list(read_pointers(lake))
    files = {f"metadata/{pointer.table}.metadata.json": data for pointer, data in found}
    files[POINTERS] = dump_pointers([pointer for pointer, _data in found])
    files[STATE] = dump_export(state)
    manifest = Manifest(
        BACKUP_FORMAT,
        release,
        now.isoformat(timespec="seconds"),
        lake.catalog_config.kind,
        lake.lake.location,
        len(found),
        len(state.documents),
        len(state.keys),
        {},
    )
    return archive.write(manifest, files)


@dataclass(frozen=True)
class Restorer:
    """Restore of one backup. `exact` restores tables as they were; else their newest metadata file is searched."""

    lake: Lake
    archive: Archive
    exact: bool = False

    def plan(self) -> tuple[Restore, StateExport, dict[str, bytes]]:
        """Return what a restore does, the state of the backup, and its metadata files by their location."""
        manifest, files = self.archive.read()
        state = load_export(files[STATE])
        pointers = load_pointers(files[POINTERS])
        metadata = {one.location: files[f"metadata/{one.table}.metadata.json"] for one in pointers}
        tables = tuple(self._plan_table(pointer, metadata[pointer.location]) for pointer in pointers)
        return Restore(True, manifest, tables, len(state.documents), len(state.keys)), state, metadata

    def register(self, tables: tuple[RestoredTable, ...], metadata: dict[str, bytes], *, force: bool) -> None:
        """Register the tables in the catalog. Raises `LakeError` if one exists, unless it is forced."""
        existing = set(self.lake.table_names()) & {table.table for table in tables}
        if existing and not force:
            raise LakeError(
                f"the catalog has {len(existing)} of the tables already, such as {min(existing)}",
                hint="pass --force to replace them; their files stay",
            )
        self.lake.create()
        catalog = self.lake.catalog
        catalog.create_namespace_if_not_exists(NAMESPACE)
        for table in tables:
            if not table.is_newer:
                self._write_missing(table.location, metadata)
            identifier = (NAMESPACE, table.table)
            if table.table in existing:
                with contextlib.suppress(NoSuchTableError):
                    catalog.drop_table(identifier)
            catalog.register_table(identifier, table.location)

    def _plan_table(self, pointer: Pointer, data: bytes) -> RestoredTable:
        newest = None if self.exact else find_newest(self.lake, pointer)
        location = newest or pointer.location
        is_newer = location != pointer.location
        if not is_newer and not self._is_there(location):
            return RestoredTable(pointer.table, location, False, self._check_copy(pointer, data))
        return RestoredTable(pointer.table, location, is_newer, tuple(find_missing_files(self.lake, location)))

    def _check_copy(self, pointer: Pointer, data: bytes) -> tuple[str, ...]:
        """Return the missing files of a table whose metadata file is only in the backup."""
        del data  # it is written when the table is registered; its data files may be gone with it
        return () if pointer.snapshot_id is None else (pointer.location,)

    def _is_there(self, location: str) -> bool:
        try:
            read_file(self.lake, location)
        except OSError:
            return False
        return True

    def _write_missing(self, location: str, metadata: dict[str, bytes]) -> None:
        if not self._is_there(location):
            write_file(self.lake, location, metadata[location])
