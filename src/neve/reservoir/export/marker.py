"""The note that an export leaves in its folder: what was begun, what was done, and from which files of the lake."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs

from neve.errors import InputError
from neve.lake.filesystem import filesystem_of
from neve.otap.tables import PART_ID, STARS

if TYPE_CHECKING:
    from neve.lake.config import S3Config
    from neve.reservoir.export.request import ExportRequest

FOLDER = "_neve/exports"  # readers of OTAP pass by names that begin so


@dataclass(frozen=True)
class Marker:
    """How far an export came: `tasks` is how many parts it may have begun, `done` what it wrote in the end."""

    fingerprint: str
    tasks: int
    done: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """The folder of an export, for the driver: its marker, and the parts that a run left in it."""

    request: ExportRequest
    s3: S3Config

    @property
    def path(self) -> str:
        """Where the marker is, inside its file system."""
        return f"{self._base.rstrip('/')}/{FOLDER}/{self.request.key}.json"

    def read(self) -> Marker | None:
        """What an earlier run of the same request left."""
        try:
            with self._filesystem.open_input_stream(self.path, compression=None) as stream:
                return Marker(**json.loads(stream.read()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise InputError(
                f"can't read {self.path}: {error}", hint="export into another folder, or remove this one"
            ) from error

    def write(self, marker: Marker) -> None:
        """Leave a note, whole or not at all."""
        if self._filesystem.type_name == "local":
            self._filesystem.create_dir(self.path.rpartition("/")[0], recursive=True)
        new = f"{self.path}.new"
        with self._filesystem.open_output_stream(new, compression=None) as stream:
            stream.write(json.dumps(asdict(marker), indent=2).encode())
        self._filesystem.move(new, self.path)

    def remove_parts(self, marker: Marker) -> None:
        """Remove what a run wrote that ended early, or whose rows have changed since; roots first."""
        for task in range(marker.tasks):
            piece = 0
            while self._remove(self.request.part_id(task, piece)):
                piece += 1

    def has_all(self, marker: Marker) -> bool:
        """Whether every part of a run that ended is still there."""
        root = self.request.table
        return all(self._has(f"{root}/{PART_ID}={part}") for part in marker.done["parts"])

    def _remove(self, part: str) -> bool:
        found = [table for table in STARS[self.request.table].tables if self._has(f"{table}/{PART_ID}={part}")]
        for table in found:
            self._filesystem.delete_dir(f"{self._base}/{table}/{PART_ID}={part}")
        return bool(found)

    def _has(self, folder: str) -> bool:
        kind = self._filesystem.get_file_info(f"{self._base}/{folder}").type
        return bool(kind == pafs.FileType.Directory)

    @property
    def _base(self) -> str:
        return filesystem_of(self.request.folder, self.s3)[1]

    @property
    def _filesystem(self) -> pafs.FileSystem:
        return filesystem_of(self.request.folder, self.s3)[0]
