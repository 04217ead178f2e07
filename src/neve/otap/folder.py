"""Folders of OTAP Parquet: which files are there, of which table and part, and where new ones go."""

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
    """A data file. `part` is empty where the folder does not tell it; the footers of root tables may."""

    table: str
    part: str
    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True)
class Listing(Mapping[str, tuple[OtapFile, ...]]):
    """Data files by table, in the order of their paths, and the paths of files that are none."""

    files: Mapping[str, tuple[OtapFile, ...]]
    ignored: tuple[str, ...] = ()

    def __getitem__(self, table: str) -> tuple[OtapFile, ...]:
        return self.files[table]

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def list_folder(base: str, filesystem: pafs.FileSystem) -> Listing:
    """All data files under a folder, with a folder for each part or flat."""
    base = base.rstrip("/")
    tables: dict[str, list[OtapFile]] = {}
    ignored: list[str] = []
    for info, inner in _visible(base, filesystem):
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
    return Listing({table: tuple(sorted(tables[table], key=_by_path)) for table in sorted(tables)}, _sorted(ignored))


def part_path(base: str, table: str, part: str, millis: int, uuid: str) -> str:
    """Where a new file of a part goes; without a part, straight into the folder of its table."""
    folder = f"{base.rstrip('/')}/{table}"
    return f"{folder}/{PART_ID}={part}/{_name(millis, uuid)}" if part else f"{folder}/{_name(millis, uuid)}"


def parts_of(listing: Listing, tables: Iterable[str]) -> tuple[str, ...]:
    """The parts that have a file of one of these tables."""
    return _sorted({file.part for table in tables for file in listing.get(table, ())})


def of_part(listing: Listing, part: str) -> Listing:
    """The files of one part alone."""
    return Listing({table: tuple(one for one in files if one.part == part) for table, files in listing.items()})


def _name(millis: int, uuid: str) -> str:
    return f"part-{millis}-{uuid}{ENDING}"


def _visible(base: str, filesystem: pafs.FileSystem) -> Iterator[tuple[pafs.FileInfo, tuple[str, ...]]]:
    """Files whose path has no hidden name, with the names that lead to each from the base."""
    try:
        found = filesystem.get_file_info(pafs.FileSelector(base, recursive=True))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"no such folder: {base}", hint="name a folder of OTAP Parquet tables") from error
    for info in found:
        inner = tuple(info.path[len(base) :].strip("/").split("/"))
        if info.type == pafs.FileType.File and not any(map(_is_hidden, inner)):
            yield info, inner


def _is_hidden(name: str) -> bool:
    """Whether a name says that it is no data: what is still being written, markers, checksums.

    >>> [_is_hidden(name) for name in ("_SUCCESS", ".part-1.crc", "_part_id=6f", "part-1.parquet")]
    [True, True, False, False]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _data_file(info: pafs.FileInfo, inner: tuple[str, ...]) -> OtapFile | None:
    """A file as data, if it is: a Parquet file somewhere in the folder of a table."""
    if len(inner) < 2 or not info.path.endswith(ENDING):
        return None
    part = next((name.partition("=")[2] for name in inner[1:-1] if name.startswith(f"{PART_ID}=")), "")
    modified_ms = (info.mtime_ns or 0) // 1_000_000
    return OtapFile(inner[0], part, info.path, info.size, modified_ms)


def _by_path(file: OtapFile) -> str:
    return file.path


def _sorted(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(texts))
