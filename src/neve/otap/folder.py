"""Folders of OTAP Parquet: list the files by table and part, and build the paths of new files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from neve.errors import InputError
from neve.otap.tables import PART_ID, STARS

if TYPE_CHECKING:
    from collections.abc import Iterable

ENDING = ".parquet"


@dataclass(frozen=True)
class OtapFile:
    """A data file. `part` is empty if the path does not contain it; the footers of root tables may."""

    table: str
    part: str
    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True)
class Listing(Mapping[str, tuple[OtapFile, ...]]):
    """Data files by table, in the order of their paths, and the paths of other files."""

    files: Mapping[str, tuple[OtapFile, ...]]
    ignored: tuple[str, ...] = ()

    def __getitem__(self, table: str) -> tuple[OtapFile, ...]:
        return self.files[table]

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def list_folder(base: str, filesystem: pafs.FileSystem) -> Listing:
    """List all data files under a folder, with a folder for each part or flat."""
    base = base.rstrip("/")
    tables: dict[str, list[OtapFile]] = {}
    ignored: list[str] = []
    for info, inner in _list_visible(base, filesystem):
        file = _data_file(info, inner)
        if file:
            tables.setdefault(file.table, []).append(file)
        else:
            ignored.append(info.path)
    if not tables.keys() & STARS.keys():
        found = ", ".join(sorted(tables)) or "none"
        raise InputError(
            f"no OTAP root table in {base}: found {found}, expected a folder {' or '.join(STARS)} with {ENDING} files",
            hint="name the folder that holds the folders of the tables",
        )
    return Listing(
        {table: tuple(sorted(tables[table], key=_by_path)) for table in sorted(tables)}, _sort_texts(ignored)
    )


def part_path(base: str, table: str, part: str, millis: int, uuid: str) -> str:
    """Return the path of a new file of a part; without a part, directly in the folder of its table."""
    folder = f"{base.rstrip('/')}/{table}"
    return f"{folder}/{PART_ID}={part}/{_file_name(millis, uuid)}" if part else f"{folder}/{_file_name(millis, uuid)}"


def list_parts(listing: Listing, tables: Iterable[str]) -> tuple[str, ...]:
    """Return the parts that have a file of one of these tables."""
    return _sort_texts({file.part for table in tables for file in listing.get(table, ())})


def select_part(listing: Listing, part: str) -> Listing:
    """Return the files of one part."""
    return Listing({table: tuple(one for one in files if one.part == part) for table, files in listing.items()})


def _file_name(millis: int, uuid: str) -> str:
    return f"part-{millis}-{uuid}{ENDING}"


def _list_visible(base: str, filesystem: pafs.FileSystem) -> Iterator[tuple[pafs.FileInfo, tuple[str, ...]]]:
    """Yield files whose path has no hidden name, with the names of the path from the base."""
    try:
        found = filesystem.get_file_info(pafs.FileSelector(base, recursive=True))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"no such folder: {base}", hint="name a folder of OTAP Parquet tables") from error
    for info in found:
        inner = tuple(info.path[len(base) :].strip("/").split("/"))
        if info.type == pafs.FileType.File and not any(map(_is_hidden, inner)):
            yield info, inner


def _is_hidden(name: str) -> bool:
    """Return whether a name marks a file that is no data: unfinished files, markers, checksums.

    >>> [_is_hidden(name) for name in ("_SUCCESS", ".part-1.crc", "_part_id=6f", "part-1.parquet")]
    [True, True, False, False]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _data_file(info: pafs.FileInfo, inner: tuple[str, ...]) -> OtapFile | None:
    """Return a file as a data file if it is a Parquet file in the folder of a table, else None."""
    if len(inner) < 2 or not info.path.endswith(ENDING):
        return None
    part = next((name.partition("=")[2] for name in inner[1:-1] if name.startswith(f"{PART_ID}=")), "")
    modified_ms = (info.mtime_ns or 0) // 1_000_000
    return OtapFile(inner[0], part, info.path, info.size, modified_ms)


def _by_path(file: OtapFile) -> str:
    return file.path


def _sort_texts(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(texts))
