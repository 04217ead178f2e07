"""Export of lake rows as OTAP: plan the tasks, write parts on Spark, and mark the folder so that it is done once.

The same table always gives the same plan. The marker in the folder records what was begun, what was finished, and
from which files of the lake.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs
import xxhash

from neve.errors import InputError
from neve.lake.read.snapshot_files import scan_files
from neve.lake.spark.tasks import run_tasks
from neve.lake.storage.filesystem import resolve_filesystem
from neve.lake.write.table_writer import Target
from neve.otap.tables import PART_ID, STARS
from neve.reservoir.otap.export_task import ExportTask, ExportTotals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import FileScanTask, Table

    from neve.lake.config import S3Config
    from neve.lake.lake import Lake
    from neve.reservoir.otap.export_task import ExportRequest


FOLDER = "_neve/exports"  # readers of OTAP skip names that begin with an underscore


@dataclass(frozen=True)
class ExportMarker:
    """Progress of an export: `tasks` is the number of parts that it may have begun, `done` the final result."""

    fingerprint: str
    tasks: int
    done: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ExportFolder:
    """Folder of an export, for the driver: its marker, and the parts that a run wrote to it."""

    request: ExportRequest
    s3: S3Config

    @property
    def path(self) -> str:
        """The path of the marker inside its file system."""
        return f"{self._base.rstrip('/')}/{FOLDER}/{self.request.key}.json"

    def read(self) -> ExportMarker | None:
        """Return the marker of an earlier run of the same request."""
        try:
            with self._filesystem.open_input_stream(self.path, compression=None) as stream:
                return ExportMarker(**json.loads(stream.read()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise InputError(
                f"can't read {self.path}: {error}", hint="export into another folder, or remove this one"
            ) from error

    def write(self, marker: ExportMarker) -> None:
        """Write the marker atomically."""
        if self._filesystem.type_name == "local":
            self._filesystem.create_dir(self.path.rpartition("/")[0], recursive=True)
        new = f"{self.path}.new"
        with self._filesystem.open_output_stream(new, compression=None) as stream:
            stream.write(json.dumps(asdict(marker), indent=2).encode())
        self._filesystem.move(new, self.path)

    def remove_parts(self, marker: ExportMarker) -> None:
        """Remove the parts of a run that was interrupted, or whose source rows have changed since; roots first."""
        for task in range(marker.tasks):
            piece = 0
            while self._remove(self.request.part_id(task, piece)):
                piece += 1

    def has_all(self, marker: ExportMarker) -> bool:
        """Return whether every part of a finished run still exists."""
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
        return resolve_filesystem(self.request.folder, self.s3)[1]

    @property
    def _filesystem(self) -> pafs.FileSystem:
        return resolve_filesystem(self.request.folder, self.s3)[0]


TASK_BYTES = 128 * 1024 * 1024  # of data files; does not depend on cores: every machine makes the same parts


@dataclass(frozen=True)
class ExportPlan:
    """Files of each task, and a hash that changes when any of them does."""

    tasks: tuple[tuple[FileScanTask, ...], ...]
    fingerprint: str


def plan_export(table: Table, request: ExportRequest) -> ExportPlan:
    """Plan the files that may have rows of the request, in the order of their paths."""
    files = sorted(scan_files(table, request.row_filter), key=lambda task: task.file.file_path)
    told = "\n".join(_file_identity(file) for file in files)
    return ExportPlan(split_into_tasks(files, TASK_BYTES), xxhash.xxh3_128_hexdigest(told.encode()))


def split_into_tasks(files: Sequence[FileScanTask], most: int) -> tuple[tuple[FileScanTask, ...], ...]:
    """Split files into runs of neighbours of at most `most` bytes; a larger file is alone."""
    runs: list[list[FileScanTask]] = []
    held = most
    for file in files:
        size = file.file.file_size_in_bytes
        if held + size > most:
            runs.append([])
            held = 0
        runs[-1].append(file)
        held += size
    return tuple(map(tuple, runs))


def _file_identity(task: FileScanTask) -> str:
    return "|".join([task.file.file_path, *sorted(deleted.file_path for deleted in task.delete_files)])


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ExportResult:
    """Result of a run: the parts that it wrote, or found already written."""

    request: ExportRequest
    exported: ExportTotals
    unchanged: bool
    replaced: bool
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON document, for `--json`."""
        request = self.request
        return {
            "folder": request.folder,
            "table": request.table,
            "organization_id": request.organization_id,
            "since": request.since.isoformat() if request.since else None,
            "until": request.until.isoformat() if request.until else None,
            "unchanged": self.unchanged,
            "replaced": self.replaced,
            **_to_document(self.exported),
            "seconds": round(self.seconds, 3),
        }


def export_otap(lake: Lake, request: ExportRequest, say: Progress = lambda *_: None) -> ExportResult:
    """Export the rows of the request to the folder.

    `say` is called with the step and its progress. If an earlier run exported the same files of the lake, nothing is
    done. If it was interrupted, or the lake has changed, its parts are removed and written again under the same ids.
    """
    started = time.monotonic()
    table = lake.table(request.table)
    plan = plan_export(table, request)
    place = ExportFolder(request, lake.s3)
    before = place.read()
    if before and before.done and before.fingerprint == plan.fingerprint and place.has_all(before):
        seconds = time.monotonic() - started
        return ExportResult(request, _from_document(before.done), unchanged=True, replaced=False, seconds=seconds)
    if before:
        place.remove_parts(before)
    begun = ExportMarker(plan.fingerprint, len(plan.tasks))
    place.write(begun)
    task = ExportTask(request, Target.of(table), lake.s3)
    whole = ExportTotals()
    if plan.tasks:
        for part in run_tasks(lake.spark, task, list(enumerate(plan.tasks)), partial(say, "writing")):
            whole.add(part)
    place.write(ExportMarker(plan.fingerprint, len(plan.tasks), _to_document(whole)))
    return ExportResult(request, whole, False, before is not None, time.monotonic() - started)


def _to_document(exported: ExportTotals) -> dict[str, Any]:
    return {
        "parts": exported.parts,
        "files": exported.files,
        "bytes": exported.bytes,
        "rows": dict(exported.rows),
        "losses": dict(+exported.losses),
    }


def _from_document(document: dict[str, Any]) -> ExportTotals:
    counters = {name: Counter(document[name]) for name in ("rows", "losses")}
    return ExportTotals(document["parts"], document["files"], document["bytes"], **counters)
