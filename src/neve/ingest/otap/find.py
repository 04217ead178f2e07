"""Which files of a folder are taken in: root files, each with the files of its part that hold the rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from neve.errors import InputError
from neve.ingest.files.find import Found, SourceFile
from neve.lake.filesystem import filesystem_of
from neve.otap.folder import list_folder
from neve.otap.star_rows import SIGNALS
from neve.otap.tables import STARS

if TYPE_CHECKING:
    from neve.lake.config import S3Config
    from neve.otap.folder import OtapFile

S3 = "s3://"

Parts = dict[str, dict[str, list[str]]]


@dataclass(frozen=True)
class Folder:
    """What is in a folder: root files with their parts, the files of each part by table, and what is left alone."""

    roots: tuple[SourceFile, ...]
    part_of: dict[str, str]
    parts: Parts
    ignored: tuple[str, ...]
    other_tables: dict[str, int]  # files by table, of those that hang on neither logs nor spans

    @property
    def found(self) -> Found:
        """The root files, as the job of files takes them."""
        return Found(self.roots, self.ignored)


def look_into(base: str, s3: S3Config) -> Folder:
    """The files of an OTAP folder; parts of several tables are told apart by their id."""
    filesystem, inner = filesystem_of(base, s3)
    prefix = S3 if base.startswith(S3) else ""
    listing = list_folder(inner, filesystem)
    known = {table for star in STARS.values() for table in star.tables}
    files = [file for table in known for file in listing.get(table, ())]
    roots = sorted((file for file in files if file.table in STARS), key=lambda file: file.path)
    parts: Parts = {}
    for file in sorted(files, key=lambda file: file.path):
        parts.setdefault(file.part, {}).setdefault(file.table, []).append(prefix + file.path)
    return Folder(
        tuple(_source(prefix, file) for file in roots),
        {prefix + file.path: file.part for file in roots},
        parts,
        tuple(prefix + path for path in listing.ignored),
        {table: len(found) for table, found in listing.items() if table not in known},
    )


def base_of(folder: str) -> str:
    """A folder as the user named it, in full."""
    if folder.startswith(S3):
        return folder.rstrip("/")
    if "://" in folder:
        raise InputError(f"{folder} is neither a local path nor an s3:// address")
    return str(Path(folder).expanduser().resolve())


def root_of(path: str) -> tuple[str, str]:
    """The folder that a root file belongs to, and its table.

    >>> root_of("/in/logs/_part_id=6f/part-1.parquet")
    ('/in', 'logs')
    """
    names = path.split("/")
    for place in range(len(names) - 2, 0, -1):
        if names[place] in STARS:
            return "/".join(names[:place]), names[place]
    raise InputError(f"{path} is not in the folder of a root table: expected {' or '.join(STARS)}")


def signal_of(path: str) -> str:
    """The signal of a root file."""
    return SIGNALS[root_of(path)[1]].value


def _source(prefix: str, file: OtapFile) -> SourceFile:
    return SourceFile(prefix + file.path, file.size, file.modified_ms * 1000)
